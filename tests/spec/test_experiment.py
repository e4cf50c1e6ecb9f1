"""The question as an object: what is impossible is refused with the rule and the value."""

from __future__ import annotations

import tomllib

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
