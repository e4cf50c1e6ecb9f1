"""What happened during a run or a watch, marked on its time line: bounded, nothing left out."""

from __future__ import annotations

from pathlib import Path

from bench.generated import generate
from tests.features.watch.test_page import kept
from tests.store import records

from pgdyno.answer.marks import MARKS_MAX
from pgdyno.answer.timeline import checkpoint_count, marks_of
from pgdyno.features.watch.panels import watch_findings
from pgdyno.loop.load_numbers import load_numbers
from pgdyno.store.experiment import Store


def test_very_many_marks_of_a_run_become_few_and_none_is_left_out(tmp_path: Path) -> None:
    run = generate(Store(tmp_path), rounds=1, effect_ratio=0.0, noise_ratio=0.0).runs()[0]
    numbers = load_numbers(run, with_intervals=False)
    every = marks_of(run, numbers, ())
    marks = marks_of(run, numbers, [place / 2_000 for place in range(10_000)])
    assert len(marks) <= MARKS_MAX
    assert sum(mark.count for mark in marks) == len(every) + 10_000
    assert checkpoint_count(marks) == checkpoint_count(every)


def test_very_many_marks_of_a_watch_keep_the_first_of_them(tmp_path: Path) -> None:
    second_ns = records.SECOND_NS
    words = {"kind": "deadlock", "severity": "ERROR", "sqlstate": "40P01", "what": ""}
    rows = [
        {"time_ns": records.BEGAN_NS + place * second_ns, "interval_ns": second_ns}
        | {"number": place, "happened_ns": records.BEGAN_NS + place * second_ns}
        | {"duration_ns": None, "size_bytes": None, **words}
        for place in range(1_000)
    ]
    findings = watch_findings(kept(tmp_path, [[("log", rows)], []]))
    assert len(findings.marks) <= MARKS_MAX
    assert sum(mark.count for mark in findings.marks) == 1_000
