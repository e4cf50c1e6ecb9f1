"""The page of a watch, and the panels it is drawn from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.features.doctor.machines import setting
from tests.features.watch.examples import DOCUMENT, findings, text_of, watch_page
from tests.features.watch.samples import SECOND_NS, database, wait

from pgdyno.features.watch.blocks import watch_blocks
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.panels import watch_findings
from pgdyno.report.block_text import answer_text
from pgdyno.report.markdown import answer_markdown
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder


def test_the_text_reads_as_one_looks_for_it() -> None:
    lines = text_of(DOCUMENT).splitlines()
    assert lines[1:5] == [
        "answer      1,902 tps, 22.7 active sessions on average, at most 61; 1 gap",
        "done        3,591 of 3,600 s observed; pgdyno uses 0.4 % of a core here, 0.6 % of a server"
        " core; 38",
        "            MB, 38 MB per hour",
        "gaps        1: 9 s",
    ]
    assert lines[5:7] == [
        "sessions    22.7 (22.6 to 22.9), counted by the server (samples alone: 21.3); at most 61"
        " in 35,910",
        "            samples",
    ]
    # 57 % of 4.9 ms.
    row = "41.0 % (38.0 to 44.0)   4.9 (4.5 to 5.3)   Lock:transactionid (57 %)"
    statement = lines[lines.index(row) + 1]
    assert statement == "    UPDATE account SET balance = balance + $1 WHERE <b>id</b> = $2"
    assert lines[-1] == "saved       #12   pgdyno report 12"
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("width", [120, 100, 80, 72])
def test_the_text_fits_the_terminal(width: int) -> None:
    long = [{**DOCUMENT["statements"][0], "text": "SELECT a,\n " + "b, " * 90}]
    lines = text_of({**DOCUMENT, "statements": long}, width).splitlines()
    assert [line for line in lines if len(line) > width] == []
    assert any(line.endswith("Lock:transactionid (57 %)") for line in lines)
    [shown] = [line for line in lines if "SELECT a, b, b" in line]
    assert "…" in shown


def test_the_full_text_and_markdown_have_the_same_as_the_page() -> None:
    answer = watch_blocks(findings())
    for text in (answer_text(answer, 100, "full"), answer_markdown(answer)):
        assert "ALTER SYSTEM SET shared_buffers = '7GB'" in text
        assert "work_mem" in text


def test_a_tile_has_no_exponent() -> None:
    page = watch_page(findings(document={**DOCUMENT, "wal_bytes_per_second": 6.01}))
    assert "under 0.1" in page
    assert "e-06" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_watch_without_samples_says_that_it_saw_nothing() -> None:
    empty = {
        **DOCUMENT,
        "tps": None,
        "hit_ratio": None,
        "wal_bytes_per_second": None,
        "cost": None,
        "waits": [],
        "statements": [],
        "sessions_at_work": {"mean": None, "peak": None, "samples": 0},
        "is_complete": False,
    }
    assert "counted" not in text_of(empty)
    page = watch_page(findings(document=empty, panels=(), marks=(), examined=()))
    assert page.count("not measured") == 4
    assert "ended early" in page


def test_statements_that_are_not_told_apart_leave_the_wait_events() -> None:
    nameless = [{**DOCUMENT["statements"][0], "text": ""}]
    assert "57 %    12.9 (12.7 to 13.2)   Lock:transactionid" in text_of(
        {**DOCUMENT, "statements": nameless}
    )
    assert "query id -1" in watch_page(findings(document={**DOCUMENT, "statements": nameless}))


def test_the_page_holds_everything_and_escapes_statements() -> None:
    page = watch_page(findings())
    assert "<title>1,902 tps, 22.7 active sessions" in page
    changed = [{"name": "work_mem", "before": "4 MB", "after": "8 MB"}]
    page = watch_page(findings(document={**DOCUMENT, "settings_changed": changed}))
    for said in (
        "CHG0048211",
        "work_mem: 4 MB -&gt; 8 MB",
        "work_mem",
        "shared buffers: 128 MB",
        "9.0 s",
        "6,847,200",
    ):
        assert said in page, said
    assert "&lt;b&gt;id&lt;/b&gt;" in page
    assert "<b>id</b>" not in page
    assert not re.search(r"""(?:src|href)=["']https?:""", page)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("4096 8kB", "32 MB"),
        ("-1 kB", "-1 kB"),
        ("200 ms", "200 ms"),
        ("on", "on"),
    ],
)
def test_a_setting_is_shown_with_its_unit(text: str, shown: str) -> None:
    assert setting(text).shown == shown


def kept(
    tmp_path: Path, segments: list[list[tuple[str, list[dict[str, Any]]]]]
) -> ExperimentFolder:
    """Return a watch whose segments hold these samples; the last was never closed."""
    folder = Store(tmp_path).create("w", "watch")
    for number, samples in enumerate(segments, 1):
        with folder.begin_run(number, f"segment {number}", {"interval_ns": SECOND_NS}) as writer:
            for collector, rows in samples:
                writer.add_samples(collector, rows)
            if number < len(segments):
                writer.add_record({"record": "summary"})
                writer.finish()
    return folder


def sample_of_waits(second: float, *groups: tuple[str, int]) -> tuple[str, list[dict[str, Any]]]:
    stamp = {"time_ns": int(second * SECOND_NS), "interval_ns": SECOND_NS // 10}
    return "waits", [wait(event, 1, count, **stamp) for event, count in groups]


def test_panels_are_drawn_over_all_segments_and_break_at_gaps(tmp_path: Path) -> None:
    first = [("database", database(s, 100 * s, interval=1 if s > 1 else 0)) for s in range(1, 6)]
    second = [
        ("database", database(s, 100 * s, interval=1 if s > 20 else 0)) for s in range(20, 25)
    ]
    first += [sample_of_waits(2.2, ("IO:WALSync", 3)), sample_of_waits(2.8, ("", 1))]
    # One that answered while it was looked at was at work as well.
    first += [sample_of_waits(3.5, ("Client:ClientRead", 2))]
    answer = watch_findings(kept(tmp_path, [first, second]))
    panels = {panel.key: panel for panel in answer.panels}
    assert {"tps", "waits", "connections"} <= panels.keys()
    committed = panels["tps"].series[0]
    assert committed.values == (*[98.0] * 4, None, *[98.0] * 4)  # Two of each hundred are ours.
    assert panels["tps"].time_s == (0.5, 1.5, 2.5, 3.5, 11.5, 19.5, 20.5, 21.5, 22.5)
    waits = {series.name: series.values for series in panels["waits"].series}
    # Two samples in the second second: three sessions in one, one in the other.
    assert waits["IO:WALSync"][1] == 1.5
    assert waits["CPU or not instrumented"][1] == 0.5
    assert waits["IO:WALSync"][0] is None
    assert waits["CPU or not instrumented"][2] == 2.0
    assert "Client:ClientRead" not in waits
    assert [mark.kind for mark in answer.marks] == ["gap"]
    assert answer.marks[0].time_s == 19.0
    assert answer.document["is_complete"] is False


def test_a_line_breaks_at_a_gap_within_a_segment(tmp_path: Path) -> None:
    rows = [
        ("database", database(s, 100 * s, interval=0 if s in (1, 9) else 1))
        for s in (1, 2, 3, 9, 10)
    ]
    answer = watch_findings(kept(tmp_path, [rows, []]))
    tps = next(panel for panel in answer.panels if panel.key == "tps")
    assert tps.series[0].values == (98.0, 98.0, None, 98.0)


def test_growth_is_computed_over_all_segments(tmp_path: Path) -> None:
    def sample(collector: str, second: int, **row: Any) -> tuple[str, list[dict[str, Any]]]:
        stamp = {"time_ns": second * SECOND_NS, "interval_ns": SECOND_NS}
        return collector, [stamp | row]

    def size(second: int, size_bytes: int) -> tuple[str, list[dict[str, Any]]]:
        return sample(
            "sizes", second, kind="database", name="bank", size_bytes=size_bytes, files=None
        )

    def worth(second: int, name: str) -> tuple[str, list[dict[str, Any]]]:
        return sample(
            "objects", second, kind="hash index", object=name, note="", size_bytes=2_000_000
        )

    first = [("database", database(s, s)) for s in (1, 2)]
    segments = [
        [*first, size(1, 10_000_000), worth(1, "gone")],
        [size(9, 13_500_000), worth(9, "there")],
    ]
    answer = watch_findings(kept(tmp_path, segments))
    tables = {table.key: table.rows for table in answer.tables}
    assert tables["sizes"] == (("database bank", "10.0", "13.5", "3.50"),)
    assert tables["objects"] == (("hash index: there", "", "2.00"),)
    assert "hash index: there" in watch_page(findings(tables=answer.tables))


def test_the_page_begins_with_what_is_wrong_and_shows_names_as_text() -> None:
    finding = IncidentFinding(
        kind="lock queue",
        said="pid 7 <script>alert(1)</script> is idle in transaction",
        cost="71 session-seconds lost",
        lines=("└ 5 sessions of shop wait",),
        next_step="SELECT pg_terminate_backend(7)",
    ).as_document()
    page = watch_page(findings(document={**DOCUMENT, "findings": [finding]}))
    assert page.index('id="findings"') < page.index('<div class="tiles">')
    assert "pid 7 &lt;script&gt;" in page
    assert "<script>alert(1)" not in page
    assert "pg_terminate_backend(7)" in page
    assert 'id="findings"' not in watch_page(findings())
