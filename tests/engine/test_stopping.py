"""How an engine ends, even if it does not obey, and with which words."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from tests.fixtures.engine_process import load_job

from pgdyno.engine import stream
from pgdyno.engine.executable import engine_path
from pgdyno.engine.records import Failure
from pgdyno.engine.stream import EngineRun, engine_error
from pgdyno.process import signals
from pgdyno.server.target import Target

NOWHERE = Target(host="/nowhere", ports="1", user="x", database="x", sslmode="disable")
# Speaks every 50 ms, as a live engine does each second, and hears nothing.
DEAF = """#!/bin/sh
[ "$1" = --version ] && exec "$REAL" --version
trap '' TERM
while :; do
echo '{"record": "progress", "time_ns": 1, "table": "t", "rows_done": 0, "rows_total": 9}'
sleep 0.05
done
"""


def test_an_engine_that_ignores_a_stop_is_ended_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = tmp_path / "deaf-engine"
    deaf.write_text(DEAF)
    deaf.chmod(0o755)
    monkeypatch.setenv("REAL", str(engine_path()))
    monkeypatch.setenv("PGDYNO_ENGINE", str(deaf))
    monkeypatch.setattr(stream, "_STOP_GRACE_S", 0.3)
    heard = threading.Event()

    def interrupt_once(_line: bytes, _record: object) -> None:
        if not heard.is_set():
            heard.set()
            os.kill(os.getpid(), signal.SIGINT)

    with signals.handled(), EngineRun(load_job(NOWHERE), log=subprocess.DEVNULL) as engine:
        outcome = engine.run(interrupt_once)
    assert outcome.interrupted is not None
    assert outcome.summary is None
    assert not Path(f"/proc/{engine.pid}").exists()


def test_a_failure_is_a_sentence_with_a_next_step_and_file_names_stay_as_they_are() -> None:
    failure = Failure(
        time_ns=1,
        kind="prepare",
        message='orders.sql, line 1: ERROR: relation "x" does not exist',
        hint="",
        sqlstate="42P01",
    )
    error = engine_error(failure)
    assert error.message.startswith("orders.sql, line 1")
    assert "correct the script" in error.hint
    assert engine_error(failure.model_copy(update={"message": "it ended"})).message == "It ended."
