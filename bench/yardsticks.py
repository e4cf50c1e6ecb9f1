"""Builds and runs the two yardsticks: the server without a database, and the bare loop."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from pgdyno.server.target import Target

ROOT = Path(__file__).resolve().parents[1]
_STOP_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Tally:
    """What a null server counted."""

    connections: int
    terminated: int
    cancels: int
    statements: int
    errors: int
    commits: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """One statement by the server's clock (CLOCK_MONOTONIC)."""

    received_ns: int
    sent_ns: int
    connection: int


class NullServer:
    """A server that answers every statement at once, or as `options` say; ends with its block."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self.options = tuple(options)
        self.folder = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._tcp_port = 0

    def __enter__(self) -> Self:
        program = program_path("pgdyno-null-server")
        # The path of a socket has at most 108 bytes, so the folder must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="pgdyno-null-", dir="/tmp"))
        try:
            self._start(program)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, program: Path) -> None:
        log = self.folder / "stamps"
        options = [str(log) if option == "STAMPS" else option for option in self.options]
        self._process = subprocess.Popen(
            [program, "--socket", self.socket, "--tcp", "127.0.0.1:0", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A separate session: Ctrl-C reaches only us, and we end the server.
            start_new_session=True,
        )
        assert self._process.stdout
        self._tcp_port = json.loads(self._process.stdout.readline())["tcp_port"]

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def socket(self) -> Path:
        """Return the path of the Unix socket."""
        return self.folder / ".s.PGSQL.5432"

    @property
    def pid(self) -> int:
        """Return the process's id."""
        assert self._process is not None
        return self._process.pid

    @property
    def target(self) -> Target:
        """Return where to connect through the Unix socket."""
        return Target(
            host=str(self.folder),
            ports="5432",
            user="pgdyno",
            database="pgdyno",
            sslmode="disable",
        )

    @property
    def tcp_target(self) -> Target:
        """Return where to connect through TCP."""
        return Target(
            host="127.0.0.1",
            ports=str(self._tcp_port),
            user="pgdyno",
            database="pgdyno",
            sslmode="disable",
        )

    def stop(self) -> Tally:
        """End the server and return its counts."""
        assert self._process is not None, "it was stopped already"
        try:
            out, _ = self._process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        self._process = None
        return Tally(**json.loads(out))

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None

    def stamps(self) -> list[Stamp]:
        """Return every statement so far, in the order of their answers; needs `STAMPS`."""
        lines = (self.folder / "stamps").read_text().splitlines()
        return [Stamp(*(int(part) for part in line.split())) for line in lines]


STAMPS = ("--stamp-log", "STAMPS")


@cache
def program_path(name: str) -> Path:
    """Build a yardstick and return its program; a second build takes no time."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "-p", "pgdyno-null-server"],
        cwd=ROOT,
        env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        check=True,
    )
    return target / "release" / name
