"""What stands below the parts of the time: whose it was, and the statements."""

from __future__ import annotations

from dataclasses import replace

from tests.report.examples import run

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.where import KernelTimes, WhereTheTimeGoes
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.report.time_words import others_words, scheduled_words, statement_lines


def ms(value: float) -> Estimate:
    return Estimate(value, value * 0.9, value * 1.1, 30, "ms", "within_run")


def where() -> WhereTheTimeGoes:
    split = run().where
    assert split is not None
    text = (
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid AND bid = :bid;"
    )
    return replace(
        split,
        server_ms=5.0,
        others_ratio=0.07,
        scheduled=KernelTimes(cpu_ms=0.3, waiting_ms=2.0, inside_events_ms=0.7),
        statements=(
            StatementTime("tpcb-like", 11, "END;", ms(4.0), (("IO:WalSync", 1.0),)),
            StatementTime("tpcb-like", 6, text, ms(0.99), (("Lock:tuple", 0.8), ("CPU", 0.2))),
            StatementTime("tpcb-like", 5, "BEGIN;", ms(0.01), (("CPU", 1.0),)),
        ),
    )


def test_every_run_shows_the_share_of_other_sessions() -> None:
    assert others_words(where()) == "other sessions used 7.0 % of the server's DB time"
    assert others_words(replace(where(), others_ratio=None)) == ""


def test_scheduled_times_are_shown_with_their_share_inside_wait_events() -> None:
    words = scheduled_words(where())
    assert "of CPU" in words
    assert words.endswith("; of these, 0.70 ms of waiting are part of wait events")
    assert scheduled_words(replace(where(), scheduled=None)) == ""


def test_cpu_time_after_the_answer_is_shown_if_there_is_some() -> None:
    assert "after the answer" not in scheduled_words(where())
    overlapping = replace(where(), scheduled=KernelTimes(0.3, 2.0, 0.7, after_answer_ms=0.2))
    assert "ms of CPU, 0.20 ms of it after the answer and" in scheduled_words(overlapping)


def test_statements_are_listed_with_their_waits_and_fit_the_line() -> None:
    lines = list(statement_lines(where(), 100))
    assert all(len(line) <= 100 for line in lines)
    first = next(i for i, line in enumerate(lines) if line.startswith("by statement")) + 1
    listed = lines[first:]
    assert len(listed) == 2  # BEGIN is below half a percent.
    assert "END;" in listed[0]
    assert "IO:WalSync 100 %" in listed[0]
    assert "…" in listed[1]
    assert "Lock:tuple 80 %, CPU 20 %" in listed[1]


def test_planning_time_is_shown_only_where_it_was_counted() -> None:
    for counted_ms, words in ((0.71, "0.71 ms"), (None, "not known")):
        lines = list(statement_lines(replace(where(), planning_ms=counted_ms), 100))
        assert f"by statement, 5.00 ms in the server; planning within it: {words}" in lines


def test_a_narrow_line_drops_the_second_event_before_the_statement() -> None:
    events = (("LWLock:BufferMapping", 0.6), ("CPU or not instrumented", 0.4))
    split = where()
    long = replace(split, statements=(replace(split.statements[1], events=events),))
    for width, shown in ((100, "60 %, CPU or not instrumented 40 %"), (72, "60 %")):
        *_, row = statement_lines(long, width)
        assert len(row) <= width
        assert row.endswith(shown)
        assert "UPDATE pgbench_accounts SET" in row
