"""Loads and targets of TPC-C-like transactions in an experiment."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.spec.test_experiment import bench

from pgdyno.errors import SpecError
from pgdyno.spec.condition import condition_from
from pgdyno.spec.experiment import (
    CompareDesign,
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    SweepDesign,
    Variant,
    Workload,
)


def test_the_new_orders_are_a_figure_for_a_minute() -> None:
    condition = condition_from("nopm>30000")
    assert (condition.limit, condition.unit) == (30000, "1/min")


def test_a_figure_of_a_transaction_type_is_named_before_a_dot() -> None:
    condition = condition_from("new-order.p90<5s", takes_types=True)
    assert (condition.of, condition.name, condition.limit) == ("new-order", "p90", 5000)
    assert condition.figure == "new-order.p90"
    file = condition_from("my orders.sql.tps > 1.5", takes_types=True)
    assert (file.of, file.name, file.limit) == ("my orders.sql", "tps", 1.5)
    assert condition_from("p99<1.5ms", takes_types=True).of == ""
    with pytest.raises(SpecError, match="for the whole load"):
        condition_from("new-order.p90<5s")
    for text in ("new-order.nopm>1", "new-order.p99_ratio<1"):
        with pytest.raises(SpecError, match="a single transaction type has no"):
            condition_from(text, takes_types=True)


def test_tpcc_like_is_prepared_and_decided_by_nopm_unless_the_spec_says_otherwise() -> None:
    def asked(builtin: str, **workload: object) -> Experiment:
        variants = (Variant(name="a"), Variant(name="b", settings={"work_mem": "8MB"}))
        scripts = [{"builtin": builtin}]
        return bench().model_copy(
            update={
                "workload": Workload.model_validate({"scripts": scripts, **workload}),
                "variants": variants,
                "design": CompareDesign(),
            }
        )

    experiment = asked("tpcc-like")
    assert (experiment.workload.protocol, experiment.metric()) == ("prepared", "nopm")
    assert asked("tpcc-like", protocol="extended").workload.protocol == "extended"
    assert asked("tpcc-like", rate=10).metric() == "p99"
    experiment = asked("tpcb-like")
    assert (experiment.workload.protocol, experiment.metric()) == ("simple", "tps")


def test_a_target_of_a_transaction_type_needs_that_type() -> None:
    def swept(builtin: str, slo: str) -> Experiment:
        return Experiment(
            name="sweep",
            server=Server(scratch=Scratch()),
            dataset=PgbenchDataset(scale=1),
            workload=Workload(scripts=(Script(builtin=builtin),)),
            design=SweepDesign(slo=slo),
        )

    target = swept("tpcc-like", "new-order.p90=5s").design.target
    assert target is not None
    assert (target.figure, target.limit) == ("new-order.p90", 5000)
    for builtin, slo, words in (
        ("tpcc-like", "new-orders.p90=5s", "types of tpcc-like: new-order, payment"),
        ("tpcc-like", "new-order.p98=5s", "NAME is one of"),
        ("tpcb-like", "new-order.p90=5s", "runs other scripts"),
    ):
        with pytest.raises(ValidationError, match=words):
            swept(builtin, slo)


@pytest.mark.parametrize(
    ("changes", "connections"),
    [
        ({}, 48),  # One for five of the 40 connections.
        ({"options": {"delivery": "inline"}}, 40),
        ({"clients": 3}, 6),  # At least one a thread of the engine.
        ({"clients": 3, "threads": 1}, 4),
        ({"active": 10}, 10),
        ({"idle": 5}, 53),
    ],
)
def test_deferred_deliveries_need_additional_connections(
    changes: dict[str, Any], connections: int
) -> None:
    given = {"clients": 40, **changes}
    script = Script(builtin="tpcc-like", options=given.pop("options", {}))
    workload = Workload(scripts=(script,), duration="10s", **given)
    assert workload.connections_of(given["clients"]) == connections
