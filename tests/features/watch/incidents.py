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

from pgdyno.features.watch.watch import watch
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


def of_kind(listed: list[Document], kind: str) -> Document:
    """Return the one finding of a kind."""
    [finding] = [finding for finding in listed if finding["kind"] == kind]
    return finding
