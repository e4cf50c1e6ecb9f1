"""Transactions wait for a free client because the busy ones wait for something: it is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command
from tests.fixtures.stillness import Document, on_a_machine_that_runs

from pgdyno.analysis.at_work import events_while_busy
from pgdyno.analysis.where_facts import ANSWERING, WaitSamples
from pgdyno.server.scratch.cluster import ScratchCluster

# A run of under 10 s, or one that does not reach its rate, is not valid: here that is the point.
DONE = (0, 3)
QUEUE = "BEGIN READ WRITE;\nLOCK TABLE queue;\nSELECT pg_sleep(0.05);\nEND;\n"


def samples(*groups: tuple[int, str, int]) -> WaitSamples:
    """Return samples (instant, event, sessions) in time order."""
    at = np.array([time_ns for time_ns, *_ in groups])
    counts = np.array([count for *_, count in groups])
    return WaitSamples(np.unique(at), at, [event for _, event, _ in groups], counts)


def test_only_moments_when_all_were_busy_count() -> None:
    calm = [(time_ns, "IO:WALSync", 1) for time_ns in range(100, 160)]
    full = [
        (n, event, count) for n in range(10) for event, count in (("Lock:relation", 3), ("", 1))
    ]
    answering = [(200, ANSWERING, 50)]
    events = events_while_busy(samples(*full, *calm, *answering))
    assert events == (("Lock:relation", 0.75), ("CPU or not instrumented", 0.25))


def test_a_few_sightings_name_nothing() -> None:
    assert events_while_busy(samples((1, "Lock:relation", 29))) == ()
    assert events_while_busy(samples((1, ANSWERING, 50))) == ()


@pytest.mark.pg
def test_the_lock_behind_the_wait_for_a_client_is_named_everywhere(
    pgdyno: Command, any_server: ScratchCluster, tmp_path: Path
) -> None:
    target = any_server.target
    run_sql(target, "DROP TABLE IF EXISTS queue")
    run_sql(target, "CREATE TABLE queue (n int)")
    script = tmp_path / "queue.sql"
    script.write_text(QUEUE)
    place = ["-h", target.host, "-p", target.ports, "-U", target.user, "-d", target.database]
    # One transaction takes 50 ms, so the table serves 20 a second: a fifth of what is offered.
    load = ["-R", "100", "-c", "6", "-T", "4s", "--warmup", "0s", "--allow-write"]

    def measure() -> Document:
        said = pgdyno("bench", *place, "-f", script, *load, "--json")
        assert said.code in DONE, said
        return said.document

    document = on_a_machine_that_runs(measure)
    where = document["where_the_time_goes"]
    assert where is not None, document["where_the_time_goes_not_computed_because"]
    largest = max(where["parts"], key=lambda part: part["ms"])
    assert largest["name"] == "schedule lag"
    # One sleeps with the lock, five wait for it; on a busy machine some wait for a core.
    (cause, *_) = where["while_busy"]
    assert cause["wait_event"] == "Lock:relation"
    assert 0.5 < cause["share_ratio"] < 0.9
    words = "meanwhile the busy clients spent"
    assert words in document["sentence"]
    assert "of their time in Lock:relation" in document["sentence"]
    pages = sorted(pgdyno.store.rglob("report.html"))
    for text in (pgdyno("show", "-v").out, pages[-1].read_text()):
        shown = " ".join(text.replace("\u00a0", " ").split())
        assert words in shown
        assert "transactions waited for a client, the busy clients waited for: table lock " in shown
