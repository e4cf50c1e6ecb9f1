"""A run that fails although its variant could be measured before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.features.tune.test_at_once import result_of
from tests.features.tune.test_design import asked
from tests.features.tune.test_design_on_several_servers import on_servers
from tests.plan.following import next_runs

from pgdyno.features.tune.design import Tune
from pgdyno.loop.failures import Failures
from pgdyno.plan.design import Design
from pgdyno.plan.designs.compare import Compare
from pgdyno.plan.history import History
from pgdyno.spec.planned import PlannedRun, Stop, server_id


def stage_of(*, lost: tuple[int, ...] = ()) -> Any:
    facts = SimpleNamespace(host="db", port="5432")
    servers = SimpleNamespace(is_lost=lambda server: server in lost, equal={1: facts, 2: facts})
    return SimpleNamespace(servers=servers)


def begun() -> tuple[History, PlannedRun]:
    """Return a tuning in which server 1 has run, and the first run of server 2."""
    history: History = ()
    question = on_servers(asked(), 2, at_once=True)
    while True:
        runs = next_runs(Tune, question, history)
        assert not isinstance(runs, Stop)
        there = [run for run in runs if run.server_number == 2]
        if there and history:
            assert there[0].cell.variant == history[0].run.cell.variant
            return history, there[0]
        history = (*history, *(result_of(run, len(history)) for run in runs[:1]))


@pytest.mark.parametrize(("failures", "is_repeated"), [(1, True), (2, True), (3, False)])
def test_a_variant_that_ran_before_is_measured_again_twice(
    failures: int, is_repeated: bool
) -> None:
    history, run = begun()

    def after(design: type[Design[Any]], *, lost: tuple[int, ...] = ()) -> Failures:
        failed = Failures(stage_of(lost=lost), design)
        for _ in range(failures):
            failed.failed(run)
        return failed

    assert after(Tune).is_repeated(run, history) is is_repeated
    assert not after(Compare).is_repeated(run, history)
    assert not after(Tune).is_repeated(run, ())
    assert not after(Tune, lost=(2,)).is_repeated(run, history)


def test_a_run_that_is_complete_ends_the_failures_in_a_row() -> None:
    history, run = begun()
    failures = Failures(stage_of(), Tune)
    failures.failed(run)
    failures.failed(run)
    failures.passed(run)
    failures.failed(run)
    assert failures.is_repeated(run, history)


def test_a_server_on_which_a_variant_fails_that_ran_elsewhere_is_given_up() -> None:
    history, run = begun()
    assert list(Failures(stage_of(), Tune).blamed(run, history)) == [server_id(2)]
    assert list(Failures(stage_of(), Tune).blamed(run, ())) == [run.cell.variant.id]
    assert list(Failures(stage_of(lost=(2,)), Tune).blamed(run, history)) == [server_id(2)]
