"""A server that breaks every rule must not crash the engine, hang it, or eat its memory."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.engine_process import load_job

from pgdyno.engine.stream import engine_path
from pgdyno.server.target import Target

TIMEOUT_S = 120.0
RESIDENT_KIB_MAX = 160 * 1024
FLOOD_BYTES = 256 << 20


def _message(tag: bytes, body: bytes = b"") -> bytes:
    return tag + struct.pack(">I", len(body) + 4) + body


WELCOME = (
    _message(b"R", b"\0\0\0\0")
    + _message(b"S", b"server_version\x0015.7\0")
    + _message(b"K", b"\0\0\1\0\0\0\0\7")
    + _message(b"Z", b"I")
)
HALF_A_MESSAGE = b"D" + struct.pack(">I", 200) + b"half of it"
TWO_GIGABYTES = b"D" + struct.pack(">I", 0x7FFFFFFF)
ONE_GIGABYTE = b"D" + struct.pack(">I", 1 << 30)
LONG_ERROR = b"E" + struct.pack(">I", 1 << 30) + b"SERROR\0"
GARBAGE = b"HTTP/1.1 418 I'm a teapot\r\n\r\n" * 3

# What is sent after the start-up message, what after a first query, and whether a flood follows.
BEHAVIOURS = {
    "garbage at once": (GARBAGE, b"", False),
    "nothing but the end": (b"", b"", False),
    "half an opening": (WELCOME[:17], b"", False),
    "a long opening": (LONG_ERROR, b"", True),
    "garbage for an answer": (WELCOME, GARBAGE, False),
    "half an answer": (WELCOME, HALF_A_MESSAGE, False),
    "an answer of 2 GB": (WELCOME, TWO_GIGABYTES, True),
    "a row of 1 GB": (WELCOME, ONE_GIGABYTE, True),
    "an error of 1 GB": (WELCOME, LONG_ERROR, True),
    "an end for an answer": (WELCOME, b"", False),
    "more answers than questions": (WELCOME, _message(b"Z", b"I") * 50, False),
    "a state that is none": (WELCOME, _message(b"C", b"SELECT 1\0") + _message(b"Z", b"?"), False),
}


class BadServer:
    """Listens on a Unix socket; each connection is served once, as a behaviour says."""

    def __init__(self, folder: Path, behaviour: tuple[bytes, bytes, bool]) -> None:
        self.target = Target(str(folder), "5432", "ann", "bank", sslmode="disable")
        self._behaviour = behaviour
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        opening, answer, floods = self._behaviour
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)
            connection.sendall(opening)
            if answer or opening == WELCOME:
                connection.recv(4096)
                connection.sendall(answer)
            if floods:
                block = b"x" * (1 << 20)
                for _ in range(FLOOD_BYTES // len(block)):
                    connection.sendall(block)


@pytest.fixture(params=BEHAVIOURS)
def bad_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BadServer]:
    """A server of each behaviour."""
    folder = tmp_path / "s"
    folder.mkdir()
    server = BadServer(folder, BEHAVIOURS[request.param])
    yield server
    server.close()


def _ended(command: list[str | Path], given: bytes, env: dict[str, str]) -> tuple[int, str]:
    """Return exit code and standard error of a process that ended by itself, small."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    ) as process:
        assert process.stdin
        assert process.stderr
        process.stdin.write(given)
        process.stdin.flush()
        killer = threading.Timer(TIMEOUT_S, process.kill)
        killer.start()
        said = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    assert "panicked" not in said, said
    assert usage.ru_maxrss < RESIDENT_KIB_MAX, f"{usage.ru_maxrss} KiB resident"
    return process.returncode, said


def test_the_drop_in_says_so_and_ends(bad_server: BadServer, tmp_path: Path) -> None:
    script = tmp_path / "one.sql"
    script.write_text("select 1;\n", encoding="ascii")
    env = {
        "PGHOST": bad_server.target.host,
        "PGPORT": "5432",
        "PGUSER": "ann",
        "PGDATABASE": "bank",
        "PGSSLMODE": "disable",
    }
    command = [engine_path(), "pgbench", "-n", "-f", script, "-t", "1"]
    code, said = _ended(command, b"", env)
    assert code in (1, 2), said
    assert "pgbench: error: " in said


def test_the_engine_says_so_and_ends(bad_server: BadServer) -> None:
    job = load_job(bad_server.target, "SELECT 1;", clients=2, measure_s=3)
    text = job.model_dump_json(exclude_none=True).encode() + b"\n"
    code, said = _ended([engine_path(), "run"], text, {})
    assert code == 2, said
