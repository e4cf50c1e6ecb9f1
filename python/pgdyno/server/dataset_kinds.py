"""The kinds of datasets: sizes, marks, options of each kind. The engine makes the rows.

How to add one: a class here and a line in `KINDS`, its options in `spec.dataset`, the same options
for the engine in `engine.job`; ARCHITECTURE.md has the whole list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, LiteralString, cast

from pgdyno.capture.file import encoded, read
from pgdyno.capture.model import Capture
from pgdyno.capture.rebuild import Rebuilt
from pgdyno.errors import SpecError
from pgdyno.programs.tpcc.conditions import CHECK_HELP, CONDITIONS, ITEMS
from pgdyno.server.capture_safety import refuse_other_statements
from pgdyno.server.conditions import Condition
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import (
    CaptureDataset,
    CaptureLoading,
    Dataset,
    LedgerDataset,
    LedgerLoading,
    PgbenchDataset,
    PgbenchLoading,
    TpccDataset,
    TpccLoading,
)

# A table and an expression over all its rows, such as ("pgbench_branches", "count(*)").
Number = Callable[[str, LiteralString], int | None]

WAL_RESERVE_BYTES = 1 << 30  # max_wal_size, which a load or a run fills, is 1 GB unless set.
_EMPTY_CLUSTER_BYTES = 24 << 20  # three copies of the template database
_PAGE_BYTES, _PAGE_HEADER_BYTES, _LINE_POINTER_BYTES = 8192, 24, 4


class DatasetKind(ABC):
    """One kind of dataset. Its tables carry the mark `pgdyno dataset <name> option=value ...`."""

    name: ClassVar[str]
    options: ClassVar[type[Spec]]
    """The dataset in a spec file, and its options in every verb that loads."""
    loading: ClassVar[type[Spec]]
    """The options of `init` for this kind."""
    tables: tuple[str, ...] = ()
    is_found_by_mark: ClassVar[bool] = False
    """Its tables have no fixed names: the mark alone says which they are."""
    emptied: ClassVar[tuple[str, ...]] = ()
    """Tables without rows of the load: the reset before each run empties them."""
    keyless: ClassVar[tuple[str, ...]] = ()
    """Tables that have no primary key."""
    size_option: ClassVar[str]
    """The option for the size."""
    jobs_help: ClassVar[str] = "(default 2)."
    """Default and effect of `--load-jobs`: the end of its help."""
    kept_options: ClassVar[tuple[str, ...]] = ()
    """Engine options (numbers) that a continued load takes from the interrupted load."""

    scratch_options: ClassVar[Mapping[str, Any]] = {}
    """Options on a scratch server that differ from the defaults of `init`."""

    conditions: ClassVar[tuple[Condition, ...]] = ()
    """Queries for rows that contradict each other, used after every load and every run."""
    conditions_of_load: ClassVar[tuple[Condition, ...]] = ()
    """Conditions on rows that no run changes."""
    check_help: ClassVar[str] = ""
    """What `pgdyno check` examines, for its help."""
    part_word: ClassVar[str] = ""
    """What a part of the data is, for which conditions count violations."""

    def bound(self, dataset: Dataset) -> DatasetKind:
        """Return the kind for one dataset, which may decide the tables."""
        del dataset
        return self

    def label(self, dataset: Dataset) -> str:
        """Return the size in words, such as "scale 10"."""
        return self.size_words(self.size_of(dataset))

    @abstractmethod
    def size_words(self, size: int | None) -> str:
        """Return a size read from the tables in words."""

    @abstractmethod
    def read_size(self, number: Number) -> int | None:
        """Return the size, read from a table."""

    @abstractmethod
    def why_partial(self, number: Number, size: int | None) -> str:
        """Return the missing rows in words if all tables exist, else nothing."""

    @abstractmethod
    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of the loaded tables with their indexes."""

    def rows(self, dataset: Dataset) -> Mapping[str, int]:
        """Return the rows of each table that a load fills; empty if only the load knows them."""
        del dataset
        return {}

    @abstractmethod
    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the bytes on disk that the sort of the largest index may need."""

    def size_of(self, dataset: Dataset) -> int:
        """Return the size that the options ask for, such as the number of warehouses."""
        size: int = getattr(dataset, self.size_option)
        return size

    def locks_count(self, dataset: Dataset) -> int:
        """Return how many locks the largest transaction of a load holds; 0 = few."""
        del dataset
        return 0

    @abstractmethod
    def row_bytes(self, dataset: Dataset) -> float:
        """Return how many bytes each loaded row adds to the tables, without indexes."""

    @abstractmethod
    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the dataset as the engine's job describes it.

        Args: loading, of the kind's class; None = the defaults; jobs, connections if they were
        asked for, else 0.
        """

    def spread_options(self, dataset: Dataset, jobs: int) -> dict[str, Any]:
        """Return the additional options of a load from several hosts with `jobs` connections."""
        del dataset, jobs
        return {}

    def mark_options(self, dataset: Dataset, loading: Spec | None) -> dict[str, str]:
        """Return the options of the dataset as text for the mark."""
        fields = {**dataset.model_dump(), **(loading.model_dump() if loading else {})}
        left_out = {"kind", "steps"}
        return {k: str(v) for k, v in fields.items() if k not in left_out and v is not None}

    def resume_options(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return the options that a continued load must share with the interrupted one."""
        names = (*self.kept_options, "steps")
        return {name: str(options[name]) for name in names if options.get(name) is not None}

    def kept_from(
        self, options: Mapping[str, Any], interrupted: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return options that a continued load takes from the interrupted one."""
        names = [name for name in self.kept_options if name in interrupted and name in options]
        return {name: int(interrupted[name]) for name in names}

    def has_step(self, loading: Spec | None, steps: str) -> bool:
        """Return whether a load has one of `steps` (pgbench's letters); a whole load has all."""
        asked = self.steps_of(loading)
        return asked is None or bool(set(asked) & set(steps))

    def steps_of(self, loading: Spec | None) -> str | None:
        """Return the requested steps, None for a whole load."""
        return getattr(loading, "steps", None)


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
    jobs_help = (
        "(default 1; 2 for partitions). With at least 2, ranges of accounts are loaded in parallel."
        " VACUUM freezes them afterwards, which is more work for the server."
    )

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
        page_bytes = _PAGE_BYTES - _PAGE_HEADER_BYTES
        rows = options.scale * self.accounts_per_scale
        heap_pages = -(-rows // self._rows_per_page(options.fillfactor or 100))
        leaf_bytes = (page_bytes - 16) - _PAGE_BYTES * 10 // 100
        leaf_pages = -(-rows // (leaf_bytes // (self._index_tuple_bytes + _LINE_POINTER_BYTES)))
        small_tables_pages = 12 + options.scale // 20  # branches, tellers, keys, empty history
        return (heap_pages + leaf_pages + leaf_pages // 280 + small_tables_pages) * _PAGE_BYTES

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
        return _PAGE_BYTES / self._rows_per_page(_pgbench(dataset).fillfactor or 100)

    def _rows_per_page(self, fillfactor: int) -> int:
        kept_free_bytes = _PAGE_BYTES * (100 - fillfactor) // 100
        usable_bytes = _PAGE_BYTES - _PAGE_HEADER_BYTES - kept_free_bytes
        return max(1, usable_bytes // (self._account_tuple_bytes + _LINE_POINTER_BYTES))

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


class Tpcc(DatasetKind):
    """The nine tables of the TPC-C-like workload."""

    name = "tpcc"
    options = TpccDataset
    loading = TpccLoading
    tables = (
        *("customer", "district", "history", "item", "new_order"),
        *("order_line", "orders", "stock", "warehouse"),
    )
    keyless = ("history",)
    size_option = "warehouses"
    conditions = CONDITIONS
    conditions_of_load = (ITEMS,)
    kept_options = ("range_warehouses",)
    check_help = CHECK_HELP
    part_word = "warehouse"

    # Tables and indexes of 1 and of 4 warehouses, at the loader's fill factors (PostgreSQL 15).
    _item_bytes = 13_000_000
    _warehouse_bytes = 105_000_000
    _rows_per_warehouse = 30_000 * 3 + 9_000 + 100_000 + 300_000

    def size_words(self, size: int | None) -> str:
        """Return "10 warehouses"."""
        return f"{size} warehouse{'' if size == 1 else 's'}"

    def read_size(self, number: Number) -> int | None:
        """Count the warehouses."""
        return number("warehouse", "count(*)")

    def why_partial(self, number: Number, size: int | None) -> str:
        """Look at the end of the keys of the largest tables; never at a whole table."""
        if not size:
            return "warehouse is empty"
        ends: tuple[tuple[str, LiteralString], ...] = (
            ("stock", "max(s_w_id)"),
            ("order_line", "max(ol_w_id)"),
        )
        for table, column in ends:
            last = number(table, column)
            if last != size:
                return f"the last warehouse of {table} is {last}, not {size}"
        return ""

    def rows(self, dataset: Dataset) -> Mapping[str, int]:
        """Return the rows of the nine tables; an order has ten lines on average.

        Source: clause 4.3.3.1 of TPC-C.
        """
        warehouses = _tpcc(dataset).warehouses
        per_warehouse = {
            **{"order_line": 300_000, "stock": 100_000, "customer": 30_000, "history": 30_000},
            **{"orders": 30_000, "new_order": 9_000, "district": 10, "warehouse": 1},
        }
        return {**{k: n * warehouses for k, n in per_warehouse.items()}, "item": 100_000}

    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of tables, keys and indexes.

        Source: measured, see `_warehouse_bytes`. Limits: with a fill factor, in proportion.
        """
        options = _tpcc(dataset)
        fill = (options.fillfactor or 90) / 90
        return round(self._item_bytes + options.warehouses * self._warehouse_bytes / fill)

    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the bytes of the entries of the order lines' key."""
        return _tpcc(dataset).warehouses * 300_000 * 32

    def row_bytes(self, dataset: Dataset) -> float:
        """Return the mean over the rows of all tables."""
        return (
            0.8
            * self.tables_bytes(dataset)
            / (100_000 + _tpcc(dataset).warehouses * self._rows_per_warehouse)
        )

    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the options; the number of connections does not change the data."""
        del jobs
        return {**dataset.model_dump(), **(loading.model_dump() if loading else {})}

    def spread_options(self, dataset: Dataset, jobs: int) -> dict[str, Any]:
        """Return the warehouses of a COPY: at most ten, and a COPY for each connection."""
        options = _tpcc(dataset)
        if options.partitions:
            return {}
        return {"range_warehouses": min(10, max(1, options.warehouses // jobs))}

    def kept_from(
        self, options: Mapping[str, Any], interrupted: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the ranges of the interrupted load, whether or not it had load hosts."""
        del options
        size = interrupted.get("range_warehouses")
        return {"range_warehouses": int(size) if size else None}


class Ledger(DatasetKind):
    """The two tables of the ledger. The entries are never emptied: they prove commits."""

    name = "ledger"
    options = LedgerDataset
    loading = LedgerLoading
    tables = ("pgdyno_ledger", "pgdyno_ledger_balances")
    size_option = "accounts"
    jobs_help = "(default 1): one connection loads the only table that has rows."

    _balance_bytes = 2 * (24 + 12 + 4 + _LINE_POINTER_BYTES)  # at fill factor 50
    _key_bytes = 20

    def size_words(self, size: int | None) -> str:
        """Return "1000 accounts"."""
        return f"{size} account{'' if size == 1 else 's'}"

    def read_size(self, number: Number) -> int | None:
        """Count the balances."""
        return number("pgdyno_ledger_balances", "count(*)")

    def why_partial(self, number: Number, size: int | None) -> str:
        """Return nothing unless there is no balance."""
        del number
        return "" if size else "pgdyno_ledger_balances is empty"

    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of the balances with their key; the entries come with the load."""
        rows = _ledger(dataset).accounts
        return rows * (self._balance_bytes + self._key_bytes) + 4 * _PAGE_BYTES

    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the bytes of the entries of the balances' key."""
        return _ledger(dataset).accounts * self._key_bytes

    def row_bytes(self, dataset: Dataset) -> float:
        """Return the bytes of a balance."""
        del dataset
        return self._balance_bytes

    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the options; there is nothing to load in parallel."""
        del loading, jobs
        return dataset.model_dump()


class Captured(DatasetKind):
    """The tables of a capture. The mark says which capture, and how many rows its tables have."""

    name = "capture"
    options = CaptureDataset
    loading = CaptureLoading
    size_option = "fraction"
    is_found_by_mark = True
    jobs_help = "(default 2). Each loads one table after another."

    def __init__(self, tables: tuple[str, ...] = ()) -> None:
        """Without tables: whichever capture the database has."""
        self.tables = tables

    def bound(self, dataset: Dataset) -> DatasetKind:
        """Return the kind with the tables of the file."""
        return Captured(tuple(shape.name for shape in rebuilt_of(dataset).capture.tables))

    def size_words(self, size: int | None) -> str:
        """Return "120,000 rows of a capture"."""
        return f"{size or 0:,} rows of a capture"

    def size_of(self, dataset: Dataset) -> int:
        """Return the number of rows."""
        return rebuilt_of(dataset).rows

    def read_size(self, number: Number) -> int | None:
        """Return None: the mark has the number of rows."""
        del number
        return None

    def why_partial(self, number: Number, size: int | None) -> str:
        """Return nothing: while a load is not finished, its journal exists."""
        del number, size
        return ""

    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of tables and indexes, in proportion to the original."""
        return rebuilt_of(dataset).bytes

    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the size of the largest index of the original."""
        rebuilt = rebuilt_of(dataset)
        sizes = [index.bytes for index in rebuilt.capture.indexes]
        return round(max(sizes, default=0) * min(1.0, rebuilt.fraction))

    def row_bytes(self, dataset: Dataset) -> float:
        """Return the mean over the rows of all tables."""
        rebuilt = rebuilt_of(dataset)
        return rebuilt.bytes / max(1, rebuilt.rows)

    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the schema and the distributions."""
        del loading, jobs
        return rebuilt_of(dataset).as_engine(seed=1)

    def mark_options(self, dataset: Dataset, loading: Spec | None) -> dict[str, str]:
        """Return what identifies the capture, and the number of rows."""
        del loading
        rebuilt = rebuilt_of(dataset)
        return {
            "digest": digest_of(rebuilt.capture),
            "fraction": f"{rebuilt.fraction:g}",
            "rows": str(rebuilt.rows),
        }


def digest_of(capture: Capture) -> str:
    """Return what tells captures apart: the mark on the tables of a copy has it."""
    return sha256(encoded(capture)).hexdigest()[:12]


def rebuilt_of(dataset: Dataset) -> Rebuilt:
    """Return the copy that a dataset of the kind `capture` describes.

    Raises: SpecError if the file cannot be read.
    """
    assert isinstance(dataset, CaptureDataset), f"{dataset.kind} tables are not those of a capture"
    path = Path(dataset.file)
    changed_ns = path.stat().st_mtime_ns if path.is_file() else 0
    return _rebuilt(path, changed_ns, dataset.fraction)


@lru_cache(maxsize=8)
def _rebuilt(path: Path, changed_ns: int, fraction: float) -> Rebuilt:
    del changed_ns  # A file that changed is another capture.
    capture = read(path)
    refuse_other_statements(capture, file=str(path))
    return Rebuilt(capture, fraction)


def _ledger(dataset: Dataset) -> LedgerDataset:
    assert isinstance(dataset, LedgerDataset), f"{dataset.kind} tables are not ledger tables"
    return dataset


def _tpcc(dataset: Dataset) -> TpccDataset:
    assert isinstance(dataset, TpccDataset), f"{dataset.kind} are no tpcc tables"
    return dataset


def _pgbench(dataset: Dataset) -> PgbenchDataset:
    assert isinstance(dataset, PgbenchDataset), f"{dataset.kind} tables are not pgbench tables"
    return dataset


PGBENCH = Pgbench()
KINDS: dict[str, DatasetKind] = {
    kind.name: kind for kind in (PGBENCH, Tpcc(), Ledger(), Captured())
}


def kind_of(dataset: Dataset) -> DatasetKind:
    """Return the kind of a dataset that pgdyno loads.

    Raises: SpecError for the user's own data.
    """
    if dataset.kind not in KINDS:
        raise SpecError(
            f"A dataset of the kind {dataset.kind} cannot be loaded.",
            hint=f"use one of {', '.join(KINDS)}",
        )
    return KINDS[dataset.kind].bound(dataset)


def needed_bytes(dataset: Dataset, *, wal_bytes: int = WAL_RESERVE_BYTES) -> dict[str, int]:
    """Return how much must be free before loading, for the data and for the WAL.

    The data part includes one sort of the largest index and a tenth for the growth in a run.
    """
    if dataset.kind not in KINDS:
        return {"data": _EMPTY_CLUSTER_BYTES, "wal": wal_bytes}
    kind = KINDS[dataset.kind]
    tables = kind.tables_bytes(dataset)
    data = _EMPTY_CLUSTER_BYTES + tables + kind.sort_bytes(dataset) + tables // 10
    return {"data": data, "wal": wal_bytes}
