"""The tables of the TPC-C-like workload as a kind of dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

from pgdyno.features.tpcc.conditions import CONDITIONS, ITEMS
from pgdyno.server.dataset.kind import DatasetKind, Number
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import Dataset, TpccDataset, TpccLoading


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


def _tpcc(dataset: Dataset) -> TpccDataset:
    assert isinstance(dataset, TpccDataset), f"{dataset.kind} tables are not tpcc tables"
    return dataset


TPCC = Tpcc()
