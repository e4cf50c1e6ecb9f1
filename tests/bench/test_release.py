"""The result file of a release and docs/performance.md."""

from __future__ import annotations

import json

from bench import release


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
