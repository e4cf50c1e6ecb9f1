"""A comparison killed at random moments: it goes on, loses at most one run, answers the same."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.answer.test_compare import options, scripts
from tests.fixtures import needs
from tests.fixtures.command import Command, eventually
from tests.fixtures.moments import SEEDS, moment_s

from pgdyno.designs import answer_of, document_of
from pgdyno.loop.journal import visits
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

__all__ = ["scripts"]
pytestmark = [pytest.mark.pg, needs.POSTGRESQL_15]
# About what five rounds of these runs take; a kill that comes too late proves nothing, and is fine.
LONGEST_S = 25.0


def done_runs(folder: ExperimentFolder) -> set[int]:
    return {decision["number"] for decision in folder.decisions() if decision["decision"] == "done"}


def without_the_interruption(folder: ExperimentFolder, copy: Path) -> ExperimentFolder:
    """Return a copy that looks as if nobody had killed anything: the same runs, one after another.

    Decisions that were made twice are there once, and the run in flight never was.
    """
    shutil.copytree(folder.folder, copy)
    seen: dict[str, dict[str, Any]] = {}
    done = done_runs(folder)
    for decision in folder.decisions():
        is_lost = decision["decision"] == "run" and decision["number"] not in done
        if decision["decision"] != "resumed" and not is_lost:
            seen[f"{decision['decision']} {decision.get('number')}"] = decision
    lines = (json.dumps(line) + "\n" for line in seen.values())
    (copy / "plan.jsonl").write_text("".join(lines))
    for leftover in (copy / "runs").glob("*.partial*"):
        shutil.rmtree(leftover)
    return ExperimentFolder(copy)


def answer(folder: ExperimentFolder) -> dict[str, Any]:
    document = document_of(answer_of(folder))
    # How often it was interrupted is the only thing an answer may say of it.
    document["confounds"] = [
        confound for confound in document["confounds"] if "interrupted" not in confound
    ]
    return document


def prove(pgdyno: Command, folder_of_scripts: Path, tmp_path: Path, after_s: float) -> None:
    running = pgdyno.start("compare", *options(folder_of_scripts))
    eventually(
        lambda: pgdyno.store.exists() and list(pgdyno.store.glob("*/plan.jsonl")),
        unless=lambda: running.process.poll() is not None,
    )
    time.sleep(after_s)
    running.process.kill()
    running.wait()
    folder = Store(pgdyno.store).find("last")
    before = done_runs(folder)
    decided_before = [
        decision["number"] for decision in folder.decisions() if decision["decision"] == "run"
    ]
    said = pgdyno("run", "--resume", "last", "--json")
    assert said.code in (0, 3), said.err
    after = done_runs(folder)
    assert before <= after, "what was measured before the kill still counts"
    lost = set(decided_before) - after
    assert len(lost) <= 1, "at most the run in flight is lost"
    assert {visit.planned.number for visit in visits(folder)} == after
    assert said.document["variants"][1]["verdict"] == "faster"
    uninterrupted = without_the_interruption(folder, tmp_path / "uninterrupted")
    assert answer(folder) == answer(uninterrupted)


def test_a_comparison_killed_at_one_moment_answers_as_if_nothing_had_happened(
    pgdyno: Command, scripts: Path, tmp_path: Path
) -> None:
    prove(pgdyno, scripts, tmp_path, after_s=4.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_comparison_killed_at_any_moment_answers_as_if_nothing_had_happened(
    seed: int, pgdyno: Command, scripts: Path, tmp_path: Path
) -> None:
    prove(pgdyno, scripts, tmp_path, moment_s(seed, longest_s=LONGEST_S))
