"""Decisions in the store, and the runs that came of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.store.contents import written

from pgdyno.loop.journal import (
    failed_since,
    record_decision,
    record_failed,
    record_finished,
    shown_visits,
    visits,
)
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant, Purpose, Stop
from pgdyno.spec.variant import Variant
from pgdyno.store.experiment import Store

VARIANT = PlannedVariant("b", Variant(name="B", settings={"work_mem": "8MB"}))


def planned(
    number: int,
    clients: int,
    purpose: Purpose = "round",
    variant: PlannedVariant | None = VARIANT,
) -> PlannedRun:
    return PlannedRun(
        number=number,
        purpose=purpose,
        round=1,
        cell=Cell((0,), clients, variant=variant),
        warm_ns=0,
        measure_ns=10**9,
        seed=1,
    )


def test_a_decision_made_again_after_a_kill_does_not_count_its_run_twice(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("compare", "compare")
    number = written(folder).finish().number
    record_decision(folder, planned(number, clients=1))  # The lab was killed before this run began.
    record_decision(folder, planned(number, clients=2))
    record_finished(folder, number, took_ns=5, spent_ns={"load": 4})
    (visit,) = visits(folder)
    assert (visit.took_ns, visit.spent_ns) == (5, {"load": 4})
    assert visit.planned.cell.variant is not None
    assert visit.planned.cell.variant.spec.settings == {"work_mem": "8MB"}
    assert [decision["decision"] for decision in folder.decisions()] == [
        "variant",
        "run",
        "run",
        "done",
    ]
    assert (visit.planned.number, visit.planned.cell.clients) == (number, 2)


def test_a_load_with_turns_is_read_as_it_was_planned(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("tune", "tune")
    number = written(folder).finish().number
    other = PlannedVariant("c", Variant(name="C", settings={"jit": "off"}))
    load = replace(planned(number, 1, "turns"), turns=(other, VARIANT, other), turn_ns=2 * 10**9)
    record_decision(folder, load)
    record_finished(folder, number, took_ns=5)
    (visit,) = visits(folder)
    assert (visit.planned.turns, visit.planned.turn_ns) == (load.turns, load.turn_ns)
    assert visit.planned.turns[0].spec.settings == {"jit": "off"}


def test_the_time_of_failed_runs_counts_for_the_next_complete_run(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("compare", "compare")
    first = written(folder).finish().number
    record_decision(folder, planned(first, clients=1))
    record_finished(folder, first, took_ns=5)
    for number, took_ns in ((first + 1, 30), (first + 2, 12)):
        record_decision(folder, planned(number, clients=1))
        record_failed(folder, number, took_ns)
    assert failed_since(folder) == 42
    last = written(folder, number=first + 3).finish().number
    record_decision(folder, planned(last, clients=1))
    record_finished(folder, last, took_ns=7)
    assert [visit.failed_ns for visit in visits(folder)] == [0, 42]
    assert failed_since(folder) == 0


def test_a_shortened_run_is_repeated_and_shown_only_until_another_exists(
    tmp_path: Path,
) -> None:
    folder = Store(tmp_path).create("bench", "bench")
    cut = written(folder).finish().number
    record_decision(folder, planned(cut, clients=1, purpose="detail", variant=None))
    assert visits(folder) == []
    assert [visit.planned.number for visit in shown_visits(folder)] == [cut]
    again = written(folder, number=cut + 1).finish().number
    record_decision(folder, planned(again, clients=1, purpose="detail", variant=None))
    record_finished(folder, again, took_ns=5)
    assert [visit.planned.number for visit in visits(folder)] == [again]
    assert [visit.planned.number for visit in shown_visits(folder)] == [again]


def test_a_shortened_run_is_not_a_level_of_a_curve(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("sweep", "sweep")
    record_decision(folder, planned(written(folder).finish().number, clients=1, variant=None))
    assert visits(folder) == shown_visits(folder) == []


def test_in_an_older_result_whose_plan_ended_every_run_counts(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("sweep", "sweep")
    record_decision(folder, planned(written(folder).finish().number, clients=1, variant=None))
    record_decision(folder, Stop("every level was measured"))
    assert len(visits(folder)) == 1
