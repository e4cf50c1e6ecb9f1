"""The contract, fourth test: the options that a kind of dataset makes are those of the engine."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.fixtures.contract import complaints

from pgdyno.measure.loading import Loading
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.spec.dataset import (
    Dataset,
    LedgerDataset,
    PgbenchDataset,
    PgbenchLoading,
    TpccDataset,
    TpccLoading,
)

LOADS: list[tuple[Dataset, Loading]] = [
    (PgbenchDataset(), Loading()),
    (
        PgbenchDataset(scale=7, fillfactor=80, unlogged=True, foreign_keys=True),
        Loading(jobs=4, loading=PgbenchLoading(steps="dtgvp", distribute="citus:bid")),
    ),
    (PgbenchDataset(partitions=3, partition_method="hash"), Loading(hosts=2)),
    (PgbenchDataset(scale=50), Loading(hosts=3)),
    (TpccDataset(), Loading()),
    (
        TpccDataset(warehouses=30, fillfactor=90, foreign_keys=True),
        Loading(hosts=2, loading=TpccLoading(distribute="citus")),
    ),
    (TpccDataset(partitions=4, unlogged=True), Loading(resumed_with={"range_warehouses": None})),
    (LedgerDataset(accounts=8), Loading()),
]


@pytest.mark.parametrize(
    ("dataset", "how"), [load for load in LOADS if load[0].kind in KINDS], ids=repr
)
def test_the_options_of_a_dataset_are_those_of_the_engine(dataset: Dataset, how: Loading) -> None:
    assert complaints(how.engine_options(dataset)) == []


def test_an_option_that_the_engine_does_not_know_is_seen() -> None:
    assert complaints({"kind": "pgbench", "scale": 1, "extra": 1})
    assert complaints({"kind": "pgbench", "scale": "one"})


@pytest.mark.parametrize("kind", [PgbenchDataset, TpccDataset, LedgerDataset])
def test_a_number_that_no_job_can_hold_is_refused_as_an_option(kind: type[Dataset]) -> None:
    numbers = [name for name, field in kind.model_fields.items() if field.annotation is int]
    assert numbers
    for name in numbers:
        with pytest.raises(ValidationError, match="less than or equal"):
            kind(**{name: 2**64})
