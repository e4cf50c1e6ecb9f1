"""What the records of a load say while it lasts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pgdyno.engine.records import Connecting, Phase, Warning_
from pgdyno.engine.records import Progress as LoadProgress
from pgdyno.measure.run_progress import LoadWatch, Moment, RunProgress, RunWatch
from pgdyno.spec.planned import Cell, PlannedRun

SECOND_NS = 10**9


@dataclass
class Heard(RunProgress):
    """Keeps every call."""

    moments: list[Moment] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def said(self, text: str) -> None:
        self.words.append(text)

    def moved(self, moment: Moment) -> None:
        self.moments.append(moment)


def _rows(second: int, done: int) -> LoadProgress:
    return LoadProgress(
        time_ns=second * SECOND_NS,
        table="pgbench_accounts",
        rows_done=done,
        rows_total=1_000_000,
    )


def test_rate_and_time_left_count_from_where_an_interrupted_load_goes_on() -> None:
    heard = Heard()
    watch = LoadWatch("scale 10", heard, row_bytes=8192 / 61)
    watch.see(_rows(10, 600_000))  # Before its load begins: what was there already.
    watch.see(Phase(time_ns=10 * SECOND_NS, phase="load", event="begin"))
    for second in (11, 12):
        watch.see(_rows(second, 600_000 + (second - 10) * 100_000))
    last = heard.moments[-1]
    assert last.phase == "loading 80 %"
    assert last.rows_per_second == 100_000
    # 61 rows a page of 8 kB.
    assert last.mb_per_second == pytest.approx(100_000 * 8192 / 61 / 1e6)
    assert last.eta_ns == 2 * SECOND_NS


def test_no_rate_of_rows_is_shown_while_keys_are_built() -> None:
    heard = Heard()
    watch = LoadWatch("scale 10", heard, row_bytes=8192 / 61)
    watch.see(Phase(time_ns=0, phase="load", event="begin"))
    watch.see(_rows(1, 500_000))
    watch.see(Phase(time_ns=SECOND_NS, phase="index", event="begin"))
    watch.see(_rows(2, 1_000_000))
    assert heard.moments[-1] == Moment("scale 10", "building keys")


def test_the_rate_is_that_of_the_last_seconds() -> None:
    heard = Heard()
    watch = LoadWatch("scale 10", heard, row_bytes=8192 / 61)
    watch.see(Phase(time_ns=0, phase="load", event="begin"))
    for second in range(1, 21):
        watch.see(_rows(second, second * 10_000))
    for second in range(21, 32):
        watch.see(_rows(second, 200_000 + (second - 20) * 1_000))
    assert heard.moments[-1].rows_per_second == pytest.approx(1_000, rel=0.01)


def test_warnings_of_the_loader_show_the_next_step() -> None:
    heard = Heard()
    watch = LoadWatch("scale 10", heard, row_bytes=8192 / 61)
    watch.see(Warning_(time_ns=1, kind="fewer_sessions", message="1 of 2", hint="raise it"))
    assert heard.words == ["1 of 2; raise it"]
    assert not watch.is_unfinished
    watch.see(Warning_(time_ns=2, kind="dataset_unfinished", message="kept", hint=""))
    assert watch.is_unfinished


def test_connecting_counts_its_rate_from_the_last_ten_seconds() -> None:
    heard = Heard()
    planned = PlannedRun(1, "round", 1, Cell((0,), 8000), warm_ns=0, measure_ns=SECOND_NS, seed=1)
    watch = RunWatch(planned, "many", heard, position="", shapes=())
    watch.see(Phase(time_ns=0, phase="connect", event="begin"))
    watch.see(Connecting(time_ns=SECOND_NS, made_count=400, wanted_count=8000))
    assert heard.moments[-1].made_per_second == 400
    for second in range(2, 22):
        made = 400 + (second - 1) * 100
        watch.see(Connecting(time_ns=second * SECOND_NS, made_count=made, wanted_count=8000))
    last = heard.moments[-1]
    assert (last.made_count, last.wanted_count, last.made_per_second) == (2400, 8000, 100)
    assert last.eta_ns == 56 * SECOND_NS
    # Once all are made, the phases that follow say what they say.
    watch.see(Phase(time_ns=80 * SECOND_NS, phase="measure", event="begin"))
    assert heard.moments[-1] is last
