"""The result file of a release and docs/performance.md."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bench.contest import Answer

from bench import release
from pgdyno.analysis.estimate import Estimate
from pgdyno.errors import SpecError


def test_the_performance_page_is_written_from_the_result_file_of_the_release() -> None:
    [result] = release.RESULTS.glob("*.json")
    document = json.loads(result.read_text(encoding="utf-8"))
    assert release.page(document) == release.PAGE.read_text(encoding="utf-8")


def test_every_row_has_its_date_commit_and_postgresql_version() -> None:
    [result] = release.RESULTS.glob("*.json")
    for row in json.loads(result.read_text(encoding="utf-8"))["rows"]:
        assert row["date"], row["row"]
        assert row["commit"], row["row"]
        assert row["postgresql"], row["row"]


def test_a_row_that_was_not_measured_is_on_the_page_with_the_reason() -> None:
    document = {
        "machine": {
            "cores": "2",
            "processor": "AMD EPYC",
            "memory": "23.5 GiB",
            "kernel": "Linux 6.18",
            "engine": "0.1.0, release build, poller io_uring",
        },
        "rows": [],
        "not_measured": {"taken": "perf is not installed"},
    }
    assert "| taken | not measured: perf is not installed |" in release.page(document)


STARTED = datetime(2026, 11, 23, tzinfo=UTC)
FACTS = {"commit": "0123456789", "PostgreSQL": "15.20 (/usr/bin)"}


def answer(row: str) -> Answer:
    return Answer(row, Estimate(0.5, 0.4, 0.6, 4, "1", "between_runs"), "at most 1", "pass", ())


def interrupted(tmp_path: Path) -> Path:
    """Return the file of a bench that was interrupted in its second row."""
    part = release.Part(STARTED, FACTS)
    part.add("first", [answer("first, 8 clients"), answer("first, 64 clients")])
    part.finished.append("first")
    part.add("second", [answer("second, 8 clients")])
    path = tmp_path / "part.json"
    path.write_text(json.dumps(part.document()), encoding="utf-8")
    return path


def test_an_interrupted_bench_continues_after_its_finished_rows(tmp_path: Path) -> None:
    part = release.part_of(interrupted(tmp_path), STARTED, FACTS)
    assert part.finished == ["first"]
    assert [row["row"] for row in part.rows] == ["first, 8 clients", "first, 64 clients"]
    part.add("second", [answer("second, 8 clients")])
    assert {row["commit"] for row in part.document()["rows"]} == {"01234567"}


def test_rows_of_another_commit_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="was measured with commit 0123456789, and here it is 99"):
        release.part_of(interrupted(tmp_path), STARTED, {**FACTS, "commit": "99"})
