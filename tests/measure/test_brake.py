"""The brake ends a run in the second in which its condition is met."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import QUICK
from tests.fixtures.command import Command

pytestmark = pytest.mark.pg


@pytest.mark.parametrize("condition", ["p99>20ms", "tps<1000"])
def test_a_brake_ends_the_run_and_keeps_what_was_measured(
    pgdyno: Command, tmp_path: Path, condition: str
) -> None:
    script = tmp_path / "slow.sql"
    script.write_text("SELECT pg_sleep(0.03);\n")
    settings = [part for n, v in QUICK.items() for part in ("--set", f"{n}={v}")]
    said = pgdyno(
        *("bench", "-s", "1", "-f", script, "-c", "1", "-T", "60s", "--warmup", "2s", *settings),
        *("--abort-if", condition),
    )
    assert said.code == 2
    assert f"Stopped by --abort-if {condition}" in " ".join(said.err.split())


def test_a_brake_that_cannot_be_watched_is_refused_before_anything_starts(pgdyno: Command) -> None:
    said = pgdyno("bench", "-s", "1", "--abort-if", "tps_ratio<1")
    assert said.code == 1
    assert not pgdyno.store.exists()
