"""Killed at random moments, a server of the user's own has its settings back after undo."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually
from tests.fixtures.moments import SEEDS, moment_s
from tests.measure.test_undo import ENTRIES, admin, compared, theirs

from pgdyno.server.scratch.cluster import ScratchCluster

__all__ = ["theirs"]
pytestmark = pytest.mark.pg
# A little longer than the command takes.
LONGEST_S = 9.0


def kill_and_undo(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path, wait: Callable[[], object]
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    asked = compared(pgdyno, theirs.target, tmp_path, "--admin", admin(theirs.target))
    running = pgdyno.start(*asked)
    wait()
    running.process.kill()
    running.wait()
    done = pgdyno("undo")
    # If the kill came before there was a result, undo says that there is nothing to undo.
    assert done.code == 0 or "no folder of results" in done.err, done.err
    assert run_sql(theirs.target, ENTRIES) == before
    # What `theirs` has set, and the default of PostgreSQL.
    assert scalar(theirs.target, "SHOW checkpoint_timeout") == "17min"
    assert scalar(theirs.target, "SHOW autovacuum_naptime") == "1min"


def test_settings_are_back_after_a_kill_while_they_are_changed(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    # Not by asking the server: a session of somebody else's is a reason to refuse.
    entries = theirs.data_dir / "postgresql.auto.conf"

    def wait() -> None:
        eventually(lambda: "41s" in entries.read_text() or None)

    kill_and_undo(theirs, pgdyno, tmp_path, wait)


@pytest.mark.parametrize("seed", SEEDS)
def test_settings_are_back_after_a_kill_at_any_moment(
    seed: int, theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    after_s = moment_s(seed, longest_s=LONGEST_S)
    kill_and_undo(theirs, pgdyno, tmp_path, lambda: time.sleep(after_s))
