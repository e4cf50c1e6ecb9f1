"""Killed at random moments, a server of the user's own has its settings back after undo."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.moments import SEEDS, moment_s
from tests.measure.test_undo import ENTRIES, admin, options, theirs

from pgdyno.server.scratch import ScratchCluster

__all__ = ["theirs"]
pytestmark = pytest.mark.pg
LONGEST_S = 9.0


def prove(theirs: ScratchCluster, pgdyno: Command, tmp_path: Path, after_s: float) -> None:
    before = run_sql(theirs.target, ENTRIES)
    asked = options(theirs.target, tmp_path, "--admin", admin(theirs.target))
    running = pgdyno.start("compare", *asked)
    time.sleep(after_s)
    running.process.kill()
    running.wait()
    done = pgdyno("undo")
    # Killed before there was a result, there is nothing to undo; the command says so, too.
    assert done.code == 0 or "no folder of results" in done.err, done.err
    assert run_sql(theirs.target, ENTRIES) == before
    assert scalar(theirs.target, "SHOW checkpoint_timeout") == "17min"
    assert scalar(theirs.target, "SHOW autovacuum_naptime") == "1min"


def test_settings_are_back_after_a_kill_at_one_moment(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    prove(theirs, pgdyno, tmp_path, after_s=3.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_settings_are_back_after_a_kill_at_any_moment(
    seed: int, theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    prove(theirs, pgdyno, tmp_path, moment_s(seed, longest_s=LONGEST_S))
