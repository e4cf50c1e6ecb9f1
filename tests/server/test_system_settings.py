"""Commands of the user run as `sh -c` does; a command that fails says why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pgdyno.errors import InterruptedByUser, ServerError
from pgdyno.process import signals
from pgdyno.server import system_settings
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
    with signals.handled(on_wait=said.append):
        SystemSettings(NOWHERE, "test", apply_command=command).apply({}, needs_restart=False)
        with pytest.raises(InterruptedByUser):
            signals.check()
    assert said == [f"{command} (at most 300 s)"]


def test_a_command_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_settings, "_RESTART_S", 1.0)
    system = SystemSettings(NOWHERE, "test", apply_command="sleep 600 & wait")
    with pytest.raises(ServerError) as caught:
        system.apply({}, needs_restart=False)
    assert caught.value.message.startswith("sleep 600 & wait: ")
    assert "what it had started" in caught.value.hint
