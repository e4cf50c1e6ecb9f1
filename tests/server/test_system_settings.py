"""Commands of the user run as `sh -c` does; a command that fails says why."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.errors import InterruptedByUser, ServerError
from pgdyno.process import signals
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.system_settings import SystemSettings
from pgdyno.server.target import Target

NOWHERE = Target(host="/nowhere", ports="5432", user="dba", database="bank")
# Pipe, quotes, a variable and a redirection: words alone would give them to `tr`.
LINE = "tr a-z A-Z | cat - '{file}' > \"{file} $((1 + 1))\"; echo 'out of order' >&2; exit 5"


@dataclass(frozen=True)
class Way:
    """An option that takes a command, and what makes pgdyno run it."""

    option: str
    run: Callable[[SystemSettings], None]
    given: str


WAYS = (
    Way("apply_command", lambda s: s.apply({"work_mem": "4mb"}, needs_restart=False), "WORK_MEM"),
    Way("recover_command", lambda s: s.start_again({"work_mem": None}), "WORK_MEM"),
)


@pytest.mark.parametrize("way", WAYS, ids=[way.option for way in WAYS])
def test_a_command_of_the_user_runs_in_a_shell_and_gets_the_settings(
    way: Way, tmp_path: Path
) -> None:
    (tmp_path / "a file").write_text("and more")
    command = LINE.format(file=tmp_path / "a file")
    system = replace(SystemSettings(NOWHERE, "test"), **{way.option: command})
    with pytest.raises(ServerError, match=r"ended with exit code 5: out of order\.$") as caught:
        way.run(system)
    assert "sh -c" in caught.value.hint
    written = (tmp_path / "a file 2").read_text()
    assert way.given in written
    assert written.endswith("and more")


def test_a_restart_command_runs_in_a_shell_after_the_settings_are_written(tmp_path: Path) -> None:
    log = tmp_path / "a log"
    system = SystemSettings(
        NOWHERE,
        "test",
        apply_command=f"cat > '{log}'",
        restart_command=f"printf ' then %s' \"restart\" | tee -a '{log}' >&2; false",
    )
    with pytest.raises(ServerError, match=r"ended with exit code 1: then restart\.$"):
        system.apply({"work_mem": "4MB"}, needs_restart=True)
    settings, _, then = log.read_text().partition(" then ")
    assert (json.loads(settings), then) == ({"work_mem": "4MB"}, "restart")


def test_an_error_says_that_a_command_printed_nothing() -> None:
    system = SystemSettings(NOWHERE, "test", apply_command="exit 7")
    with pytest.raises(ServerError, match="exit 7 ended with exit code 7: it printed nothing"):
        system.apply({}, needs_restart=False)


def test_a_command_that_is_waited_for_is_named_when_a_signal_arrives() -> None:
    said: list[str] = []
    command = f"kill -INT {os.getpid()}; sleep 0.2"
    with signals.handled(on_wait=said.append), pytest.raises(InterruptedByUser):
        SystemSettings(NOWHERE, "test", apply_command=command).apply({}, needs_restart=False)
    assert said == [f"--apply-command {command} (at most 3 s)"]


def test_a_command_that_does_not_end_is_named_with_its_limit() -> None:
    command = "sleep 600 & wait"
    system = SystemSettings(NOWHERE, "test", apply_command=command, command_timeout_s=1.0)
    with pytest.raises(ServerError) as caught:
        system.apply({}, needs_restart=False)
    assert caught.value.message == f"--apply-command {command} did not end within 1 s."
    assert "what it had started" in caught.value.hint
    assert "--command-timeout" in caught.value.hint


@needs.LINUX
def test_a_signal_ends_the_jobs_of_a_command_too(tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    job = f"bash -m -c 'sleep 600 & echo $! > {kept}; kill -INT {os.getpid()}; wait'"
    system = SystemSettings(NOWHERE, "test", apply_command=f"{job}; wait")
    with signals.handled(), pytest.raises(InterruptedByUser):
        system.apply({}, needs_restart=False)
    assert ProcessIdentity.of(int(kept.read_text())) is None


@needs.LINUX
def test_a_process_of_another_session_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    command = f"setsid sleep 600 & echo $! > {kept}; kill -INT {os.getpid()}; wait"
    system = SystemSettings(NOWHERE, "test", apply_command=command)
    with signals.handled(), pytest.raises(InterruptedByUser):
        system.apply({}, needs_restart=False)
    left = ProcessIdentity.of(int(kept.read_text()))
    assert left is not None
    os.kill(left.pid, signal.SIGKILL)


def test_only_a_second_signal_ends_a_command_that_restores_settings() -> None:
    said: list[str] = []
    command = f"kill -INT {os.getpid()}; sleep 0.5; kill -INT {os.getpid()}; sleep 600"
    system = SystemSettings(NOWHERE, "test", apply_command=command, command_timeout_s=60)
    handled = signals.handled(on_wait=said.append)
    with handled, signals.shielded(), pytest.raises(InterruptedByUser):
        system.apply({}, needs_restart=False)
    named = f"--apply-command {command}"
    assert said[0] == f"{named} (at most 60 s; another signal ends it)"
