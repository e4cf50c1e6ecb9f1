"""The verdict of a row: which side of its reach the whole interval lies on."""

from __future__ import annotations

import pytest
from bench.contest import Contest, Question, hold
from bench.loads import Measured

from pgdyno.analysis.estimate import Estimate


def measured(program: str, cpu_ns: int) -> Measured:
    return Measured(program, 100, 10.0, cpu_ns, 1, 1)


def cost(run: Measured) -> float:
    return run.cpu_ns_per_transaction


@pytest.mark.parametrize(
    ("wants", "low", "high", "verdict"),
    [
        ("at most", 0.5, 0.7, "pass"),
        ("at most", 0.69, 0.71, "open"),
        ("at most", 0.71, 0.8, "falls short"),
        ("at least", 0.7, 0.9, "pass"),
        ("at least", 0.69, 0.71, "open"),
        ("at least", 0.5, 0.69, "falls short"),
    ],
)
def test_a_row_is_judged_by_its_whole_interval(
    wants: str, low: float, high: float, verdict: str
) -> None:
    question = Question("cpu", cost, 0.7, wants)  # type: ignore[arg-type]
    estimate = Estimate((low + high) / 2, low, high, 5, "1", "between_runs")
    assert question.verdict(estimate) == verdict


def test_the_order_of_a_pair_is_drawn_and_pairs_end_when_the_ratio_is_known() -> None:
    order: list[str] = []

    def run(program: str, cpu_ns: int) -> Measured:
        order.append(program)
        # Noise of 0.1 %, in no step with the order.
        return measured(program, cpu_ns + len(order) % 3)

    contest = Contest(
        "x",
        lambda: run("A", 2000),
        lambda: run("B", 1000),
        (Question("cpu", cost, 0.7, "at most"),),
    )
    [answer] = hold(contest, say=lambda _: None)
    pairs = ["".join(order[place : place + 2]) for place in range(0, len(order), 2)]
    assert set(pairs) == {"AB", "BA"}
    assert answer.verdict == "pass"
    assert answer.ratio.value == pytest.approx(0.5, rel=0.01)
    assert len(answer.pairs) == 4


def test_a_noisy_ratio_ends_at_the_largest_number_of_pairs() -> None:
    costs = iter([1000, 500, 3000, 100, 700, 900, 100, 9000, 1, 1000] * 8)
    contest = Contest(
        "x",
        lambda: measured("A", next(costs)),
        lambda: measured("B", next(costs)),
        (Question("cpu", cost, 0.7, "at most"),),
    )
    [answer] = hold(contest, pairs_max=12, say=lambda _: None)
    assert len(answer.pairs) == 12
    assert answer.verdict == "open"
