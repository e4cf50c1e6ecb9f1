"""Comparisons planned against servers whose truth is known."""

from __future__ import annotations

import statistics

from tests.plan.simulated_server import RUN_NS, carry_out, comparison, experiment, noisy

from pgdyno.plan.designs.compare import Compare
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.planned import PlannedRun


def test_pairs_turn_round_so_that_drift_falls_on_both_alike() -> None:
    done = carry_out(comparison(), noisy(1, truth=(1000, 1001), deviation=0.02))
    assert done.variants[:16] == [0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1]


def test_every_variant_has_a_pilot_and_all_runs_the_longest_warm_up() -> None:
    asked = experiment(CompareDesign(), ("A", "B", "C"), warmup=None)
    done = carry_out(asked, noisy(1, truth=(1000, 2000, 3000)))
    assert [m.run.purpose for m in done.history[:4]] == ["pilot", "pilot", "pilot", "round"]
    assert done.variants[:3] == [0, 1, 2]
    assert {m.run.warm_ns for m in done.history[3:]} == {3_000_000_000}


def test_a_large_difference_is_decided_after_five_pairs() -> None:
    done = carry_out(comparison(), noisy(2, truth=(1000, 2000)))
    assert (len(done.history), done.stop.reason) == (10, "decided after 5 rounds")
    [standing] = Compare(comparison()).standings(done.history)
    assert standing.comparison is not None
    assert standing.comparison.verdict == "faster"
    assert standing.left_ns == 0


def test_equal_variants_end_as_no_difference() -> None:
    done = carry_out(comparison(margin="5%"), noisy(3, truth=(1000, 1000), deviation=0.02))
    [standing] = Compare(comparison(margin="5%")).standings(done.history)
    assert standing.comparison is not None
    assert standing.comparison.verdict == "no difference"


def test_a_precision_is_measured_until_the_interval_is_that_narrow() -> None:
    asked = comparison(precision="1%")
    done = carry_out(asked, noisy(4, truth=(1000, 2000), deviation=0.02))
    [standing] = Compare(asked).standings(done.history)
    assert standing.comparison is not None
    ratio = standing.comparison.ratio
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.high / ratio.low <= 1.01**2
    assert len(done.history) > 10


def test_a_budget_ends_it_before_a_round_that_would_not_fit() -> None:
    done = carry_out(comparison(budget="100s"), noisy(5, truth=(1000, 1001)))
    assert done.stop.reason == "the budget of 100 s is used up"
    assert len(done.history) * RUN_NS <= 100_000_000_000 < (len(done.history) + 2) * RUN_NS


def test_a_budget_never_ends_it_within_a_pair() -> None:
    for budget in ("10s", "20s", "30s", "40s", "50s"):
        done = carry_out(comparison(budget=budget), noisy(5, truth=(1000, 1001)))
        assert len(done.history) % 2 == 0


def test_a_decided_comparison_is_not_measured_further() -> None:
    asked = comparison("A", "B", "C")
    done = carry_out(asked, noisy(6, truth=(1000, 3000, 1040), deviation=0.03))
    counts = [done.variants.count(variant) for variant in (0, 1, 2)]
    assert counts[1] < counts[2] == counts[0]
    assert all(standing.is_settled for standing in Compare(asked).standings(done.history))


def test_rounds_of_three_are_visited_forwards_and_backwards() -> None:
    asked = comparison("A", "B", "C")
    done = carry_out(asked, noisy(6, truth=(1000, 1001, 1002), deviation=0.03))
    first, second = done.variants[:3], done.variants[3:6]
    assert first == second[::-1]
    assert sorted(first, key=str) == [0, 1, 2]


def test_a_variant_that_cannot_start_is_left_out_and_the_next_one_is_the_reference() -> None:
    asked = comparison("A", "B", "C")
    done = carry_out(asked, noisy(7, truth=(1, 1000, 2000)), excluded=frozenset({"0"}))
    assert set(done.variants) == {1, 2}
    [standing] = Compare(asked).standings(done.history, frozenset({"0"}))
    assert (standing.reference.id, standing.variant.id) == ("1", "2")


def test_one_variant_alone_is_not_compared() -> None:
    done = carry_out(comparison(), noisy(7, truth=(1, 1)), excluded=frozenset({"1"}))
    assert (done.history, done.stop.reason) == ((), "fewer than two variants can be measured")


def test_a_metric_that_cannot_be_measured_ends_it_at_once() -> None:
    done = carry_out(comparison(metric="cpu_per_tx"), noisy(8, truth=(1000, 1000)))
    assert done.stop.reason == "cpu_per_tx cannot be measured here"
    assert len(done.history) == 1


def test_a_long_script_is_one_execution_a_run() -> None:
    run = Compare(comparison(metric="duration")).next_run(())
    assert isinstance(run, PlannedRun)
    assert (run.transactions_per_client, run.warm_ns) == (1, 2_000_000_000)


def test_both_runs_of_a_pair_have_the_same_seed() -> None:
    done = carry_out(comparison(), noisy(9, truth=(1000, 2000)))
    seeds = [measured.run.seed for measured in done.history]
    assert seeds[0::2] == seeds[1::2]
    assert len(set(seeds)) == 5


def test_an_interrupted_comparison_continues_at_the_same_point() -> None:
    asked = comparison("A", "B", "C")
    done = carry_out(asked, noisy(10, truth=(1000, 1100, 900)))
    for count in range(len(done.history)):
        assert Compare(asked).next_run(done.history[:count]) == done.history[count].run


def test_the_time_left_is_foreseen_from_the_second_pair_on() -> None:
    asked = comparison()
    done = carry_out(asked, noisy(11, truth=(1000, 1050)))
    after_one, after_ten = (
        Compare(asked).standings(done.history[:2]),
        Compare(asked).standings(done.history[:20]),
    )
    assert after_one[0].left_ns is None
    assert after_ten[0].left_ns is not None
    assert after_ten[0].left_ns % (2 * RUN_NS) == 0
    assert Compare(asked).runs_expected(done.history[:20]) > 20


def test_a_true_five_percent_is_decided_in_the_runs_that_are_promised() -> None:
    """Reach: run sd 5 %, drift 10 %/h: median <= 45 runs, p90 <= 90, <= 5 % false verdicts."""
    asked = comparison()
    counts, wrong = [], 0
    for seed in range(120):
        done = carry_out(asked, noisy(1000 + seed, truth=(1000, 1050)))
        [standing] = Compare(asked).standings(done.history)
        assert standing.comparison is not None
        counts.append(len(done.history))
        wrong += standing.comparison.verdict != "faster"
    assert statistics.median(counts) <= 45
    assert statistics.quantiles(counts, n=10)[-1] <= 90
    assert wrong <= 0.05 * len(counts) + 3


def test_five_hundred_runs_without_a_verdict_are_planned_through() -> None:
    asked = comparison(margin="0.1%", budget="4000s")
    done = carry_out(asked, noisy(12, truth=(1000, 1000)))
    assert len(done.history) >= 490
    assert done.stop.reason.startswith("the budget")
