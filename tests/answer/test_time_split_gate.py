"""Why it is not said where the time goes: each reason by itself, on runs made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.findings import Latency
from pgdyno.analysis.split_verdicts import split_doubts
from pgdyno.analysis.where_types import TypeTime
from pgdyno.answer.time_split import Split, split_or_why_not
from pgdyno.answer.timeline import panels_of
from pgdyno.engine.records import (
    ClientTimes,
    ConnectionFacts,
    Counts,
    EngineUsage,
    Summary,
    ThreadFacts,
    TrafficFacts,
)
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.sql.database import COUNTER_NAMES
from pgdyno.store.experiment import Store
from pgdyno.store.run_writer import RunWriter

SECOND_NS = 1_000_000_000
LENGTH_S = 10
# Ten clients at work all the time, 100 transactions a second: 100 ms each.
CLIENTS, TRANSACTIONS = 10, 1000


def numbers(
    *,
    completed: int = TRANSACTIONS,
    latency_ms: float = 100,
    clients: int = 0,
    committed: int | None = None,
) -> LoadNumbers:
    summary = Summary.model_construct(
        counts=Counts(started=completed, completed=completed),
        scripts=(),
        distributions=(),
        clients=ClientTimes(),
        connections=ConnectionFacts(lost_count=0, reconnect_count=0),
        traffic=TrafficFacts(round_trips=completed, bytes_sent=0, bytes_received=0),
        engine=EngineUsage.model_construct(
            threads=(ThreadFacts.model_construct(clients=clients, reply_wait_ns_mean=None),),
            cpu_user_ns=0,
            cpu_system_ns=0,
        ),
        transactions_committed_all_phases=completed if committed is None else committed,
    )
    return LoadNumbers(
        summary=summary,
        scripts=(),
        began_ns=0,
        ended_ns=LENGTH_S * SECOND_NS,
        counts_100ms=np.zeros(0, dtype=np.int64),
        interval_ns=SECOND_NS // 10,
        tps=without_interval(completed / LENGTH_S, "tps"),
        latency=Latency(without_interval(latency_ms, "ms"), {}, 1.0),
    )


def add_waits(writer: RunWriter, *, seconds: list[float], unseen: int, event: str) -> None:
    """Add samples in which every client waits for one thing, and sessions that are not visible."""
    row: dict[str, Any] = {"backend_type": "client backend", "state": "active", "ours": 1}
    row |= {"wait_event": event, "query_id": 0, "count": CLIENTS}
    for second in seconds:
        stamp = {"time_ns": int(second * SECOND_NS), "interval_ns": SECOND_NS // 10}
        hidden = row | {"backend_type": "unknown", "state": "", "ours": 0, "count": unseen}
        writer.add_samples("waits", [stamp | row] + [stamp | hidden] * (unseen > 0))


def add_database(writer: RunWriter, *, reported_ratio: float) -> None:
    """Add what the server adds up: each second 100 transactions, and every client at work.

    Args: reported_ratio, how much of that work it says.
    """
    for second in range(LENGTH_S + 1):
        stamp = {"time_ns": second * SECOND_NS, "interval_ns": SECOND_NS if second else 0}
        row: dict[str, Any] = {**dict.fromkeys(COUNTER_NAMES, 0), "scope": "ours"}
        row |= {"connections": CLIENTS, "stats_reset_ns": 0, "own_transactions": 0}
        row["xact_commit"] = second * TRANSACTIONS // LENGTH_S
        row["active_time_ns"] = int(reported_ratio * second * CLIENTS * SECOND_NS)
        writer.add_samples("database", [stamp | row])


def split(
    tmp_path: Path,
    load: LoadNumbers,
    *,
    waits: list[float] | None = None,
    unseen: int = 0,
    event: str = "Lock:tuple",
    adds_up: bool = True,
    reported_ratio: float = 1.0,
    totals: dict[str, int] | None = None,
    notices: Sequence[str] = (),
) -> Split:
    folder = Store(tmp_path).create("split", "bench")
    with folder.begin_run(1, "run", {}) as writer:
        if waits is not None:
            add_waits(writer, seconds=waits, unseen=unseen, event=event)
        if adds_up:
            add_database(writer, reported_ratio=reported_ratio)
        if totals is not None:
            writer.write_json("server.json", {"totals": {"is_exact": 1, **totals}})
        for kind in notices:
            writer.add_notice({"time_ns": 0, "kind": kind, "message": "", "hint": ""})
        writer.add_record({"record": "summary", "began_ns": 0, "ended_ns": LENGTH_S * SECOND_NS})
        writer.finish()
    return split_or_why_not(folder.runs()[0], load)


def every(gap_s: float) -> list[float]:
    return np.arange(0.05, LENGTH_S, gap_s).tolist()


def test_with_nothing_against_it_the_parts_are_computed(tmp_path: Path) -> None:
    parts = split(tmp_path, numbers(), waits=every(0.1))
    assert parts.why_not == ""
    assert parts.where is not None
    assert round(parts.where.server_ms or 0) == 100
    assert [part.name for part in parts.where.parts] == ["Lock:tuple"]


def test_a_session_that_answered_while_it_was_looked_at_did_not_wait(tmp_path: Path) -> None:
    where = split(tmp_path, numbers(), waits=every(0.1), event="Client:ClientRead").where
    assert where is not None
    assert [part.name for part in where.parts] == ["CPU or not instrumented"]


def test_a_time_line_draws_it_at_work_too(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("line", "bench")
    with folder.begin_run(1, "run", {}) as writer:
        add_waits(writer, seconds=every(0.2), unseen=0, event="Client:ClientRead")
        add_waits(writer, seconds=every(0.2), unseen=0, event="")
        writer.add_record({"record": "summary", "began_ns": 0, "ended_ns": LENGTH_S * SECOND_NS})
        writer.finish()
    panels = {panel.key: panel for panel in panels_of(folder.runs()[0], numbers(), {})}
    [line] = panels["waits"].series
    assert line.name == "CPU or not instrumented"
    assert set(line.values) == {2 * CLIENTS}


@pytest.mark.parametrize(("unseen", "others"), [(0, 0.0), (3, None)])
def test_the_share_of_others_is_not_known_where_they_may_not_be_seen(
    tmp_path: Path, unseen: int, others: float | None
) -> None:
    where = split(tmp_path, numbers(), waits=every(0.1), unseen=unseen).where
    assert where is not None
    assert where.others_ratio == others


def test_a_run_without_a_transaction_has_no_time_to_split(tmp_path: Path) -> None:
    parts = split(tmp_path, numbers(completed=0), waits=every(0.1))
    assert (parts.where, parts.why_not) == (None, "no transaction was completed")


def test_a_server_that_was_away_is_not_split(tmp_path: Path) -> None:
    seen = [second for second in every(0.1) if not 3 < second < 8]
    parts = split(tmp_path, numbers(), waits=seen)
    assert parts.where is None
    assert parts.why_not == "the server could not be observed for 5 s of the run"


@pytest.mark.parametrize(("gap_s", "is_split"), [(4, True), (6, False)])
def test_with_thousands_of_clients_late_answers_leave_a_part_of_the_time_unsampled(
    tmp_path: Path, gap_s: int, is_split: bool
) -> None:
    seen = [second for second in every(0.1) if not 3 < second < 3 + gap_s]
    parts = split(tmp_path, numbers(clients=8000), waits=seen)
    assert (parts.where is not None) == is_split, parts.why_not


@pytest.mark.parametrize(
    ("kinds", "is_known"),
    [
        (["observer_answered_late"], True),
        (["observer_answered_late", "observer_lost_server"], False),
    ],
)
def test_of_a_server_that_answered_too_late_its_own_count_is_known(
    tmp_path: Path, kinds: list[str], is_known: bool
) -> None:
    parts = split(tmp_path, numbers(clients=8000), waits=[2.0, 9.0], notices=kinds)
    if not is_known:
        assert parts.why_not == "the server could not be observed for 7 s of the run"
        return
    assert parts.where is not None
    assert round(parts.where.server_ms or 0) == 100
    assert [part.name for part in parts.where.parts] == ["server"]


def test_a_server_that_was_not_observed_at_all_is_not_split(tmp_path: Path) -> None:
    parts = split(tmp_path, numbers(), adds_up=False)
    assert parts.where is None
    assert parts.why_not == "the server was not observed, so its part is not known"


def test_few_samples_give_no_server_time(tmp_path: Path) -> None:
    parts = split(tmp_path, numbers(), waits=every(1.2), adds_up=False)
    assert parts.where is None
    assert parts.why_not == "there are only 9 samples of the server's time; 10 are needed"


def test_few_samples_are_enough_to_split_what_the_server_adds_up(tmp_path: Path) -> None:
    assert split(tmp_path, numbers(), waits=every(1.2)).where is not None


def test_many_samples_stand_for_what_the_server_does_not_add_up(tmp_path: Path) -> None:
    parts = split(tmp_path, numbers(), waits=every(0.1), adds_up=False)
    assert parts.where is not None
    assert round(parts.where.server_ms or 0) == 100


def test_parts_that_exceed_the_latency_are_not_shown(tmp_path: Path) -> None:
    parts = split(tmp_path, numbers(latency_ms=50), waits=every(0.1))
    assert parts.where is None
    assert parts.why_not == "the measured parts exceed the latency by 100 %"


def test_a_count_far_from_the_samples_is_used_with_a_doubt(tmp_path: Path) -> None:
    waits = [second / 10 for second in range(10 * LENGTH_S)]
    where = split(tmp_path, numbers(), waits=waits, reported_ratio=0.2).where
    assert where is not None
    assert (where.server_how, where.server_ms) == ("counted", pytest.approx(20))
    assert [(part.name, round(part.ms.value)) for part in where.parts] == [("Lock:tuple", 20)]
    assert {doubt.kind for doubt in split_doubts(where)} >= {"samples_apart", "not_explained"}


@pytest.mark.parametrize(("outside", "is_unsure"), [(0, False), (300, True)])
def test_transactions_of_others_leave_the_ends_of_a_run_unsure(
    tmp_path: Path, outside: int, is_unsure: bool
) -> None:
    """Of 1,000 transactions each took 100 ms; the last tenth of this time was reported late."""
    whole_ns = (TRANSACTIONS + outside) * SECOND_NS // 10
    totals = {"database.active_time_ns": whole_ns, "database.xact_commit": 2 * TRANSACTIONS - 100}
    load = numbers(committed=TRANSACTIONS + outside, clients=CLIENTS)
    where = split(tmp_path, load, waits=every(0.1), reported_ratio=0.9, totals=totals).where
    assert where is not None
    assert where.server_ms == pytest.approx(100)
    doubts = [doubt for doubt in split_doubts(where) if doubt.kind == "server_time_unsure"]
    assert [doubt.message for doubt in doubts] == [
        "Other sessions, such as autovacuum, added transactions to the load's database, or"
        " transactions of the load differ in number of statements: the server time is known to"
        " 2.5 % only."
    ] * is_unsure
    server = where.parts[0].ms
    assert server.low is not None
    assert (server.low < 99) == is_unsure


def test_counters_that_were_not_read_at_the_end_leave_the_servers_time_unsure(
    tmp_path: Path,
) -> None:
    load = numbers(clients=CLIENTS)
    where = split(tmp_path, load, waits=every(0.1), reported_ratio=0.9).where
    assert where is not None
    [doubt] = [doubt for doubt in split_doubts(where) if doubt.kind == "server_time_unsure"]
    assert "not read after the sessions of the load had ended" in doubt.message


@pytest.mark.parametrize(
    ("residual", "words"),
    [
        (Estimate(1.9, 1.2, 2.6, 50, "ms", "within_run"), "Stock-Level 1.9 of 4.50 ms"),
        (Estimate(-1.2, -1.9, -0.4, 50, "ms", "within_run"), "Stock-Level -1.2 of 4.50 ms"),
        (Estimate(1.9, -0.1, 3.9, 50, "ms", "within_run"), ""),
        (Estimate(0.2, 0.1, 0.3, 50, "ms", "within_run"), ""),
    ],
)
def test_time_of_a_type_that_no_part_explains_is_a_doubt(
    tmp_path: Path, residual: Estimate, words: str
) -> None:
    where = split(tmp_path, numbers(), waits=every(0.1)).where
    assert where is not None
    where = replace(where, latency_ms=without_interval(5.0, "ms"))
    nothing = without_interval(0.0, "ms")
    held = without_interval(4.5, "ms")
    parts = (nothing, nothing, nothing, nothing)
    kind = TypeTime("Stock-Level", False, 40, held, *parts, residual, ())
    doubts = split_doubts(replace(where, types=(kind,)))
    named = [doubt.message for doubt in doubts if doubt.kind == "type_not_explained"]
    assert [words in message for message in named] == [True] * bool(words)
