"""An interruption between two runs, or lost on its way, ends the experiment all the same."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fixtures.command import Command, RunningCommand, eventually, under_way
from tests.plan.simulated_server import comparison

from pgdyno.clock import read_pair
from pgdyno.errors import InterruptedByUser, StoreLostError
from pgdyno.loop import drive
from pgdyno.plan.designs.compare import Compare
from pgdyno.process import signals
from pgdyno.store.experiment import Store


def test_no_further_run_is_begun_once_the_end_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(*_: object) -> None:
        raise AssertionError("a run was planned")

    monkeypatch.setattr(drive, "plan_of", begun)
    folder = Store(tmp_path).create("night", "compare")
    experiment = SimpleNamespace(workload=SimpleNamespace(seed=1))
    setup: Any = SimpleNamespace(experiment=experiment, progress=None)
    servers: Any = SimpleNamespace(excluded={})
    with signals.handled():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(InterruptedByUser):
            signals.check()  # Raised, and caught by somebody for whom it was not an interruption.
        assert isinstance(drive._loop(setup, servers, folder, Compare), InterruptedByUser)
    assert folder.decisions() == []


def test_a_folder_that_is_removed_as_the_last_run_ends_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_setup: object, _servers: object, folder: Any, _design: object) -> None:
        shutil.rmtree(folder.folder)

    setup = SimpleNamespace(clock=read_pair())
    servers = SimpleNamespace(ready=lambda _: SimpleNamespace(facts=None), journal=None)
    monkeypatch.setattr(drive, "_setup", lambda *_: setup)
    monkeypatch.setattr(drive, "replace", lambda *_, **__: setup)
    monkeypatch.setattr(drive, "opened_with_hosts", lambda *_: nullcontext(servers))
    monkeypatch.setattr(drive, "SlowOpening", lambda *_: None)
    monkeypatch.setattr(drive, "StoredFacts", lambda *_: SimpleNamespace(keep=lambda *_: None))
    monkeypatch.setattr(drive, "_loop", end)
    monkeypatch.setattr(drive, "_price", lambda *_: None)
    monkeypatch.setattr(drive, "with_order", lambda asked: asked)
    permissions: Any = SimpleNamespace(abort_if=())
    progress: Any = SimpleNamespace()
    ended = drive.carry_out(
        comparison(), Compare, verb="compare", resolved=None, permissions=permissions,
        store=Store(tmp_path), progress=progress,
    )  # fmt: skip
    assert ended.folder is None
    assert isinstance(ended.error, StoreLostError)


def begun(running: RunningCommand, store: Path) -> None:
    """Wait until a run has begun, and before it can have completed a transaction."""
    eventually(
        lambda: under_way(store, "job.json"), unless=lambda: running.process.poll() is not None
    )


@pytest.mark.pg
def test_a_run_interrupted_before_its_first_transaction_is_measured_by_resume(
    pgdyno: Command, tmp_path: Path
) -> None:
    # Each transaction outlasts the drain, until the file that makes it fast is there.
    slow = tmp_path / "slow.sql"
    slow.write_text("SELECT pg_sleep(20);\n")
    running = pgdyno.start(
        *("sweep", "--scratch", "-s", "1", "-f", slow, "-c", "1,2", "--rounds", "1"),
        *("-T", "1s", "--knee-duration", "1s", "--warmup", "0s"),
    )
    begun(running, pgdyno.store)
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130
    assert "pgdyno run --resume 1" in said.error
    shown = pgdyno("show", "1")
    assert shown.code == 1
    assert "no run that counts" in shown.error
    slow.write_text("SELECT 1;\n")
    resumed = pgdyno("run", "--resume", "1", "--json")
    assert resumed.code in (0, 3), resumed.err
    assert [level["clients"] for level in resumed.document["curves"][0]["levels"]] == [1, 2]


@pytest.mark.pg
def test_resuming_a_bench_that_was_cut_short_measures_it_whole(
    pgdyno: Command, tmp_path: Path
) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    running = pgdyno.start(
        *("bench", "--scratch", "-s", "1", "-f", tmp_path / "one.sql", "-T", "3s"),
        *("-R", "500", "--warmup", "0s", "--json"),
    )
    running.await_load(pgdyno.store)
    running.signal(signal.SIGINT)
    part = running.wait()
    assert part.code == 130
    assert part.document["is_complete"] is False
    assert "interrupted" in pgdyno("list").out
    whole = pgdyno("run", "--resume", "1", "--json")
    assert whole.code in (0, 3), whole.err
    assert whole.document["is_complete"] is True
    assert whole.document["seconds"] > 2.5
    assert whole.document["transactions"] > part.document["transactions"]
    assert "interrupted" not in pgdyno("list").out
