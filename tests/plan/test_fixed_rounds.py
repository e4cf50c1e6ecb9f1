"""Factorials and passes: every cell once a round."""

from __future__ import annotations

from tests.plan.simulated_server import Carried, carry_out, experiment, noisy

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


def test_a_budget_is_kept_by_fewer_rounds_and_then_by_shorter_runs() -> None:
    def done(budget: str, duration: str = "5s") -> Carried:
        design = FactorialDesign(factors=factors(2), rounds=5, budget=budget)
        asked = experiment(design, (), duration=duration)
        assert design_of(asked)(asked).budget_ns is not None
        return carry_out(asked, noisy(1, truth=(1000, 1100, 1200, 1300)))

    whole, part, short = done("10min"), done("130s"), done("130s", "20s")
    assert (len(whole.history), len(part.history), len(short.history)) == (20, 16, 12)
    assert whole.stop.reason == "every cell was measured 5 times"
    assert part.stop.reason.endswith("4 times, as often as the budget of 130 s allows")
    lengths = {m.run.measure_ns for m in short.history}
    assert len(lengths) == 1
    assert 5e9 <= lengths.pop() < 20e9


def test_a_budget_ends_rounds_that_take_longer_than_the_pilots_told() -> None:
    design = FactorialDesign(factors=factors(2), rounds=9, budget="101s")
    asked = experiment(design, (), duration="5s", warmup="0s")
    done = carry_out(asked, noisy(1, truth=(1000, 1100, 1200, 1300)))
    assert len(done.history) == 12, "each run took 8 s where 6 s were expected"
