"""A run that something outside disturbed is repeated, within the time, and not for ever."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fixtures.clusters import connection
from tests.fixtures.command import Command, eventually, server_options, under_way
from tests.plan.simulated_server import comparison, experiment, noisy

from pgdyno.analysis.verdicts import Doubt, other_programs_in_one_arm
from pgdyno.designs import design_of
from pgdyno.loop import drive
from pgdyno.loop.journal import Visit, failed_since, repeated
from pgdyno.loop.repeats import Repeats
from pgdyno.measure.execute import CompleteRun
from pgdyno.plan.history import History, Measured
from pgdyno.server.target import Target
from pgdyno.spec.designs import (
    BenchDesign,
    Factor,
    FactorialDesign,
    MatrixDesign,
    PassesDesign,
    SweepDesign,
)
from pgdyno.spec.experiment import Experiment, Variant
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

JIT = Factor(
    name="jit",
    levels=tuple(Variant(name=value, settings={"jit": value}) for value in ("on", "off")),
)
STEAL = Doubt("steal", "not_valid", "The hypervisor took 4 % of the CPU away.", "")
RUN_NS = 8_000_000_000
UNREAD: Any = None
Carried = Callable[..., tuple[list[PlannedRun], ExperimentFolder, list[str]]]


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Carried:
    """Return what carries an experiment out, with disturbances planted in runs."""

    def carry(
        asked: Experiment, disturbed: Iterator[bool | Doubt]
    ) -> tuple[list[PlannedRun], ExperimentFolder, list[str]]:
        server, ran, said = noisy(3, truth=(1000, 1002)), [], []
        is_compared = asked.has_variants()

        def run_it(run: PlannedRun, *_: object, position: str, began_ns: int) -> CompleteRun:
            del position, began_ns
            ran.append(run)
            return CompleteRun(run, RUN_NS, stored=UNREAD, facts=UNREAD, spent_ns={})

        def read_it(visit: Visit) -> Measured:
            run = visit.planned
            metrics = server(run, 0) if is_compared else {"tps": 1000.0, "p99": 5.0}
            failed_ns = visit.failed_ns
            return Measured(run, metrics["tps"], None, metrics, RUN_NS, failed_ns=failed_ns)

        def plant(_: object, done: Any, __: History) -> tuple[int, Doubt] | None:
            number, why = done.planned.number, next(disturbed, False)
            return (number, why if isinstance(why, Doubt) else STEAL) if why else None

        monkeypatch.setattr(drive, "carry_out_run", run_it)
        monkeypatch.setattr(drive, "measured", read_it)
        monkeypatch.setattr(drive, "record_finished", lambda *_: None)
        monkeypatch.setattr(drive, "StoredFacts", lambda *_: SimpleNamespace(keep=lambda *_: None))
        monkeypatch.setattr(Repeats, "_disturbed", plant)
        folder = Store(tmp_path).create("night", asked.design.kind)
        monkeypatch.setattr(folder, "next_run_number", lambda: len(ran) + 1)
        setup: Any = SimpleNamespace(
            experiment=asked,
            progress=SimpleNamespace(said=said.append),
            label_of=lambda run: run.label(["one"]),
        )
        servers: Any = SimpleNamespace(excluded={})
        assert drive._loop(setup, servers, folder, design_of(asked)) is None
        return ran, folder, said

    return carry


def test_a_disturbed_run_is_measured_again_and_the_plan_stays_the_same(carried: Carried) -> None:
    ran, folder, said = carried(comparison(rounds=4), iter([False, True, False, False]))
    assert len(ran) == 9
    assert (ran[1].cell, ran[1].round, ran[1].seed) == (ran[2].cell, ran[2].round, ran[2].seed)
    [again] = repeated(folder)
    assert (again.number, again.kind, again.why) == (2, "steal", STEAL.message)
    again_said = (
        f"measured again: {ran[1].label(['one'])}, round 1: The hypervisor took 4 % of the CPU"
    )
    assert f"{again_said} away." in said
    assert failed_since(folder) == RUN_NS


def test_a_run_is_repeated_at_most_twice_and_a_disturbed_machine_is_not_fought(
    carried: Carried,
) -> None:
    ran, folder, _ = carried(comparison(rounds=6), iter([True] * 100))
    # Twice for the first run, twice for the second: then repeating is known not to help.
    assert [again.number for again in repeated(folder)] == [1, 2, 4, 5]
    assert len(ran) == 12 + 4


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(experiment(BenchDesign(), (), duration="60s"), id="bench"),
        pytest.param(experiment(SweepDesign(levels=(1, 2), rounds=3), ()), id="sweep"),
        pytest.param(experiment(PassesDesign(rounds=3), ("A", "B")), id="passes"),
        pytest.param(experiment(FactorialDesign(factors=(JIT,), rounds=3), ()), id="factorial"),
        pytest.param(experiment(MatrixDesign(factors=(JIT,), rounds=3), ()), id="matrix"),
    ],
)
def test_every_design_repeats_a_disturbed_run_with_the_same_load(
    carried: Carried, asked: Experiment
) -> None:
    undisturbed, *_ = carried(asked, iter([]))
    ran, folder, said = carried(asked, iter([True]))
    assert len(ran) == len(undisturbed) + 1
    [again] = repeated(folder)
    place = next(i for i, run in enumerate(ran) if run.number == again.number)
    assert replace(ran[place + 1], number=0) == replace(ran[place], number=0)
    assert any(f"round {ran[place].round}: {again.why}" in line for line in said)


def test_a_run_is_not_repeated_beyond_the_budget(carried: Carried) -> None:
    ran, folder, _ = carried(comparison(budget="50s"), iter([False] * 5 + [True]))
    assert not repeated(folder)
    assert len(ran) == 6


def test_a_variant_that_leaves_other_programs_more_cpu_is_not_repeated_for_ever(
    carried: Carried,
) -> None:
    [(_, uneven)] = [other_programs_in_one_arm((0.1, 0.4))]
    ran, folder, _ = carried(comparison(rounds=6), iter([uneven] * 100))
    places = Counter(run.cell.variant.id for run in ran if run.cell.variant is not None)
    # Each variant has two runs more, in two rounds, because another repetition would not help.
    assert sorted(places.values()) == [8, 8]
    again = {number for number in (entry.number for entry in repeated(folder))}
    rounds = [(run.round, run.cell.variant) for run in ran if run.number in again]
    assert len(rounds) == len(set(rounds)) == 4
    # A tenth of the budget is the limit.
    _, folder, _ = carried(comparison(budget="250s"), iter([uneven] * 100))
    assert len(repeated(folder)) == 3


@pytest.mark.pg
def test_a_run_beside_another_session_is_repeated_when_that_session_is_gone(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    with connection(database) as other:
        running = pgdyno.start(
            *("bench", *server_options(database), "-f", script, "-c", "1", "-T", "5s"),
            *("--warmup", "0s", "--json", "--confirm", f"{database.database}@local"),
        )
        eventually(
            lambda: under_way(pgdyno.store, "job.json"),
            unless=lambda: running.process.poll() is not None,
        )
        other.execute("SELECT pg_sleep(6)")
    said = running.wait()
    assert said.code in (0, 3), said.err
    again, *_ = json.loads(said.out)["repeated"]  # The machine may disturb the next run, too.
    assert (again["number"], again["kind"]) == (1, "others")
    assert "others" not in {warning["kind"] for warning in json.loads(said.out)["warnings"]}
