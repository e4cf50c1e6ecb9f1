"""Every kind of stored result opens from Python, with its runs and their tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.outputs.rendered import stored_results

import pgdyno
from pgdyno.errors import SpecError


def test_the_last_result_of_any_kind_opens_with_runs_counts_and_telemetry(tmp_path: Path) -> None:
    kinds = set()
    for name, folder in stored_results(tmp_path):
        result = pgdyno.open("last", store=folder.folder.parent)
        kinds.add(result.kind)
        assert result.runs.fetchall(), name
        assert result.document()["format"].startswith("pgdyno."), name
        assert "</html>" in result.page(), name
        assert result.sentence, name
        numbers = {run.number for run in folder.runs()}
        for table in {table for run in folder.runs() for table in run.collectors()}:
            rows = result.telemetry(table).select("run").distinct().fetchall()
            assert {number for (number,) in rows} <= numbers, (name, table)
        with pytest.raises(SpecError, match="no table 'nothing'"):
            result.telemetry("nothing")
        if folder.is_experiment:
            assert result.intervals.limit(1).fetchall(), name
    assert {"bench", "sweep", "watch"} <= kinds


def test_a_watch_says_what_it_does_not_have(tmp_path: Path) -> None:
    [watch] = [f for name, f in stored_results(tmp_path) if name == "stored-format-1-watch"]
    result = pgdyno.open(watch.number, store=watch.folder.parent)
    assert result.doubts == ()
    with pytest.raises(SpecError, match="is a watch"):
        _ = result.findings
