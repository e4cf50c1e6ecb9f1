"""What changed between two runs, the largest change first."""

from __future__ import annotations

from dataclasses import replace

from tests.report import examples

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.report.changes import changes_between


def test_the_statement_and_the_part_that_changed_most_are_first() -> None:
    first = examples.bench()
    assert first.run is not None
    assert first.run.where is not None
    where, more = first.run.where, examples.where(1.5)

    def statements(update_ms: float) -> tuple[StatementTime, ...]:
        made = (("SELECT 1", 0.2), ("UPDATE t  SET a = 1", update_ms))
        return tuple(
            StatementTime("s", line, text, replace(where.latency_ms, value=ms), ())
            for line, (text, ms) in enumerate(made, 1)
        )

    def with_where(changed: WhereTheTimeGoes, update_ms: float) -> ExperimentFindings:
        assert first.run is not None
        return replace(
            first,
            run=replace(first.run, where=replace(changed, statements=statements(update_ms))),
        )

    changes = changes_between(with_where(where, 1.0), with_where(more, 3.0))
    assert [change.name for change in changes if change.kind == "statement"] == [
        "s:2 UPDATE t SET a = 1"
    ]
    times = [change for change in changes if change.kind == "time"]
    assert times[0].name == "commit: WAL flush to disk"
    assert times[0].words.endswith("ms (+2.30 to +2.91): 5.21 | 7.81 ms  commit: WAL flush to disk")
    assert len(times) <= 5


def test_a_result_without_parts_of_the_time_has_no_changes() -> None:
    bench = examples.bench()
    assert changes_between(replace(bench, run=None), bench) == []
