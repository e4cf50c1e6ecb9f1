"""Which statements got slower or faster: pairs of their means, intervals that hold together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.analysis.compare_findings import ContrastFindings, PlanChange
from pgdyno.answer.statement_changes import explaining_plans, statement_changes
from pgdyno.engine.records import ScriptShape, StatementShape
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.report.compare_tables import statement_note, statement_rows

SHAPE = ScriptShape(
    name="look",
    program="mirror",
    weight=1,
    reads_only=True,
    statements=tuple(StatementShape(line=line, text=f"SELECT {line}") for line in (1, 2, 3, 4)),
)


def visit(number: int, means_us: Sequence[float], calls: Sequence[int]) -> tuple[Any, Any]:
    """Return a run whose statements took these times, and its numbers."""
    rows = [
        {
            "measured": "statement",
            "script": 0,
            "statement": place,
            "count": count,
            "sum_ns": int(1000 * mean) * count,
            "min_ns": int(1000 * mean),
            "max_ns": int(1000 * mean),
            "buckets": [(100, count)],
        }
        for place, (mean, count) in enumerate(zip(means_us, calls, strict=True))
    ]
    planned = SimpleNamespace(number=number, round=number // 2)
    run = SimpleNamespace(planned=planned, stored=SimpleNamespace(statements=rows))
    return run, cast(LoadNumbers, SimpleNamespace(scripts=(SHAPE,)))


PLAN = PlanChange("look", 1, "SELECT 1", "Index Scan", "Seq Scan", "15 and 18")


def both_runs(
    ratios: Sequence[float], *, rounds: int = 8, calls: Sequence[int] = (100,) * 4
) -> tuple[list[Any], list[Any], dict[int, LoadNumbers]]:
    """Return runs of a reference, of a variant that takes `ratios` times as long, and numbers."""
    noise = random.Random(5)
    runs = []
    for number in range(2 * rounds):
        factors = ratios if number % 2 else (1.0,) * len(ratios)
        means = [100 * factor * noise.gauss(1, 0.01) for factor in factors]
        runs.append(visit(number, means, calls))
    numbers = {run.planned.number: known for run, known in runs}
    return [run for run, _ in runs[::2]], [run for run, _ in runs[1::2]], numbers


def changes(ratios: Sequence[float], **shape: Any) -> Any:
    """Compare such runs."""
    given = both_runs(ratios, **shape)
    return statement_changes(*given, [PLAN], looks="sequential", level_ratio=0.95)


def test_slower_and_faster_statements_are_told_from_equal_ones() -> None:
    compared = changes((1.5, 1.0, 0.7, 1.0))
    assert [(change.line, change.comparison.verdict) for change in compared if change.is_sure] == [
        (1, "higher"),
        (3, "lower"),
    ]
    assert compared[0].comparison.ratio.value == pytest.approx(1.5, rel=0.02)
    assert (compared[0].plan_was, compared[0].plan_became) == ("Index Scan", "Seq Scan")
    assert compared[0].comparison.level_ratio == 1 - 0.05 / 4
    assert (compared[0].calls, compared[0].mean_ms) == (1600, pytest.approx(0.1, rel=0.02))


def test_a_statement_of_few_calls_is_not_compared() -> None:
    compared = changes((1.0,) * 4, calls=(100, 19, 100, 100))
    assert sorted(change.line for change in compared) == [1, 3, 4]
    assert compared[0].comparison.level_ratio == pytest.approx(1 - 0.05 / 3)


def test_without_a_common_round_nothing_is_compared() -> None:
    assert changes((1.0,) * 4, rounds=0) == ()


@pytest.mark.parametrize(
    ("ratios", "explains"),
    [
        ((1.5, 1.0, 1.0, 1.0), True),
        ((0.5, 1.0, 1.0, 1.0), True),
        ((1.0, 1.0, 1.5, 1.0), False),
        ((1.2, 1.0, 1.5, 1.0), False),
        ((0.5, 1.0, 2.0, 1.0), False),
    ],
)
def test_a_changed_plan_is_a_reason_if_its_statement_has_most_of_the_difference(
    ratios: Sequence[float], explains: bool
) -> None:
    assert explaining_plans(*both_runs(ratios), [PLAN]) == ((PLAN,) if explains else ())


def test_without_times_of_statements_a_changed_plan_may_be_a_reason() -> None:
    assert explaining_plans(*both_runs((1.0,) * 4, calls=(1,) * 4), [PLAN]) == (PLAN,)


def test_the_table_has_what_is_certain_and_every_changed_plan() -> None:
    contrast = cast(ContrastFindings, SimpleNamespace(statements=changes((1.5, 1.0, 0.7, 1.0))))
    slower, faster = statement_rows(contrast)
    assert slower[0] == "look:1 SELECT 1"
    assert slower[2].startswith("slower: +49.8 % (")
    assert slower[4] == "Index Scan -> Seq Scan"
    assert (faster[2].split(":")[0], faster[4]) == ("faster", "the same")
    assert statement_note(contrast) == (
        "4 statements compared: 1 slower, 1 faster; all intervals hold together"
    )
