"""Servers in trouble for tests: sessions with names, held locks, and the findings of a watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests.features.watch.test_watch import Steps, request, seen_for
from tests.fixtures.clusters import run_sql

from pgdyno.features.watch.incident.evidence import TAKEN as evidence_takes
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.incident.rules import all_findings
from pgdyno.features.watch.incident.sampled import asked_too
from pgdyno.features.watch.statements import read_calls
from pgdyno.features.watch.tally import TAKEN as tally_takes
from pgdyno.features.watch.tally import Tally
from pgdyno.features.watch.watch import known_statements, watch
from pgdyno.observe.collector import Collector, NotMeasurable
from pgdyno.observe.host.cpu import CpuCollector
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.collectors import of_scope
from pgdyno.observe.sql.sql_collector import ServerSource
from pgdyno.observe.sql.waits import WaitSampler
from pgdyno.server.connect import connect
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store

Document = dict[str, Any]
SECOND_NS = 1_000_000_000


def session(target: Target, name: str, *, autocommit: bool = False) -> psycopg.Connection:
    """Return a session with an application_name."""
    parameters = {**target.libpq_parameters(), "application_name": name}
    return psycopg.connect(**parameters, autocommit=autocommit)  # type: ignore[arg-type]


@contextmanager
def waiting(target: Target, name: str, statement: str, count: int = 1) -> Iterator[None]:
    """Let sessions begin a statement that waits for a lock; it is over when the block ends."""
    sessions = [session(target, name, autocommit=True) for _ in range(count)]

    def begin(waiter: psycopg.Connection) -> None:
        try:
            waiter.execute(statement)  # type: ignore[arg-type]
        except psycopg.Error:
            return  # It was ended with the block.

    threads = [threading.Thread(target=begin, args=(waiter,)) for waiter in sessions]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    try:
        yield
    finally:
        run_sql(
            target,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            name,
        )
        for thread in threads:
            thread.join()
        for waiter in sessions:
            waiter.close()


@contextmanager
def busy(target: Target, name: str, act: Callable[[psycopg.Connection, int], object]) -> Iterator:
    """Let a session act again and again until the block ends."""
    stopping = threading.Event()

    def work() -> None:
        with session(target, name, autocommit=True) as worker:
            turn = 0
            while not stopping.is_set():
                turn += 1
                act(worker, turn)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def findings(
    target: Target, folder: Path, seconds: float = 4, *steps: Callable[..., bool]
) -> tuple[list[Document], Document]:
    """Watch for some seconds; return the findings and the whole document."""
    shown = Steps(*steps, seen_for(seconds))
    asked = request(target, interval_ns=500_000_000)
    outcome = watch(asked, Store(folder / "store"), shown)
    assert outcome.error is None or outcome.error.message == "Seen enough.", outcome.error
    for finding in outcome.document["findings"]:
        print(finding["kind"], "|", finding["said"], "|", finding["cost"])
    return outcome.document["findings"], outcome.document


def documents(target: Target, seconds: float) -> list[Document]:
    """Return what `judged` returns, as in the JSON document."""
    return [finding.as_document() for finding in judged(target, seconds)]


def of_kind(listed: list[Document], kind: str) -> Document:
    """Return the one finding of a kind."""
    [finding] = [finding for finding in listed if finding["kind"] == kind]
    return finding


def make_shop(target: Target) -> None:
    """Create the database `shop`, of which each incident has a copy, on a server that counts."""
    run_sql(target, "CREATE DATABASE shop")
    shop = target.with_database("shop")
    run_sql(shop, "CREATE EXTENSION pg_stat_statements")
    run_sql(
        shop,
        "CREATE TABLE orders AS SELECT id, id % 1000 AS customer, 0 AS n,"
        " repeat('x', 60) AS note FROM generate_series(1, 50000) id",
    )
    run_sql(shop, "ALTER TABLE orders ADD PRIMARY KEY (id)")
    run_sql(shop, "CREATE TABLE items AS SELECT id, 0 AS n FROM generate_series(1, 1000) id")
    run_sql(shop, "VACUUM ANALYZE")


def judged(target: Target, seconds: float = 2.0) -> list[IncidentFinding]:
    """Return all findings from samples of a few seconds, taken by hand.

    Each collector is sampled at both ends, those of sessions throughout. It is much cheaper than a
    watch, which samples tables and statements every 10 s and examines the server first.
    """
    tally = Tally(SECOND_NS)
    evidence = IncidentEvidence(tally)
    name = "pgdyno/observe/1"
    opened = ServerSession(lambda: connect(target, verb="observe", run="1"), name, is_local=True)
    opened.open()
    try:
        source = ServerSource(opened, target.database, (opened,), is_local=True)
        asked = [*of_scope("server", source), *of_scope("database", source), *asked_too(opened)]
        asked.append(CpuCollector())
        asked.append(WaitSampler(opened, "pgdyno/watch/1/", target.database))
        wanted = {*tally_takes, *evidence_takes}
        rare = [collector for collector in asked if collector.name in wanted]
        often = [made for made in rare if made.name in ("waits", "lock_queues", "database", "log")]
        before = read_calls(target, lambda _calls: ())
        began = time.monotonic()
        last_ns: dict[str, int] = {}
        _sample(rare, evidence, last_ns)
        while time.monotonic() - began < seconds:
            time.sleep(0.1)
            _sample(often, evidence, last_ns)
        _sample(rare, evidence, last_ns)
    finally:
        opened.close()
    wanted_texts = [query for query in tally.total.by_statement if query]
    known = known_statements(target, evidence, before, read_calls(target, lambda _: wanted_texts))
    listed = all_findings(evidence, known)
    for finding in listed:
        print(finding.kind, "|", finding.said, "|", finding.cost, "|", finding.next_step)
    return listed


def judged_until(target: Target, kind: str, seconds: float = 2.0) -> list[IncidentFinding]:
    """Return all findings; look longer if the first seconds show none of this kind.

    A statement is counted when it ends: on a busy machine none may have ended in two seconds.
    """
    listed = judged(target, seconds)
    return listed if kind in {made.kind for made in listed} else judged(target, 4 * seconds)


def _sample(
    collectors: list[Collector], evidence: IncidentEvidence, last_ns: dict[str, int]
) -> None:
    for collector in collectors:
        now_ns = time.time_ns()
        try:
            rows = collector.sample(now_ns)
        except (NotMeasurable, psycopg.Error):
            continue  # As in a watch: this sample is missing.
        interval_ns = now_ns - last_ns.get(collector.name, now_ns)
        last_ns[collector.name] = now_ns
        stamped = [{"time_ns": now_ns, "interval_ns": interval_ns, **row} for row in rows]
        evidence.tally.take(collector.name, stamped)
        evidence.take(collector.name, stamped)
