"""A trial of a load is spoiled by its machine; a load that was not held is a result."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command

from pgdyno.analysis.verdicts import MachineFacts, is_valid
from pgdyno.answer import answer
from pgdyno.engine.executable import engine_for_jobs
from pgdyno.loop import disturbed

NOT_VALID = 3


def trial_with(p99_ms: float, facts: MachineFacts, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(disturbed, "machine_facts", lambda *_, **__: facts)
    p99 = SimpleNamespace(value=p99_ms)
    counts = SimpleNamespace(completed=1)
    latency = SimpleNamespace(percentiles={"p99": p99})
    numbers: Any = SimpleNamespace(seconds=1.0, counts=counts, latency=latency)
    nothing: Any = SimpleNamespace(stored=None)
    doubts = answer._doubts_of_trial(nothing, numbers, {})
    assert not doubts or not is_valid(doubts)
    return [doubt.message for doubt in doubts]


def test_a_trial_is_spoiled_by_a_busy_engine_but_not_by_a_missed_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One transaction in a second is too short, too few, and less than any load.
    assert trial_with(1.0, MachineFacts(thread_busy_ratio=0.5), monkeypatch) == []
    [message] = trial_with(1.0, MachineFacts(thread_busy_ratio=0.97), monkeypatch)
    assert message.startswith("During the search for the capacity: A thread of the load engine")


def test_late_timers_spoil_a_trial_if_they_are_a_part_of_its_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = MachineFacts(timer_lag_p99_ns=4e6)
    assert trial_with(250.0, late, monkeypatch) == []
    [message] = trial_with(10.0, late, monkeypatch)
    assert "timers fired 4.00 ms late" in message


STARVED = """#!{python}
import os, sys
if sys.argv[1:2] == ["run"]:
    os.sched_setaffinity(0, {{{core}}})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        parent = os.getppid()
        for stream in (0, 1, 2):
            os.close(stream)
        while os.getppid() == parent:
            pass
        os._exit(0)
os.execv({engine!r}, [{engine!r}, *sys.argv[1:]])
"""


def starved_engine(tmp_path: Path) -> Path:
    """Return an engine whose core another process takes."""
    core = min(os.sched_getaffinity(0))
    engine = tmp_path / "engine"
    real = str(engine_for_jobs())
    engine.write_text(STARVED.format(python=sys.executable, core=core, engine=real))
    engine.chmod(0o755)
    (tmp_path / "sleep.sql").write_text("SELECT pg_sleep(0.001);\n")
    return engine


@pytest.mark.slow
@pytest.mark.pg
def test_a_search_on_a_machine_without_a_free_core_ends_early_and_says_why(
    pgdyno: Command, tmp_path: Path
) -> None:
    needs.postgresql("15")
    engine = starved_engine(tmp_path)
    said = pgdyno(
        *("sweep", "--pg-version", "15", "-s", "1", "-f", tmp_path / "sleep.sql"),
        *("-c", "2", "--rounds", "1"),
        *("-T", "1s", "--warmup", "0s", "--knee-duration", "1s", "--slo", "p99=1500us"),
        *("--reset", "none", "--json"),
        env={"PGDYNO_ENGINE": str(engine)},
    )
    assert said.code == NOT_VALID, said.err
    early = "the search for the load under p99 ends: this machine was disturbed in"
    assert early in " ".join(said.err.split())
    document = said.document
    [curve] = document["curves"]
    assert curve["capacity"] is None
    known = re.search(
        r"It is not known which load keeps p99 <= 1.5 ms: this machine was disturbed in (\d) of"
        r" (\d) trials, and each of these missed the target\. The engine's timers",
        document["sentence"],
    )
    assert known is not None, document["sentence"]
    # A trial in which no client was ever free shows no late timer.
    assert (known[1], known[2]) in (("3", "3"), ("3", "4"))


@pytest.mark.slow
@pytest.mark.pg
def test_a_tuning_for_a_target_on_a_machine_without_a_free_core_ends_early_and_says_why(
    pgdyno: Command, tmp_path: Path
) -> None:
    needs.postgresql("15")
    # If no client were ever free, no timer would be late.
    said = pgdyno(
        *("tune", "--pg-version", "15", "-s", "1", "-f", tmp_path / "sleep.sql", "-c", "16"),
        *("-R", "20", "--slo", "p99=1500us", "--setting", "work_mem=1MB..64MB"),
        *("-T", "5s", "--warmup", "0s", "--budget", "10min", "--reset", "none", "--json"),
        env={"PGDYNO_ENGINE": str(starved_engine(tmp_path))},
        timeout_s=400,
    )
    assert said.code == NOT_VALID, said.err
    assert "the tuning ends: this machine was disturbed in" in " ".join(said.err.split())
    document = said.document
    assert document["verdict"] == "not known"
    assert (document["proved"], document["settings"]) == (None, [])
    known = re.search(
        r"not known: this machine was disturbed in (\d) of (\d) runs, and each of these says"
        r" nothing about p99\. The engine's timers",
        document["sentence"],
    )
    assert known is not None, document["sentence"]
    assert int(known[2]) <= 4
