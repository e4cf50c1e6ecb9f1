"""The parts of a statement's latency against the system calls of the load engine (strace)."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, eventually, server_options, under_way
from tests.fixtures.stillness import Document, on_a_machine_that_runs
from tests.truth.known_loads import DONE, doubts_of, function, split_of

from pgdyno.analysis.where_facts import REPLY_WAIT
from pgdyno.server.target import Target

# epoll, because io_uring sends and receives without system calls.
EPOLL = {"PGDYNO_POLLER": "epoll"}
LOAD = ("-c", "1", "-T", "5s", "--warmup", "3s", "--allow-write", "--json")
# One client has one connection, so all statements and answers are on one line.
_SENT = re.compile(r'^\d+ +([\d.]+) sendto\(\d+, "Q')
_RECEIVED = re.compile(r'^\d+ +([\d.]+) recvfrom\(\d+, "T')


def test_the_wait_of_a_statement_is_from_sending_to_answer(
    strace: Path, pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    run_sql(database, function("PERFORM count(*) FROM generate_series(1, 60000);"))
    script, calls = tmp_path / "work.sql", tmp_path / "calls"
    script.write_text("SELECT work();\n")

    def measure() -> Document:
        command = ("bench", *server_options(database), "-f", script, *LOAD)
        running = pgdyno.start(*command, env=EPOLL)
        eventually(lambda: under_way(pgdyno.store, "intervals.jsonl"))
        traced = ["-f", "-ttt", "-s", "1", "-e", "trace=sendto,recvfrom", "-o", str(calls)]
        with subprocess.Popen(
            [strace, *traced, "-p", str(running.engine_pid)], stderr=subprocess.DEVNULL
        ):
            said = running.wait()
        assert said.code in DONE, said
        return said.document

    document = on_a_machine_that_runs(measure)
    where = split_of(document)
    exchanges = list(_exchanges(calls.read_text().splitlines()))
    measured = exchanges[-document["transactions"] :]
    assert measured, calls.read_text()[:2000]
    truth_ms = fmean(answered - sent for sent, answered in measured) * 1e3
    between_ms = fmean(sent - answered for (_, answered), (sent, _) in pairwise(measured))
    waited = [part for part in where["parts"] if part["name"] != "client"]
    found_ms = math.fsum(part["ms"] for part in waited)
    after_ms = where["scheduled"]["after_answer_ms"]
    seen = f"strace {truth_ms:.3f} ms, parts {found_ms:.3f} ms, {len(measured)} exchanges"
    print(seen, f"after the answer {after_ms:.4f} of {between_ms * 1e3:.4f} ms", where["parts"])
    halves = [part["high"] - part["low"] for part in waited if part["high"] is not None]
    allowed_ms = max([0.05 * where["latency_ms"], *halves])
    is_doubted = bool({"not_explained", "timer_lag"} & set(doubts_of(document)))
    assert abs(found_ms - truth_ms) <= allowed_ms or is_doubted, seen
    # A backend's work after its answer ends before it has the next statement. The answer lay in its
    # socket before the engine read it, and the engine worked.
    near_ms = math.fsum(
        part["ms"] for part in where["parts"] if part["name"] in ("client", REPLY_WAIT)
    )
    assert after_ms <= between_ms * 1e3 + near_ms or is_doubted


def _exchanges(lines: Iterable[str]) -> Iterator[tuple[float, float]]:
    """Return when each statement was sent and its answer received, in s."""
    sent_s: float | None = None
    for line in lines:
        if sent := _SENT.match(line):
            sent_s = float(sent[1])
        elif (received := _RECEIVED.match(line)) and sent_s is not None:
            yield sent_s, float(received[1])
            sent_s = None
