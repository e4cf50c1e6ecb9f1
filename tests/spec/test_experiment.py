"""The question as an object: what is impossible is refused with the rule and the value."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from pgdyno.errors import SpecError
from pgdyno.quantities import duration_text
from pgdyno.spec.experiment import (
    BenchDesign,
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
from pgdyno.spec.file import to_toml
from pgdyno.spec.units import duration_ns, size_bytes


def bench(**workload: object) -> Experiment:
    return Experiment(
        name="bench",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(scale=10),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),), **workload),
        design=BenchDesign(),
    )


def test_an_experiment_survives_the_way_through_toml() -> None:
    asked = bench(clients=16, duration="90s", warmup="2500ms", variables={"x": "1"})
    assert Experiment.model_validate(tomllib.loads(to_toml(asked))) == asked


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


def test_a_duration_without_a_unit_is_seconds() -> None:
    assert bench(duration=5).workload.duration_ns == 5_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("60", 60 * 10**9), ("1.5s", 1_500_000_000), ("500ms", 500_000_000), ("3min", 180 * 10**9)],
)
def test_durations_are_read_with_their_units(text: str, nanoseconds: int) -> None:
    assert duration_ns(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "-1s", "1 fortnight", "1s2", "s"])
def test_a_wrong_duration_is_refused_with_the_list_of_units(text: str) -> None:
    with pytest.raises(SpecError, match=r"ns, us, ms, s, min, h, d"):
        duration_ns(text)


def test_sizes_are_powers_of_1024() -> None:
    assert size_bytes("2GB") == 2 * 1024**3


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(250_000_000, "250 ms"), (90 * 10**9, "90 s"), (1800 * 10**9, "30 min"), (5 * 10**9, "5 s")],
)
def test_durations_are_short(nanoseconds: int, text: str) -> None:
    assert duration_text(nanoseconds) == text


def test_weights_that_are_all_zero_are_refused() -> None:
    with pytest.raises(ValidationError, match="nothing would run"):
        Workload(scripts=(Script(builtin="tpcb-like", weight=0),))


def test_a_server_is_either_scratch_or_named() -> None:
    with pytest.raises(ValidationError, match="exactly one of scratch and dsn"):
        Server()


def test_the_connections_needed_are_those_of_the_largest_level() -> None:
    sweep = bench().model_copy(update={"design": SweepDesign(levels=(1, 48, 8))})
    assert sweep.clients_max() == 48


def test_connections_are_those_of_the_variant_that_opens_most() -> None:
    variants = (
        Variant(name="busy"),
        Variant(name="with idle", clients=10, idle=900),
        Variant(name="shared", active=4),
    )
    asked = Experiment(
        name="connections",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(),
        workload=Workload(scripts=(Script(builtin="select-only"),), clients=800),
        variant=variants,
        design=CompareDesign(),
    )
    assert asked.connections_max() == 910
    assert asked.workload_of(asked.planned_variants()[2]).connections_of(800) == 4
    assert variants[1].changes() == {"clients": "10", "idle": "900"}


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
