"""The drop-in asks for a password as pgbench does: on the terminal, unseen, and once."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgdyno.engine.executable import engine_path
from pgdyno.server.scratch.cluster import ScratchCluster

pytestmark = pytest.mark.pg
TIMEOUT_S = 60.0


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The file of a script that needs no tables."""
    file = tmp_path / "one.sql"
    file.write_text("select 1;\n", encoding="ascii")
    return str(file)


def _environment(cluster: ScratchCluster) -> dict[str, str]:
    target = cluster.tcp_target
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {
        **kept,
        "PGHOST": target.host,
        "PGPORT": target.ports,
        "PGUSER": target.user,
        "PGDATABASE": target.database,
        "PGSSLMODE": "disable",
        "PGPASSFILE": "/dev/null",
    }


def _password(cluster: ScratchCluster) -> str:
    password = cluster.tcp_target.password
    assert password is not None
    return password.get_secret_value()


def _on_a_terminal(arguments: list[str], environment: Mapping[str, str], typed: str) -> str:
    """Return everything the terminal showed; `typed` is entered once it asks."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(engine_path(), [str(engine_path()), *arguments], dict(environment))
    shown = b""
    is_answered = False
    while True:
        try:
            got = os.read(terminal, 4096)
        except OSError:
            break  # The last holder of the other side is gone.
        if not got:
            break
        shown += got
        if not is_answered and b"Password: " in shown:
            os.write(terminal, typed.encode() + b"\n")
            is_answered = True
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown.decode()


@pytest.mark.parametrize("clients", [1, 3])
def test_a_password_is_asked_for_once_on_the_terminal_and_not_shown(
    clients: int, pg18: ScratchCluster, script: str
) -> None:
    arguments = ["pgbench", "-n", "-f", script, "-c", str(clients), "-t", "2"]
    shown = _on_a_terminal(arguments, _environment(pg18), _password(pg18))
    assert shown.count("Password: ") == 1
    assert f"actually processed: {2 * clients}/{2 * clients}" in shown
    assert _password(pg18) not in shown


def test_a_wrong_password_is_the_servers_answer_and_not_asked_for_again(
    pg18: ScratchCluster, script: str
) -> None:
    arguments = ["pgbench", "-n", "-f", script, "-t", "1"]
    shown = _on_a_terminal(arguments, _environment(pg18), "wrong")
    assert shown.count("Password: ") == 1
    assert "password authentication failed for user" in shown


def _without_a_terminal(
    cluster: ScratchCluster, script: str, given: bytes
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [engine_path(), "pgbench", "-n", "-t", "1", "-f", script],
        input=given,
        env=_environment(cluster),
        capture_output=True,
        start_new_session=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_without_a_terminal_a_missing_password_fails_with_a_next_step(
    pg18: ScratchCluster, script: str
) -> None:
    end = _without_a_terminal(pg18, script, b"")
    assert end.returncode == 1
    said = end.stderr.decode()
    assert "fe_sendauth: no password supplied" in said
    assert "PGPASSWORD" in said
    assert "could not create connection for setup" in said


def test_without_a_terminal_a_password_may_come_through_standard_input(
    pg18: ScratchCluster, script: str
) -> None:
    end = _without_a_terminal(pg18, script, _password(pg18).encode() + b"\n")
    assert end.returncode == 0, end.stderr
    assert b"actually processed: 1/1" in end.stdout
