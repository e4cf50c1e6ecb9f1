"""Every kind of stored result opens from Python, with its runs and their tables."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from markupsafe import escape
from tests.outputs.rendered import BUILT, stored_results

import pgdyno
from pgdyno.designs import blocks_of
from pgdyno.errors import SpecError, StoreError
from pgdyno.redaction import printable
from pgdyno.report.notebook import answer_fragment

# Crashes are no runs of a load.
_WITHOUT_RUNS = ("stored-crash-power",)


def test_the_last_result_of_any_kind_opens_with_runs_counts_and_telemetry(tmp_path: Path) -> None:
    kinds = set()
    for name, folder in stored_results(tmp_path):
        result = pgdyno.open("last", store=folder.folder.parent)
        kinds.add(result.kind)
        assert result.runs.fetchall() or name in _WITHOUT_RUNS, name
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
        else:
            with pytest.raises(StoreError, match="has a table 'intervals'"):
                _ = result.intervals
        shown = result._repr_html_()
        assert escape(result.sentence) in shown, name
        assert f"#{result.number}, " in shown, name
        assert "<script" not in shown, name
        assert not result.doubts or ">doubt<" in shown or ">NOT VALID<" in shown, name
    assert {"bench", "compare", "sweep", "watch", "crash", "tune"} <= kinds


def test_a_result_of_each_program_and_design_shows_itself() -> None:
    for name, make in BUILT.items():
        findings = make()
        shown = answer_fragment(blocks_of(findings))
        assert escape(printable(findings.sentence)) in shown, name
        assert "<td>" in shown, name


def test_waits_of_a_result_are_an_arrow_stream_with_the_run_in_front(tmp_path: Path) -> None:
    have_waits = set()
    for name, folder in stored_results(tmp_path):
        result = pgdyno.open("last", store=folder.folder.parent)
        if result.kind == "crash":
            with pytest.raises(StoreError, match="has a table 'waits'") as refused:
                result.telemetry("waits")
            assert refused.value.hint == "there are: none"
        with suppress(StoreError):
            waits = result.telemetry("waits")
            assert hasattr(waits, "__arrow_c_stream__"), name
            assert waits.columns[0] == "run", name
            have_waits.add(result.kind)
    assert {"bench", "sweep", "compare", "tune", "watch"} <= have_waits


def test_an_interrupted_result_says_in_a_notebook_why_it_has_no_answer(tmp_path: Path) -> None:
    name, folder = next(stored_results(tmp_path))
    shutil.rmtree(folder.folder / "runs")
    shown = pgdyno.open("last", store=folder.folder.parent)._repr_html_()
    assert f"#{folder.number}" in shown, name
    assert "has no" in shown or "no run" in shown.lower()


def test_a_watch_says_what_it_does_not_have(tmp_path: Path) -> None:
    [watch] = [f for name, f in stored_results(tmp_path) if name == "stored-format-1-watch"]
    result = pgdyno.open(watch.number, store=watch.folder.parent)
    assert result.doubts == ()
    with pytest.raises(SpecError, match="is a watch"):
        _ = result.findings
