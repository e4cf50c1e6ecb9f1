"""An interruption between two runs, or lost on its way, ends the experiment all the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import InterruptedByUser
from pgdyno.loop import drive
from pgdyno.process import signals
from pgdyno.store.experiment import Store


def test_no_further_run_is_begun_once_the_end_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(*_: object) -> None:
        raise AssertionError("a run was planned")

    monkeypatch.setattr(drive, "next_run", begun)
    folder = Store(tmp_path).create("night", "compare")
    stage: Any = SimpleNamespace(
        experiment=SimpleNamespace(workload=SimpleNamespace(seed=1)),
        folder=folder,
        servers=SimpleNamespace(excluded={}),
    )
    with signals.handled():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(InterruptedByUser):
            signals.check()  # Raised, and caught by somebody for whom it was no interruption.
        assert isinstance(drive._loop(stage), InterruptedByUser)
    assert folder.decisions() == []
