"""What brings the server's counters to one transaction of a script."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pgdyno.analysis.server_clocks import clocks_of
from pgdyno.answer.server_time import (
    describes,
    executes_apart,
    lacks_time,
    sends_pipelines,
    server_time,
    server_transactions_each,
)
from pgdyno.observe.rates import Deltas


def test_counts_reported_after_a_short_window_are_not_lost() -> None:
    assert server_transactions_each(668, 667) == 1


def test_thousands_of_sessions_start_with_a_transaction_each() -> None:
    assert server_transactions_each(41_867, 36_799, start_count=5_010) == 1
    assert server_transactions_each(41_867, 36_799) is None


def test_a_few_transactions_of_our_own_sessions_hide_nothing() -> None:
    assert server_transactions_each(725, 667) == 1


def test_transactions_of_others_hide_how_many_belong_to_the_load() -> None:
    """Autovacuum's: 306 of 2,545 (PostgreSQL 15, tables that are dropped in each transaction)."""
    assert server_transactions_each(2_545, 2_239) is None
    assert server_transactions_each(25_460, 2_220) is None


def test_with_few_transactions_those_of_our_sessions_hide_the_number() -> None:
    assert server_transactions_each(70, 20) is None


def test_autocommitted_statements_are_a_whole_number_of_transactions() -> None:
    assert server_transactions_each(3_020, 1_000) == 3


def test_a_mix_of_scripts_may_have_a_broken_number_of_transactions() -> None:
    assert server_transactions_each(3_000, 2_000) is None


@pytest.mark.parametrize(
    ("has_io_view", "writing"),
    [(False, ("IO:DataFileWrite",)), (True, ("IO:DataFileExtend", "IO:DataFileWrite"))],
)
def test_the_clock_of_writing_includes_extending_since_pg_stat_io(
    has_io_view: bool, writing: tuple[str, ...]
) -> None:
    """The server adds extending to blk_write_time from version 16 on, as pg_stat_io shows it."""
    events = {clock.column: clock.events for clock in clocks_of(has_io_view=has_io_view)}
    assert events["blk_write_time_ns"] == writing
    assert len(events) == 4


@pytest.mark.parametrize(("warmed_up", "each_ms"), [(0, 15.9), (100, 14.0)])
def test_without_a_warm_up_reports_that_come_late_change_nothing(
    monkeypatch: pytest.MonkeyPatch, warmed_up: int, each_ms: float
) -> None:
    """The last transactions were slow, and the server reported them after the window."""
    completed, second_ns = 275, 1_000_000_000
    committed = completed + warmed_up + 2  # Of each of two clients the last one.
    columns = {"active_time_ns": np.full(3, 260 / 3 * 14e6), "xact_commit": np.full(3, 260 / 3)}
    ends_ns = np.arange(1, 4) * second_ns
    rows = Deltas({}, ends_ns, np.full(3, second_ns), columns)
    monkeypatch.setattr("pgdyno.answer.server_time.deltas_of", lambda *_: rows)
    totals: dict[str, Any] = {"is_exact": True, "database.xact_commit": committed}
    totals["database.active_time_ns"] = committed * 15.9e6
    engine = SimpleNamespace(threads=[SimpleNamespace(clients=2)])
    stored: Any = SimpleNamespace(warnings=[], job={}, server_json={"totals": totals})
    stored.telemetry = lambda _: None
    numbers: Any = SimpleNamespace(
        span_ns=(0, 3 * second_ns),
        began_ns=0,
        seconds=3.0,
        counts=SimpleNamespace(completed=completed, failed=0),
        summary=SimpleNamespace(transactions_committed_all_phases=committed, engine=engine),
    )
    counted = server_time(stored, numbers, completed)
    assert counted.active_ms == pytest.approx(completed * each_ms)


# The load has two sessions at work all the time, somebody else none, one or two.
SEEN = np.tile([2.0, 3.0, 4.0], 10)


@pytest.mark.parametrize(
    ("counted", "is_right"), [(2.0, False), (2.5, False), (2.9, True), (3.5, True), (4.0, False)]
)
def test_a_count_that_lacks_what_others_did_not_report_is_not_used(
    counted: float, is_right: bool
) -> None:
    assert describes(counted, SEEN) is is_right


def test_a_few_samples_do_not_contradict_the_servers_count() -> None:
    assert describes(2.0, SEEN[:6])


@pytest.mark.parametrize(
    ("script", "is_pipelined"),
    [
        ({"source": {"builtin": "tpcc-like"}, "options": {"mode": "pipeline"}}, True),
        ({"source": {"builtin": "tpcc-like"}, "options": {"mode": "procedures"}}, False),
        ({"source": {"builtin": "tpcc-like"}, "options": {}}, False),
        ({"source": {"builtin": "ledger"}, "options": {}}, True),
        ({"source": {"builtin": "mirror"}}, False),
        ({"source": {"text": "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n"}}, True),
        ({"source": {"text": "SELECT '\\startpipeline';\n"}}, False),
    ],
)
def test_a_load_that_sends_pipelines_is_known_by_its_job(
    script: dict[str, Any], is_pipelined: bool
) -> None:
    """The server's count of its time has only the last statement of a pipeline."""
    plain = {"source": {"builtin": "tpcb-like"}}
    assert sends_pipelines({"work": {"scripts": [plain, script]}}) is is_pipelined


@pytest.mark.parametrize(
    ("protocol", "is_apart"), [("simple", False), ("extended", True), ("prepared", True)]
)
def test_the_protocol_decides_whether_the_server_counts_planning(
    protocol: str, is_apart: bool
) -> None:
    assert executes_apart({"work": {"protocol": protocol}}) is is_apart


def test_a_count_without_planning_is_seen_by_the_samples() -> None:
    sampled = float(SEEN.mean())
    assert lacks_time(0.3 * sampled, SEEN)
    assert not lacks_time(0.97 * sampled, SEEN)
    assert not lacks_time(0.3 * sampled, SEEN[:6])


def test_few_samples_are_enough_if_the_count_is_nearly_nothing() -> None:
    """On a busy machine there are few samples, and a session often has no core."""
    seen = np.array([1.0] * 21 + [0.0] * 33)
    assert lacks_time(0.02, seen)
    assert not lacks_time(0.3, seen)
    assert not lacks_time(0.02, np.zeros(54))
    assert not lacks_time(0.02, np.zeros(0))
