"""A server that breaks every rule must not crash the engine, hang it, or eat its memory."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.engine_process import load_job

from pgdyno.engine.executable import engine_path
from pgdyno.server.target import Target

TIMEOUT_S = 120.0
RESIDENT_KIB_MAX = 64 * 1024
# More than may be resident; only the first connection is flooded, which is enough.
FLOOD_BYTES = 96 << 20


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
    "an unknown state": (WELCOME, _message(b"C", b"SELECT 1\0") + _message(b"Z", b"?"), False),
}


class BadServer:
    """Listens on a Unix socket; each connection is served once, as a behaviour says."""

    def __init__(self, folder: Path, behaviour: tuple[bytes, bytes, bool]) -> None:
        self.target = Target(str(folder), "5432", "ann", "bank", sslmode="disable")
        self._behaviour = behaviour
        self._floods_left = 1
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
            if floods and self._floods_left:
                self._floods_left -= 1
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
        killer = threading.Timer(TIMEOUT_S, process.kill)
        killer.start()
        peaks_kib: list[int] = []
        watcher = threading.Thread(target=_watch_peak, args=(process, peaks_kib))
        watcher.start()
        # Its end is an order too: it stays open.
        process.stdin.write(given)
        process.stdin.flush()
        said = process.stderr.read().decode()
        process.wait()
        killer.cancel()
        watcher.join()
    assert "panicked" not in said, said
    assert max(peaks_kib, default=0) < RESIDENT_KIB_MAX, f"{max(peaks_kib)} KiB resident"
    return process.returncode, said


def _watch_peak(process: subprocess.Popen[bytes], peaks_kib: list[int]) -> None:
    """Note the most that was resident until the process is gone.

    Not the child's resource usage: that begins with what this process had when it forked.
    """
    while process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            if status.startswith("Name:\tpgdyno-engine"):
                line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
                peaks_kib.append(int(line.split()[1]))
        time.sleep(0.01)


def test_the_drop_in_reports_a_bad_message_and_ends(bad_server: BadServer, tmp_path: Path) -> None:
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


def test_the_engine_reports_a_bad_message_and_ends(bad_server: BadServer) -> None:
    job = load_job(bad_server.target, "SELECT 1;", clients=2, measure_s=3)
    text = job.model_dump_json(exclude_none=True).encode() + b"\n"
    code, said = _ended([engine_path(), "run"], text, {})
    assert code == 2, said
