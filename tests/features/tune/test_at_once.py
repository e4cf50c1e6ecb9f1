"""A tuning whose servers run at the same time: the plan with simulated servers, and a real one."""

from __future__ import annotations

import itertools
import json
import math
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.features.tune.test_design import RUN_NS, asked, tps_of
from tests.features.tune.test_design_on_several_servers import SPEED, on_servers, servers_by_round
from tests.features.tune.test_several_servers import ENTRIES, INTERRUPTED, runs_done, spec_of
from tests.fixtures import needs
from tests.fixtures.clusters import make_cluster, run_sql, scalar
from tests.fixtures.command import Command, eventually
from tests.plan.following import next_run, next_runs

from pgdyno.features.tune.design import Tune
from pgdyno.features.tune.spread import are_apart
from pgdyno.plan.history import History, Measured, elapsed_ns
from pgdyno.server.scratch import ScratchCluster
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun, Stop, server_id

OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno%'"
Waves = list[tuple[PlannedRun, ...]]


def result_of(run: PlannedRun, number: int) -> Measured:
    tps = tps_of(run, number) * SPEED[run.server_number]
    return Measured(run, tps, None, {"tps": tps}, RUN_NS)


def carried_out(
    question: Experiment, *, lost_after: dict[int, int] | None = None, failing: str = ""
) -> tuple[History, Stop, frozenset[str], Waves]:
    """Carry the plan out in waves.

    Args: lost_after, server -> waves after which it is gone; failing, the id of a variant that
    does not start.
    """
    history: History = ()
    excluded: frozenset[str] = frozenset()
    waves: Waves = []
    while not isinstance(runs := next_runs(Tune, question, history, excluded), Stop):
        for run in runs:
            variant = run.cell.variant
            assert variant is not None
            if len(waves) >= (lost_after or {}).get(run.server_number, math.inf):
                excluded |= {server_id(run.server_number)}
            elif variant.id == failing:
                excluded |= {variant.id}
            else:
                history = (*history, result_of(run, len(history)))
        waves.append(runs)
    return history, runs, excluded, waves


@cache
def undisturbed(count: int, *, at_once: bool = True) -> tuple[History, Stop, frozenset[str], Waves]:
    """Return the tuning of `count` servers of which none is lost; it is always the same."""
    return carried_out(on_servers(asked(), count, at_once=at_once))


@pytest.mark.parametrize("count", [2, 3])
def test_every_server_has_its_own_candidate_and_its_own_round(count: int) -> None:
    question = on_servers(asked(), count, at_once=True)
    history, stop, excluded, waves = undisturbed(count)
    assert stop == Stop("proved")
    assert all(len({run.server_number for run in wave}) == len(wave) for wave in waves)
    assert {len(wave) for wave in waves} >= {count}
    by_round: dict[int, set[int]] = {}
    for done in history:
        by_round.setdefault(done.run.round, set()).add(done.run.server_number)
    assert all(len(servers) == 1 for servers in by_round.values())
    tuning = Tune(question).tuning(history, excluded)
    proof, proved = tuning.proof, tuning.proved()
    assert proof is not None
    assert proved is not None
    shares = [len(proof.gain(proof.winner.name, server=n).log_ratios) for n in (1, 2)]
    assert shares[0] == shares[1] >= 2
    assert proved[1].mean == pytest.approx(math.log(1000 / 700), abs=0.01)
    # The servers try different candidates: each candidate of the search was on one server.
    servers_of: dict[str, set[int]] = {}
    for done in history:
        if done.run.round < 100_000 and done.run.cell.variant.id != "0":
            servers_of.setdefault(done.run.cell.variant.id, set()).add(done.run.server_number)
    assert len(set().union(*servers_of.values())) == count


def test_the_budget_counts_runs_at_the_same_time_once() -> None:
    history, *_ = undisturbed(2)
    in_turn: History = ()
    while isinstance(run := next_run(Tune, on_servers(asked(), 2), in_turn), PlannedRun):
        in_turn = (*in_turn, result_of(run, len(in_turn)))
    assert elapsed_ns(history) <= 31 * 60e9
    assert sum(done.took_ns for done in history) > 1.5 * sum(done.took_ns for done in in_turn)


def plan_of(runs: tuple[PlannedRun, ...]) -> list[tuple[object, ...]]:
    return [(run.cell, run.round, run.seed, run.server_number) for run in runs]


def test_a_killed_tuning_continues_with_the_same_plan() -> None:
    question = on_servers(asked(), 3, at_once=True)
    whole, _, _, waves = undisturbed(3)
    ends = list(itertools.accumulate(len(wave) for wave in waves))
    for wave in (1, 7, len(waves) // 2, len(waves) - 2):
        next_run(Tune, asked(settings=("jit=on,off",)), ())  # Another tuning in between.
        again = next_runs(Tune, question, whole[: ends[wave - 1]])
        assert not isinstance(again, Stop)
        assert plan_of(again) == plan_of(waves[wave])


@pytest.mark.parametrize("left", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_a_wave_of_which_a_part_is_missing_is_made_complete(left: tuple[int, ...]) -> None:
    question = on_servers(asked(), 3, at_once=True)
    whole, _, _, waves = undisturbed(3)
    full = [place for place, wave in enumerate(waves) if len(wave) == 3]
    for wave in (full[2], full[len(full) // 2], full[-3]):
        begun = sum(len(runs) for runs in waves[:wave])
        part = tuple(whole[begun + place] for place in left)
        next_run(Tune, asked(settings=("jit=on,off",)), ())
        again = next_runs(Tune, question, (*whole[:begun], *part))
        assert not isinstance(again, Stop)
        missing = [run for place, run in enumerate(waves[wave]) if place not in left]
        assert plan_of(tuple(missing))[0] in plan_of(again)
        planned = {run.server_number: key for run, key in zip(again, plan_of(again), strict=True)}
        for run, key in zip(missing, plan_of(tuple(missing)), strict=True):
            assert planned[run.server_number] == key


@pytest.mark.parametrize("after", [3, 30, 66, 67, 68, 90])
def test_a_lost_server_leaves_its_race_and_its_round_to_another(after: int) -> None:
    question = on_servers(asked(), 2, at_once=True)
    history, stop, excluded, waves = carried_out(question, lost_after={2: after})
    assert stop == Stop("proved")
    assert all(run.server_number == 1 for wave in waves[after + 1 :] for run in wave)
    assert elapsed_ns(history) <= 31 * 60e9
    tuning = Tune(question).tuning(history, excluded)
    assert tuning.spread.lost == (2,)
    proved = tuning.proved()
    assert proved is not None
    assert proved[1].mean == pytest.approx(math.log(1000 / 700), abs=0.02)
    # After a kill the same history gives the same end.
    next_run(Tune, asked(settings=("jit=on,off",)), ())
    assert next_runs(Tune, question, history, excluded) == stop


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize("after", [30, 66, 90])
def test_a_candidate_that_failed_on_a_server_that_is_lost_later_is_replayed_alike(
    after: int, is_at_once: bool
) -> None:
    """The store does not say when a server was lost, so its last run must tell it."""
    question = on_servers(asked(), 2, at_once=is_at_once)
    clean, *_ = undisturbed(2, at_once=is_at_once)
    there = [done.run.cell.variant for done in clean[:40] if done.run.server_number == 2]
    failing = next(variant.id for variant in there if variant.id.startswith("trial"))
    history, stop, excluded, _ = carried_out(question, lost_after={2: after}, failing=failing)
    assert {failing, server_id(2)} <= excluded
    assert stop == Stop("proved")
    live = Tune(question).tuning(history, excluded)
    next_run(Tune, asked(settings=("jit=on,off",)), ())  # Another tuning in between.
    assert next_runs(Tune, question, history, excluded) == stop
    replayed = Tune(question).tuning(history, excluded)
    assert replayed is not live
    assert replayed.proved() == live.proved()
    assert replayed.trials == live.trials


def test_a_best_candidate_that_cannot_be_measured_any_more_ends_the_tuning() -> None:
    question = on_servers(asked(), 2, at_once=True)
    history, *_ = undisturbed(2)
    for end in range(20, len(history)):
        tuning = Tune(question).tuning(history[:end])
        best = tuning.best
        if best is not tuning.base and best in [step.candidate for step in tuning.wave()]:
            break
    excluded = frozenset({Tune(question).variant_of(best).id})
    tuning = Tune(question).tuning(history[:end], excluded)
    assert tuning.wave() == ()
    assert tuning.reason == f"{best.name}, the best settings so far, can no longer be measured"
    assert not tuning.is_decided
    assert not tuning.failures


def test_no_server_left_ends_the_tuning_unproved() -> None:
    question = on_servers(asked(), 2, at_once=True)
    history, stop, excluded, _ = carried_out(question, lost_after={1: 9, 2: 12})
    assert stop == Stop("every server was lost")
    assert not Tune(question).tuning(history, excluded).is_decided


def test_hosts_that_differ_run_at_the_same_time_unless_the_spec_says_no() -> None:
    apart = Tune(on_servers(asked(), 2, at_once=None)).settled()
    assert Tune(apart).is_at_once
    assert apart.design.at_once is True, "the store keeps it"
    assert not Tune(Tune(on_servers(asked(), 2)).settled()).is_at_once
    assert not Tune(asked(at_once=True)).is_at_once, "one server has nothing to wait for"


def test_a_result_of_an_earlier_version_keeps_its_plan_in_turn() -> None:
    # Its spec lacks at_once, and it is not settled again.
    question = on_servers(asked(), 2, at_once=None)
    in_turn: History = ()
    while len(in_turn) < 40:
        run = next_run(Tune, question, in_turn)
        assert isinstance(run, PlannedRun)
        in_turn = (*in_turn, result_of(run, len(in_turn)))
    assert {done.run.runs_at_once for done in in_turn} == {1}
    assert all(len(set(servers)) == 1 for servers in servers_by_round(in_turn))


@pytest.mark.parametrize(
    ("dsns", "apart"),
    [
        (["host=db1 dbname=core", "postgresql://db2/core"], True),
        (["hostaddr=10.0.0.1", "host=10.0.0.2"], True),
        (["host=db1 port=5432", "host=db1 port=5433"], False),
        (["host=db1", "host=localhost"], False),
        (["host=db1", "host=/run/postgresql"], False),
        (["host=db1", "service=second"], False),
        (["host=db1", "core"], False),
    ],
)
def test_servers_are_apart_if_each_names_another_host(dsns: list[str], apart: bool) -> None:
    assert are_apart(dsns) == apart


@pytest.fixture
def two_servers(house: Path) -> Iterator[list[ScratchCluster]]:
    assert house.is_dir()
    with make_cluster("15") as first, make_cluster("15") as second:
        for server in (first, second):
            run_sql(server.target, "ALTER SYSTEM SET checkpoint_timeout = '17min'")
            run_sql(server.target, "SELECT pg_reload_conf()")
        yield [first, second]


def measured_ns(store: Path) -> list[tuple[int, int]]:
    """Return begin and end of the measured phase of each stored run, in order."""
    times = []
    for path in sorted(store.glob("[!.]*/runs/*/summary.json")):
        for phase in json.loads(path.read_text())["phases"]:
            if phase["phase"] == "measure":
                times.append((phase["began_ns"], phase["ended_ns"]))
    return times


@pytest.mark.pg
@needs.POSTGRESQL_15
@pytest.mark.usefixtures("short_runs_are_tried")
def test_ctrl_c_ends_the_runs_on_both_servers_and_restores_both(
    two_servers: list[ScratchCluster], pgdyno: Command, tmp_path: Path
) -> None:
    before = [run_sql(server.target, ENTRIES) for server in two_servers]
    spec = spec_of(two_servers, tmp_path, budget="1s", duration="500ms", at_once=True)
    running = pgdyno.start("run", spec)
    eventually(
        lambda: sum(run["runs_at_once"] == 2 for run in runs_done(pgdyno.store)) >= 4,
        unless=lambda: running.process.poll() is not None,
    )
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == INTERRUPTED, said.err
    assert "Traceback" not in said.err
    done = runs_done(pgdyno.store)
    assert {run["server_number"] for run in done} == {1, 2}, said.err
    # There is one candidate, so the search has one race; the proof has a round on each server.
    assert {run["runs_at_once"] for run in done if run["round"] > 100_000} == {2}
    times = measured_ns(pgdyno.store)
    assert any(
        first[0] < second[1] and second[0] < first[1] for first, second in itertools.pairwise(times)
    ), times
    assert [run_sql(server.target, ENTRIES) for server in two_servers] == before
    for server in two_servers:
        eventually(lambda at=server: scalar(at.target, "SHOW checkpoint_timeout") == "17min")
        eventually(lambda at=server: int(scalar(at.target, OURS)) <= 1)
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"
