"""The table of the kinds of datasets, and how much space each needs.

How to add one: a class, a line in `KINDS`, its options in `spec.dataset`, the same options for the
engine in `engine.job`; docs/adding.md has the whole list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.errors import SpecError
from pgdyno.feature import FeatureTable

if TYPE_CHECKING:
    from pgdyno.server.dataset.kind import DatasetKind
    from pgdyno.spec.dataset import Dataset

WAL_RESERVE_BYTES = 1 << 30  # max_wal_size, which a load or a run fills, is 1 GB unless set.
_EMPTY_CLUSTER_BYTES = 24 << 20  # three copies of the template database

KINDS: FeatureTable[DatasetKind] = FeatureTable(
    "dataset_kinds", {"pgbench": "pgdyno.server.dataset.pgbench_tables:PGBENCH"}
)


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
