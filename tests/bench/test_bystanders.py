"""The bystander as a program: its totals, and what it refuses. Its own tests hold its estimate."""

from __future__ import annotations

import json
import subprocess

from bench.bystanders import allowed
from bench.watching import REACH_CORE_RATIO
from bench.yardsticks import program_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = program_path("pgdyno-bystander")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_it_reads_on_every_core_for_as_long_as_it_is_told() -> None:
    ended = run("800000", "1")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told.keys() == {"units", "interruptions", "lost_ns"}
    assert told["units"] > told["interruptions"] >= 0
    assert abs(told["lost_ns"]) < 1_000_000_000


def test_it_says_what_it_is_to_be_given() -> None:
    ended = run("800000")
    assert ended.returncode == 1
    assert ended.stderr == "usage: pgdyno-bystander BYTES SECONDS\n"


def test_what_telemetry_may_cost_is_the_reach() -> None:
    assert allowed().watch_core_ratio == REACH_CORE_RATIO
