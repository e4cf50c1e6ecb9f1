"""Writes logs of many kinds of transactions, and measures the memory that a capture needs."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

from bench.loads import Measured

from bench import processes
from pgdyno.features.capture.model import Capture, Header
from pgdyno.features.capture.reading.log import Logged, LogRequest
from pgdyno.features.capture.reading.means import MeansOfStatements
from pgdyno.features.capture.reading.names import Names

# Of a mixed load: kinds of transactions, and how many transactions a session has.
_KINDS, _KIND_SHARE, _TURNS = 60, 0.85, 40

# What a server says of itself; it is not asked.
EMPTY = Capture(
    header=Header(
        made_by="bench",
        database="db",
        server_version_num=180000,
        collation="C",
        taken_at="",
        seconds=0,
        sources=("log",),
    )
)


def write_mixed_log(path: Path, bytes_: int) -> None:
    """Write a log of many kinds of transactions, frequent and rare ones, in short sessions."""
    rng = random.Random(1)
    _write(path, bytes_, lambda number: _mixed_lines(number, rng))


def _write(path: Path, bytes_: int, lines_of: Callable[[int], list[str]]) -> None:
    with path.open("w") as log:
        numbers = itertools.count(1)
        while log.tell() < bytes_:
            for number in itertools.islice(numbers, 1000):
                log.writelines(lines_of(number))


def _mixed_lines(number: int, rng: random.Random) -> list[str]:
    kind = min(int(math.log(1 - rng.random()) / math.log(_KIND_SHARE)), _KINDS)
    lane, turn = number % 50, number // 50
    hour, rest = divmod(number // 1000, 3600)
    time = f"2026-11-24 {hour:02}:{rest // 60:02}:{rest % 60:02}.{number % 1000:03} UTC"
    prefix = f"{time} [{turn // _TURNS * 50 + lane}] me@db "
    said = f"{prefix}LOG:  duration: 0.{number % 997:03} ms  "
    aid = rng.randrange(100_000)
    if kind % 3 == 0:
        texts = [
            "BEGIN",
            f"SELECT abalance AS a{kind} FROM pgbench_accounts WHERE aid = {aid}",
            f"UPDATE pgbench_accounts SET abalance = abalance + {number % 999} WHERE aid = {aid}",
            "COMMIT",
        ]
        return [f"{said}statement: {text};\n" for text in texts]
    detail = f"{prefix}DETAIL:  Parameters: $1 = '{aid}'\n"
    texts = [f"SELECT abalance AS a{kind} FROM pgbench_accounts WHERE aid = $1"]
    if kind % 3 == 1:
        texts += ["SELECT bid FROM pgbench_accounts WHERE aid = $1"] * (1 + rng.randrange(kind + 3))
        return [
            f"{said}execute <unnamed>: BEGIN\n",
            *(line for text in texts for line in (f"{said}execute P_{kind}: {text}\n", detail)),
            f"{said}execute <unnamed>: COMMIT\n",
        ]
    return [f"{said}execute P_{kind}: {texts[0]}\n", detail]


def capture(path: Path) -> Measured:
    """Make templates of the log, as a capture does."""
    argv = [sys.executable, "-m", "tests.features.capture.mixed_logs", str(path)]
    ended = processes.run(argv, timeout_s=1200)
    return Measured("capture", 1, 0.0, ended.cpu_ns, ended.wall_ns, ended.resident_bytes_max)


def _templates_of(path: Path) -> int:
    """Return how many templates a log has, with a schema that a server is not asked for."""
    columns = {
        "public.pgbench_accounts": ["aid", "bid", "abalance", "filler"],
        "public.pgbench_tellers": ["tid", "bid", "tbalance", "filler"],
    }
    logged = Logged(LogRequest([path], "db"), Names(columns, ["public"]))
    return len(logged.joined(EMPTY, lambda _: {}, {}, MeansOfStatements(())).templates)


if __name__ == "__main__":
    sys.stdout.write(f"{_templates_of(Path(sys.argv[1]))}\n")
