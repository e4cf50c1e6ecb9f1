"""Measures the reader of logs against its limit: 50 MB/s a core."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

from bench import processes
from bench.loads import Measured
from pgdyno.engine.executable import engine_path

REACH_BYTES_PER_S = 50e6
_RESIDENT_BYTES_MAX = 64 << 20
LOG_BYTES = 400 << 20
_TRANSACTION = (
    ("BEGIN;", ""),
    (
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;",
        "$1 = '{1}', $2 = '{0}'",
    ),
    ("SELECT abalance FROM pgbench_accounts WHERE aid = $1;", "$1 = '{0}'"),
    ("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;", "$1 = '{1}', $2 = '7'"),
    ("END;", ""),
)


def write_log(path: Path) -> None:
    """Write a log of transactions of prepared statements, as PostgreSQL does."""
    with path.open("w") as log:
        numbers = itertools.count(1)
        while log.tell() < LOG_BYTES:
            for number in itertools.islice(numbers, 1000):
                log.writelines(_lines(number))


def _lines(number: int) -> list[str]:
    minute, second = divmod(number // 1000 % 3600, 60)
    time = f"2026-11-24 10:{minute:02}:{second:02}.{number % 1000:03} UTC"
    prefix = f"{time} [{number % 50}] me@db "
    lines = []
    for place, (text, parameters) in enumerate(_TRANSACTION):
        lines.append(f"{prefix}LOG:  duration: 0.{number % 997:03} ms  execute P_{place}: {text}\n")
        if parameters:
            shown = parameters.format(number * 7919 % 100_000, number % 5000)
            lines.append(f"{prefix}DETAIL:  Parameters: {shown}\n")
    return lines


def read(path: Path) -> Measured:
    """Read the log, and drop the output."""
    command = shlex.join([str(engine_path()), "read-log", str(path)])
    ended = processes.run(["sh", "-c", f"exec {command} > /dev/null"], timeout_s=120)
    return Measured("read-log", 1, 0.0, ended.cpu_ns, ended.wall_ns, ended.resident_bytes_max)


def allowed(path: Path) -> Measured:
    """Return an invented run that took exactly the time and the memory of the limit."""
    took_ns = round(path.stat().st_size / REACH_BYTES_PER_S * 1e9)
    return Measured("limit", 1, 0.0, took_ns, took_ns, _RESIDENT_BYTES_MAX)
