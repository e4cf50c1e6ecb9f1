"""Factorials and passes: every cell once a round."""

from __future__ import annotations

from tests.plan.simulated_server import carry_out, experiment, noisy

from pgdyno.designs import design_of
from pgdyno.spec.designs import Factor, FactorialDesign, PassesDesign
from pgdyno.spec.experiment import Variant


def factors(count: int) -> tuple[Factor, ...]:
    return tuple(
        Factor(name=f"f{i}", levels=(Variant(name=f"f{i}-"), Variant(name=f"f{i}+")))
        for i in range(count)
    )


def test_every_cell_of_a_factorial_is_visited_once_a_round() -> None:
    asked = experiment(FactorialDesign(factors=factors(2), rounds=3), ())
    done = carry_out(asked, noisy(1, truth=(1000, 1100, 1200, 1300)))
    for number in (1, 2, 3):
        visited = zip(done.variants, done.history, strict=True)
        in_round = [variant for variant, m in visited if m.run.round == number]
        assert sorted(in_round, key=str) == [0, 1, 2, 3]
    assert len(done.history) == design_of(asked)(asked).runs_expected(()) == 12


def test_rounds_are_not_in_the_same_order() -> None:
    asked = experiment(FactorialDesign(factors=factors(3), rounds=4), ())
    done = carry_out(asked, noisy(1, truth=range(1000, 1008)))
    assert len({tuple(done.variants[8 * i : 8 * i + 8]) for i in range(4)}) > 1


def test_passes_are_measured_in_rounds_and_not_one_after_the_other() -> None:
    asked = experiment(PassesDesign(rounds=2), ("base", "1", "2"), warmup=None)
    done = carry_out(asked, noisy(1, truth=(1000, 1030, 1050)))
    assert [m.run.purpose for m in done.history] == ["pilot"] * 3 + ["round"] * 6
    assert done.stop.reason == "every cell was measured 2 times"
    asked = experiment(PassesDesign(rounds=1), ("base", "1"), warmup=None)
    done = carry_out(asked, noisy(1, truth=(1000, 1030)))
    assert done.stop.reason == "every cell was measured 1 time"


def test_a_cell_that_cannot_start_is_left_out() -> None:
    asked = experiment(PassesDesign(rounds=2), ("base", "1", "2"))
    done = carry_out(asked, noisy(1, truth=(1, 1, 1)), excluded=frozenset({"1"}))
    assert sorted(done.variants, key=str) == [0, 0, 2, 2]
