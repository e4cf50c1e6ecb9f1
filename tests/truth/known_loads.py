"""Loads whose time is known from sources that the analysis does not read.

The server adds up the time of each function by itself (`track_functions`), which no part of the
split uses; the rest is arithmetic, a proxy's own delay, or what a shim counted.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.slow_line import SlowLine
from tests.fixtures.stillness import on_a_machine_that_runs

from pgdyno.server.target import Target

Document = dict[str, Any]
# A run of under 10 s is not valid (3); that it is short is the point.
DONE = (0, 3)
NOT_EXPLAINED_RATIO_MAX = 0.05
SERVER = "in the server"


@dataclass(frozen=True)
class Truth:
    """The true sum of some parts, in ms; `SERVER` is the whole server time.

    `error_ms`: how wrong this truth itself may be.
    """

    names: tuple[str, ...]
    ms: float
    error_ms: float = 0.0


@dataclass(frozen=True)
class KnownLoad:
    """A load, its preparation, and the truths that are known afterwards.

    `source`: where the truths are from, for docs/method.md.
    """

    name: str
    setup: tuple[str, ...]
    script: str
    truths: Callable[[Target, Document], list[Truth]]
    clients: int = 1
    seconds: int = 3
    options: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    way_ms: float = 0.0
    foreign: str = ""
    forget: Callable[[], object] = lambda: None
    source: str = "the server's clock around a function (`track_functions`)"


def timed_ms(database: Target, function: str = "work") -> float:
    """Return the mean time of a call by the server's own clock, of all sessions that ended."""
    counted = "SELECT total_time / calls FROM pg_stat_user_functions WHERE funcname = %s"
    return float(str(scalar(database, counted, function)))


def function(body: str, name: str = "work") -> str:
    """Return the statement that makes a function whose time the server adds up."""
    head = f"CREATE FUNCTION {name}(first int DEFAULT 0) RETURNS void LANGUAGE plpgsql AS"
    return f"{head} $$ BEGIN {body} END $$"


def _work(target: Target, document: Document) -> list[Truth]:
    return [Truth((SERVER,), timed_ms(target))]


def _row_lock(target: Target, document: Document) -> list[Truth]:
    return [Truth(("Lock:transactionid", "Lock:tuple"), timed_ms(target))]


def _table_lock(target: Target, document: Document) -> list[Truth]:
    return [Truth(("Lock:relation",), timed_ms(target))]


def _sleeping(target: Target, document: Document) -> list[Truth]:
    in_server = Truth(("Timeout:PgSleep",), timed_ms(target))
    if "timer_lag" in doubts_of(document):
        return [in_server]  # The engine's timers were late: the script slept longer than it asks.
    return [in_server, Truth(("\\sleep of the script",), 3.0)]


# Engine and backend are still busy with the system call that sends when the line already holds the
# piece. pgdyno counts this time as CPU, the line counts it as its own.
_SENDING_MS = 0.05


def _far(target: Target, document: Document) -> list[Truth]:
    # The script has one exchange: there and back, as the line itself counted them.
    line = Truth(("network",), 2 * document["held_ms"], error_ms=_SENDING_MS)
    return [line, Truth((SERVER,), timed_ms(target))]


FILLED = (
    "CREATE TABLE pages (id int PRIMARY KEY, filler text)",
    "INSERT INTO pages SELECT n, repeat('x', 900) FROM generate_series(1, 60000) n",
    "VACUUM ANALYZE pages",
)
ONE_ROW = ("CREATE TABLE one (id int PRIMARY KEY, n int)", "INSERT INTO one VALUES (1, 0)")

LOADS = (
    KnownLoad(
        "spilling sort",
        (
            "CREATE TABLE spill AS SELECT hashint4(g) AS n FROM generate_series(1, 120000) g",
            function("PERFORM max(n) FROM (SELECT n FROM spill ORDER BY n OFFSET 10) s;"),
        ),
        "SELECT work();\n",
        _work,
        settings={"work_mem": "1MB", "max_parallel_workers_per_gather": "0"},
    ),
    # The function's clock leaves out what its statement takes around it: 0.02 ms, and on busy cores
    # the wait for one. A call is long enough for that to be below the bound.
    KnownLoad(
        "cold reads",
        (*FILLED, function("PERFORM filler FROM pages WHERE id BETWEEN first AND first + 6400;")),
        "\\set n random(1, 53000)\nSELECT work(:n);\n",
        _work,
        clients=2,
    ),
    KnownLoad(
        "row lock queue",
        (*ONE_ROW, function("PERFORM o.n FROM one o WHERE o.id = 1 FOR UPDATE;")),
        "BEGIN READ WRITE;\nSELECT work();\nSELECT pg_sleep(0.01);\nEND;\n",
        _row_lock,
        clients=4,
    ),
    KnownLoad(
        "pg_sleep and \\sleep",
        (function("PERFORM pg_sleep(0.005);"),),
        "BEGIN;\nSELECT work();\n\\sleep 3 ms\nEND;\n",
        _sleeping,
        clients=2,
        source="the server's clock around a function; the script's own 3 ms",
    ),
    KnownLoad(
        "table lock",
        (*ONE_ROW, function("LOCK TABLE one;")),
        "BEGIN READ WRITE;\nSELECT work();\nSELECT pg_sleep(0.01);\nEND;\n",
        _table_lock,
        clients=4,
    ),
    KnownLoad(
        "2 ms each way",
        (function("PERFORM pg_sleep(0.002);"),),
        "SELECT work();\n",
        # One client: pieces of several would delay each other on the line, which has one thread.
        _far,
        clients=1,
        way_ms=2.0,
        source="the log of the proxy; the server's clock around a function",
    ),
    KnownLoad(
        "two busy foreign sessions",
        (function("PERFORM pg_sleep(0.01);"),),
        "SELECT work();\n",
        _work,
        clients=2,
        foreign="SELECT count(*) FROM generate_series(1, 20000)",
    ),
    KnownLoad(
        "6 clients on 2 cores",
        (function("PERFORM count(*) FROM generate_series(1, 5000);"),),
        "SELECT work();\n",
        _work,
        clients=6,
    ),
    KnownLoad(
        "slow statements",
        (function("PERFORM count(*) FROM generate_series(1, 300000);"),),
        "SELECT work();\n",
        _work,
    ),
)


@dataclass(frozen=True)
class Compared:
    """One truth, and the run's value for it."""

    truth: Truth
    found_ms: float
    half_ms: float
    latency_ms: float

    @property
    def names(self) -> tuple[str, ...]:
        """The parts that the truth is about."""
        return self.truth.names

    @property
    def truth_ms(self) -> float:
        """The true time of these parts."""
        return self.truth.ms

    @property
    def is_inside(self) -> bool:
        """Whether the interval of the part has the truth, as far as the truth is known."""
        return abs(self.found_ms - self.truth_ms) <= self.half_ms + self.truth.error_ms

    @property
    def is_right(self) -> bool:
        """Whether the part is within 5 % of the latency, or twice its interval."""
        allowed_ms = max(0.05 * self.latency_ms, 4 * self.half_ms)
        return -allowed_ms <= self.found_ms - self.truth_ms <= allowed_ms


def prepare(load: KnownLoad, database: Target) -> None:
    """Make the tables and functions of a load in an empty database."""
    name = database.database
    settings = {"track_functions": "pl", **load.settings}
    for setting, value in settings.items():
        run_sql(database, f"ALTER DATABASE {name} SET {setting} = '{value}'")
    for statement in load.setup:
        run_sql(database, statement)


# A role that may connect through TCP, and its password.
_FAR = "far"


def _of_far_role(database: Target) -> Target:
    run_sql(database, f"CREATE ROLE {_FAR} SUPERUSER LOGIN PASSWORD '{_FAR}'")
    return replace(database, user=_FAR)


def measured(load: KnownLoad, pgdyno: Command, database: Target, folder: Path) -> Document:
    """Run a load, after its own counts are set to 0."""
    script = folder / "known.sql"
    script.write_text(load.script)
    line = SlowLine(_of_far_role(database), load.way_ms / 1e3) if load.way_ms else None
    target = line.target if line is not None else database
    place = ["-h", target.host, "-p", target.ports, "-U", target.user, "-d", target.database]
    amount = ["-c", str(load.clients), "-T", f"{load.seconds}s", "--warmup", "0s", "--allow-write"]
    others = ["--confirm", f"{database.database}@local"] if load.foreign else []
    command = ["bench", *place, "-f", script, *amount, *load.options, *others, "--json"]

    def measure() -> Document:
        run_sql(database, "SELECT pg_stat_reset()")
        load.forget()
        said = pgdyno(*command, env={"PGPASSWORD": _FAR})
        assert said.code in DONE, said
        if line is None:
            return said.document
        return {**said.document, "held_ms": 1e3 * line.mean_held_s("pgdyno/bench/")}

    try:
        with busy(database, load.foreign) if load.foreign else nullcontext():
            return on_a_machine_that_runs(measure)
    finally:
        if line is not None:
            line.close()
            run_sql(database, f"DROP ROLE {_FAR}")


@contextmanager
def busy(
    database: Target, statement: str, count: int = 2, *, pause_s: float = 0.001
) -> Iterator[None]:
    """Within the block, other sessions work in the same database."""
    stopping = threading.Event()

    def work() -> None:
        with connection(database) as session:
            while not stopping.is_set():
                session.execute(statement)  # type: ignore[call-overload]
                time.sleep(pause_s)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def split_of(document: Document) -> Document:
    """Return the split of a run, whose parts and rest are its latency exactly."""
    where: Document | None = document["where_the_time_goes"]
    assert where is not None, document["where_the_time_goes_not_computed_because"]
    total_ms = math.fsum(part["ms"] for part in where["parts"]) + where["residual_ms"]
    assert abs(total_ms - where["latency_ms"]) <= 1e-9 * where["latency_ms"]
    assert all(part["ms"] >= 0 for part in where["parts"]), where["parts"]
    return where


def compared(load: KnownLoad, database: Target, document: Document) -> list[Compared]:
    """Return every truth of a load with the run's value for it."""
    where = split_of(document)
    parts = {part["name"]: part for part in where["parts"]}
    problems = []
    for truth in load.truths(database, document):
        if truth.names == (SERVER,):
            problems.append((truth, float(where["server_ms"]), server_half_ms(where)))
            continue
        there = [parts[name] for name in truth.names if name in parts]
        halves = [(part["high"] - part["low"]) / 2 for part in there if part["high"] is not None]
        problems.append((truth, math.fsum(part["ms"] for part in there), max(halves, default=0.0)))
    latency_ms = float(where["latency_ms"])
    return [Compared(truth, ms, half, latency_ms) for truth, ms, half in problems]


def server_half_ms(where: Document) -> float:
    """Return the half-width of the server's time: that of its parts, where samples made it.

    The error of a count is in the interval of the rest, or of the network, which is what the count
    leaves. It is large where pgdyno's own sessions had to wait for a core.
    """
    if where["server_how"] != "sampled":
        rest = float((where["residual_high"] or 0.0) - (where["residual_low"] or 0.0)) / 2
        ways = [part for part in where["parts"] if part["name"] == "network"]
        return max([rest, *((way["high"] - way["low"]) / 2 for way in ways if way["high"])])
    there = [part for part in where["parts"] if part["name"] != "network"]
    halves = [(part["high"] - part["low"]) / 2 for part in there if part["high"] is not None]
    return max(halves, default=0.0)


def doubts_of(document: Document) -> list[str]:
    """Return the kinds of a run's doubts."""
    return [str(warning["kind"]) for warning in document["warnings"]]
