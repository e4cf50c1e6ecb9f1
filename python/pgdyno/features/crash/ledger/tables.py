"""The tables of the ledger as a kind of dataset."""

from __future__ import annotations

from typing import Any

from pgdyno.server.dataset.kind import DatasetKind, Number
from pgdyno.server.dataset.pgbench_tables import LINE_POINTER_BYTES, PAGE_BYTES
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import Dataset, LedgerDataset, LedgerLoading


class Ledger(DatasetKind):
    """The two tables of the ledger. The entries are never emptied: they prove commits."""

    name = "ledger"
    options = LedgerDataset
    loading = LedgerLoading
    tables = ("pgdyno_ledger", "pgdyno_ledger_balances")
    sequences = ("pgdyno_ledger_id_seq",)
    size_option = "accounts"

    _balance_bytes = 2 * (24 + 12 + 4 + LINE_POINTER_BYTES)  # at fill factor 50
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
        return rows * (self._balance_bytes + self._key_bytes) + 4 * PAGE_BYTES

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


def _ledger(dataset: Dataset) -> LedgerDataset:
    assert isinstance(dataset, LedgerDataset), f"{dataset.kind} tables are not ledger tables"
    return dataset


LEDGER = Ledger()
