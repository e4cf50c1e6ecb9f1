"""What stands below the parts of the time: whose it was, and the statements."""

from __future__ import annotations

from dataclasses import replace

from tests.report.examples import bench, run

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.where import KernelTimes, WhereTheTimeGoes
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.report.block_text import block_lines
from pgdyno.report.text_page import TextPage
from pgdyno.report.time_blocks import others_words, scheduled_words, time_sections


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


def statement_lines(where: WhereTheTimeGoes, width: int) -> list[str]:
    """Return the text from the heading of the statements on."""
    findings = replace(bench(), run=replace(run(), where=where))
    lines = [*block_lines(TextPage(width), [*time_sections(findings, "")])]
    return lines[[line.startswith("by statement") for line in lines].index(True) :]


def test_statements_are_listed_with_their_waits_and_fit_the_line() -> None:
    heading, _, first, second = statement_lines(where(), 100)
    assert heading.startswith(
        "by statement, 5.00 ms in the server"
    )  # BEGIN is below half a percent.
    assert "tpcb-like:11 END;" in first
    assert first.endswith("IO:WalSync 100 %")
    assert "…" in second
    assert "Lock:tuple 80 %" in second
    assert second.endswith("CPU 20 %")
    assert len(second) <= 100


def test_two_waits_of_a_statement_fit_into_80_columns_and_its_text_comes_before_the_second() -> (
    None
):
    *_, wide = statement_lines(where(), 80)
    assert wide.endswith("CPU 20 %")
    assert len(wide) <= 80
    *_, narrow = statement_lines(where(), 60)
    assert narrow.endswith("Lock:tuple 80 %")
    assert "tpcb-like:6 UPDATE" in narrow


def test_a_small_second_wait_leaves_its_room_to_the_statement() -> None:
    split = where()
    events = (("Lock:tuple", 0.9), ("CPU", 0.1))
    small = replace(split, statements=(replace(split.statements[1], events=events),))
    assert "CPU" not in statement_lines(small, 100)[-1]


def test_planning_time_is_shown_only_where_it_was_counted() -> None:
    for counted_ms, words in ((0.71, "0.71 ms"), (None, "not known")):
        heading = statement_lines(replace(where(), planning_ms=counted_ms), 100)[0]
        assert heading == f"by statement, 5.00 ms in the server; planning within it: {words}"


def test_on_a_narrow_screen_a_statement_has_a_line_of_its_own() -> None:
    events = (("LWLock:BufferMapping of a long name of an event", 0.6), ("CPU", 0.4))
    split = where()
    long = replace(split, statements=(replace(split.statements[1], events=events),))
    *_, row, text = statement_lines(long, 72)
    assert row.endswith("60 %")
    assert text.strip().startswith("tpcb-like:6 UPDATE pgbench_accounts SET")
    assert max(len(row), len(text)) <= 72
