"""A budget is the time from the command to the printed answer, with everything that is in it."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK
from tests.fixtures.command import Command

from pgdyno.loop.journal import visits
from pgdyno.loop.within_budget import SlowOpening
from pgdyno.measure.run_progress import Moment, RunProgress
from pgdyno.plan.designs.compare import Compare
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.experiment import (
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.store.experiment import Store

ONE_S = 1_000_000_000


@pytest.mark.pg
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--variant", "a: work_mem=4MB", "--variant", "b: work_mem=8MB"),
        ("tune", "--setting", "work_mem=4MB,8MB", "--setting", "shared_buffers=16MB,32MB"),
    ],
    ids=["compare", "tune"],
)
@needs.POSTGRESQL_15
def test_creating_loading_and_answering_are_a_part_of_the_budget(
    words: tuple[str, ...], pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "nap.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    settings = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
    assert pgdyno("list").code == 0  # Commands are forks; the first of them starts what forks.
    began_s = time.time()
    done = pgdyno(
        *(*words, "--pg-version", "15", *settings, "-s", "1", "-f", str(script), "-c", "2"),
        *("--budget", "100s"),
        timeout_s=280,
    )
    assert done.code in (0, 5), done.err
    folder = Store(pgdyno.store).find("last")
    ran = visits(folder)
    design = Experiment.model_validate(tomllib.loads(folder.spec())).design
    opened_s = (folder.folder / "spec.toml").stat().st_mtime - began_s
    counted_s = (design.around_ns - 5 * ONE_S) / 1e9
    # Only the start of Python is not in it, which this machine may be slow at, too.
    assert 0.5 * opened_s <= counted_s <= 1.3 * opened_s
    last_s = (folder.folder / "plan.jsonl").stat().st_mtime
    longest_s = max(visit.took_ns for visit in ran) / 1e9
    assert last_s - began_s <= 100 + longest_s, "a round began that the time was too short for"


@pytest.mark.pg
@pytest.mark.timeout(120)
@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize(
    ("second", "length"),
    [("b: sql='SELECT pg_sleep(300)'", ("-T", "500ms")), ("b: jit=off", ("--metric", "duration"))],
    ids=["opening", "a run"],
)
def test_what_takes_longer_than_the_budget_is_ended_by_it(
    version: str, second: str, length: tuple[str, ...], pgdyno: Command, tmp_path: Path
) -> None:
    needs.postgresql(version)
    script = tmp_path / "one.sql"
    script.write_text("SELECT pg_sleep(300);\n" if "duration" in length else "SELECT 1;\n")
    assert pgdyno("list").code == 0
    began_s = time.monotonic()
    done = pgdyno(
        *("compare", "--pg-version", version, "-s", "1", "-f", str(script), "-c", "1"),
        *("--variant", "a: ", "--variant", second, "--budget", "30s", *length, "--warmup", "0s"),
        timeout_s=100,
    )
    assert time.monotonic() - began_s <= 33
    assert done.code == 5
    assert "The budget of 30 s is used up." in done.error


def _asked(budget: str = "60s") -> Experiment:
    return Experiment(
        name="asked",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),), duration="5s"),
        variant=(Variant(name="a"), Variant(name="b")),
        design=CompareDesign(budget=budget),
    )


def _around(asked: Experiment, opening_ns: int) -> Experiment:
    return asked.model_copy(update={"design": asked.design.with_time_around(opening_ns)})


def test_the_time_around_the_runs_is_stored_with_the_question() -> None:
    asked = _around(_asked("100s"), 15 * ONE_S)
    assert asked.design.runs_ns == 80 * ONE_S, "4 s and 1 % are for the answer"
    assert asked.design.budget_ns == 100 * ONE_S
    again = _around(asked, 10 * ONE_S)
    assert again.design.runs_ns == 85 * ONE_S, "a spec with the time of another start"
    slow = _around(_asked("100s"), 40 * ONE_S)
    assert slow.design.runs_ns == 49 * ONE_S, "a quarter of the opening"
    assert _around(_asked("20s"), 30 * ONE_S).design.runs_ns == 1


def test_pilots_that_leave_no_time_for_three_rounds_are_left_out() -> None:
    plan = Compare(_around(_asked("100s"), 10 * ONE_S))
    run = plan.next_run(())
    assert run.purpose == "pilot"  # 2 x 6 s and 3 x 2 x 8 s fit into 85 s.
    plan = Compare(_around(_asked("60s"), 1 * ONE_S))
    run = plan.next_run(())
    assert (run.purpose, run.round) == ("round", 1)
    assert plan.rounds_planned((), plan.usable(frozenset())) == 3


def test_runs_that_leave_no_time_for_three_rounds_are_shorter() -> None:
    asked = _asked("200s")
    asked = asked.model_copy(
        update={
            "workload": asked.workload.model_copy(
                update={"duration_ns": 60 * ONE_S, "warmup_ns": 2 * ONE_S}
            )
        }
    )
    plan = Compare(asked)
    run = plan.next_run(())
    assert 25 * ONE_S < run.measure_ns < 31 * ONE_S
    assert plan.rounds_planned((), plan.usable(frozenset())) == 3
    assert "runs of 30 s instead of 60 s fit" in plan.outlook(())


def test_a_load_that_leaves_too_little_time_is_said_once_with_the_time_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    monkeypatch.setattr("pgdyno.loop.within_budget.monotonic_ns", lambda: now[0])
    said: list[str] = []
    progress = RunProgress()
    monkeypatch.setattr(progress, "said", said.append)
    opening = SlowOpening(progress, _asked("4min"), Compare, 0)
    for second in (1, 2, 3, 4, 5):
        now[0] = second * ONE_S
        opening.moved(Moment("scale 500", "loading", eta_ns=600 * ONE_S))
    [line] = said
    assert line.startswith("warning: loading takes about 10 min more, so the answer comes after")
    assert "the budget is 4 min" in line
    said.clear()
    quick = SlowOpening(progress, _asked("4min"), Compare, 0)
    for second in (1, 2, 3, 4, 5):
        now[0] = second * ONE_S
        quick.moved(Moment("scale 5", "loading", eta_ns=10 * ONE_S))
    assert not said
