"""Decisions in the store, and the runs that came of them."""

from __future__ import annotations

from pathlib import Path

from tests.store.contents import written

from pgdyno.loop.journal import decided, finished, visits
from pgdyno.spec.planned import Cell, PlannedRun
from pgdyno.store.experiment import Store


def planned(number: int, clients: int) -> PlannedRun:
    return PlannedRun(
        number=number,
        purpose="round",
        round=1,
        cell=Cell((0,), clients, variant=0),
        warm_ns=0,
        measure_ns=10**9,
        seed=1,
    )


def test_a_decision_made_again_after_a_kill_does_not_count_its_run_twice(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("compare", "compare")
    number = written(folder).finish().number
    decided(folder, planned(number, clients=1))  # The lab was killed before this run began.
    decided(folder, planned(number, clients=2))
    finished(folder, number, took_ns=5)
    (visit,) = visits(folder)
    assert (visit.planned.number, visit.planned.cell.clients) == (number, 2)
