"""The tables of pgbench as a kind of dataset: their sizes follow from the page layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pgdyno.server.dataset.kind import DatasetKind, Number
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import Dataset, PgbenchDataset, PgbenchLoading

PAGE_BYTES, _PAGE_HEADER_BYTES, LINE_POINTER_BYTES = 8192, 24, 4


class Pgbench(DatasetKind):
    """The four tables of pgbench."""

    name = "pgbench"
    options = PgbenchDataset
    loading = PgbenchLoading
    tables = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
    emptied = ("pgbench_history",)
    keyless = ("pgbench_history",)
    size_option = "scale"
    scratch_options: ClassVar[Mapping[str, Any]] = {"scale": 10}
    kept_options = ("range_rows",)  # The number of connections may change, the ranges may not.

    accounts_per_scale = 100_000
    # Header 24, aid, bid, abalance 12, filler 1 + 84, aligned to 8.
    _account_tuple_bytes = 128
    _index_tuple_bytes = 16

    def size_words(self, size: int | None) -> str:
        """Return "scale 10"."""
        return f"scale {size}"

    def read_size(self, number: Number) -> int | None:
        """Count the branches."""
        return number("pgbench_branches", "count(*)")

    def why_partial(self, number: Number, size: int | None) -> str:
        """Look at the two ends of the accounts' key; never at a whole table."""
        if not size:
            return "pgbench_branches is empty"
        last_aid = number("pgbench_accounts", "max(aid)")
        expected = size * self.accounts_per_scale
        return "" if last_aid == expected else f"the last account is {last_aid}, not {expected}"

    def rows(self, dataset: Dataset) -> Mapping[str, int]:
        """Return the rows of the three tables that are filled."""
        scale = _pgbench(dataset).scale
        return {
            "pgbench_accounts": scale * self.accounts_per_scale,
            "pgbench_tellers": scale * 10,
            "pgbench_branches": scale,
        }

    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of tables and keys.

        Source: page layout of heap and B-tree; the tuple widths of `pgbench -i`.
        Limits: without history and without what updates add; partitions add less than 1 %.
        """
        options = _pgbench(dataset)
        page_bytes = PAGE_BYTES - _PAGE_HEADER_BYTES
        rows = options.scale * self.accounts_per_scale
        heap_pages = -(-rows // self._rows_per_page(options.fillfactor or 100))
        leaf_bytes = (page_bytes - 16) - PAGE_BYTES * 10 // 100
        leaf_pages = -(-rows // (leaf_bytes // (self._index_tuple_bytes + LINE_POINTER_BYTES)))
        small_tables_pages = 12 + options.scale // 20  # branches, tellers, keys, empty history
        return (heap_pages + leaf_pages + leaf_pages // 280 + small_tables_pages) * PAGE_BYTES

    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the bytes of the entries of the accounts' key."""
        return _pgbench(dataset).scale * self.accounts_per_scale * self._index_tuple_bytes

    def locks_count(self, dataset: Dataset) -> int:
        """Return the locks of the statement that makes the key of all partitions, or a foreign key.

        Source: pg_locks within these statements. For each partition a key takes 2 locks in
        PostgreSQL 15 and 3 in 18, ANALYZE takes 3, a foreign key 4 in 15 and 3 in 18.
        """
        options = _pgbench(dataset)
        locks_per_partition = 4 if options.foreign_keys else 3
        return locks_per_partition * options.partitions + 20 if options.partitions else 0

    def row_bytes(self, dataset: Dataset) -> float:
        """Return the bytes of an account: nearly all rows are accounts."""
        return PAGE_BYTES / self._rows_per_page(_pgbench(dataset).fillfactor or 100)

    def _rows_per_page(self, fillfactor: int) -> int:
        kept_free_bytes = PAGE_BYTES * (100 - fillfactor) // 100
        usable_bytes = PAGE_BYTES - _PAGE_HEADER_BYTES - kept_free_bytes
        return max(1, usable_bytes // (self._account_tuple_bytes + LINE_POINTER_BYTES))

    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the engine's options; two jobs or more load ranges of accounts."""
        options, how = _pgbench(dataset), cast(PgbenchLoading, loading or PgbenchLoading())
        fields = options.model_dump()
        fields["steps"] = how.steps
        if how.steps is not None and options.foreign_keys and "f" not in how.steps:
            fields["steps"] = how.steps + "f"
        if how.distribute is not None:
            server, _, column = how.distribute.partition(":")
            fields["distribute"] = {"server": server, "column": column}
        if jobs > 1 and not options.partitions:
            fields["range_rows"] = self.range_rows_for(options.scale, jobs)
        return fields

    def range_rows_for(self, scale: int, jobs: int) -> int:
        """Return how many accounts a range has: one branch, or ten where ranges are many anyway.

        A kill costs at most one range a job; each range costs a transaction.
        """
        return (10 if scale >= 40 * jobs else 1) * self.accounts_per_scale


def _pgbench(dataset: Dataset) -> PgbenchDataset:
    assert isinstance(dataset, PgbenchDataset), f"{dataset.kind} tables are not pgbench tables"
    return dataset


PGBENCH = Pgbench()
