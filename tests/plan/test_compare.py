"""Comparisons planned against servers whose truth is known."""

from __future__ import annotations

import statistics

from tests.plan.following import next_run
from tests.plan.simulated_server import RUN_NS, carry_out, comparison, experiment, noisy

from pgdyno.plan.designs.compare import Compare
from pgdyno.plan.history import History, Measured, elapsed_ns
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.planned import PlannedRun, Stop


def test_the_order_of_each_pair_is_drawn_from_the_seed() -> None:
    orders = []
    for seed in (7, 7, 8):
        asked = experiment(CompareDesign(rounds=40), ("A", "B"), seed=seed)
        done = carry_out(asked, noisy(1, truth=(1000, 1001), deviation=0.02))
        rounds = [tuple(done.variants[at : at + 2]) for at in range(0, 80, 2)]
        assert all(sorted(pair, key=str) == [0, 1] for pair in rounds)
        assert 10 <= rounds.count((0, 1)) <= 30
        orders.append(rounds)
    assert orders[0] == orders[1] != orders[2]


def test_every_variant_has_a_pilot_and_all_runs_the_longest_warm_up() -> None:
    asked = experiment(CompareDesign(), ("A", "B", "C"), warmup=None)
    done = carry_out(asked, noisy(1, truth=(1000, 2000, 3000)))
    assert [m.run.purpose for m in done.history[:4]] == ["pilot", "pilot", "pilot", "round"]
    assert done.variants[:3] == [0, 1, 2]
    assert {m.run.warm_ns for m in done.history[3:]} == {3_000_000_000}


def test_a_large_difference_is_decided_after_few_pairs() -> None:
    done = carry_out(comparison(), noisy(2, truth=(1000, 2000)))
    assert (len(done.history), done.stop.reason) == (12, "decided after 6 rounds")
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


def test_budget_and_pilots_fix_the_number_of_rounds_before_the_first() -> None:
    asked = experiment(CompareDesign(budget="100s"), ("A", "B"), warmup=None)
    done = carry_out(asked, noisy(5, truth=(1000, 1001)))
    pilots = done.history[:2]
    # 84 s are left after two pilots; a run has 3 s of warm-up, 5 s measured, 3 s around them.
    assert Compare(asked).rounds_planned(pilots, asked.planned_variants()) == 3
    assert Compare(asked).outlook(pilots) == "plan    3 rounds of 2 x 8 s; last look after round 3"
    assert Compare(asked).outlook(pilots[:1]) == ""
    short = experiment(CompareDesign(budget="65s"), ("A", "B"), warmup=None)
    said = (
        "plan    3 rounds of 2 x 8 s; they take about 17 s more than the budget, which ends"
        " them; fewer than 3 have no interval"
    )
    assert Compare(short).outlook(pilots) == said
    assert done.stop.reason == "the budget of 100 s was enough for 3 rounds"
    assert len(done.history) == 8


def test_a_budget_that_runs_out_early_is_the_last_look() -> None:
    slow = noisy(1, truth=(1000, 1001))
    asked = comparison(budget="100s")
    history: History = ()
    while isinstance(run := Compare(asked).next_run(history), PlannedRun):
        metrics = slow(run, 0)
        history = (*history, Measured(run, metrics["tps"], None, metrics, 15_000_000_000))
    assert run == Stop("the budget of 100 s is used up")
    [standing] = Compare(asked).standings(history)
    assert standing.comparison is not None
    assert (standing.comparison.pair_count, standing.comparison.looks) == (3, "fixed")
    assert standing.comparison.ratio.has_interval


def test_thirty_percent_on_a_noisy_machine_is_decided_in_six_rounds() -> None:
    """The ratio of a pair scatters by 20 %."""
    decided = 0
    for seed in range(100):
        asked = experiment(CompareDesign(rounds=6), ("A", "B"), seed=seed)
        done = carry_out(asked, noisy(seed, truth=(1000, 700), deviation=0.2 / 2**0.5))
        [standing] = Compare(asked).standings(done.history)
        assert standing.comparison is not None
        assert len(done.history) == 12
        decided += standing.comparison.verdict == "slower"
    assert decided >= 88  # 90 % less the error of 100 experiments


def test_after_a_change_of_the_budget_only_the_interval_of_all_looks_holds() -> None:
    asked = comparison(budget="100s")
    done = carry_out(asked, noisy(1, truth=(1000, 1010)))
    [before] = Compare(asked).standings(done.history)
    longer = comparison(budget="200s", extended=True)
    [after] = Compare(longer).standings(done.history)
    assert before.comparison is not None
    assert after.comparison is not None
    assert (before.comparison.looks, after.comparison.looks) == ("fixed", "sequential")
    assert isinstance(Compare(longer).next_run(done.history), PlannedRun)
    assert "only the interval" in Compare(longer).outlook(())


def test_a_comparison_that_cannot_tell_is_continued_to_twice_its_rounds() -> None:
    first = carry_out(comparison(rounds=4), noisy(1, truth=(1000, 1010)))
    assert len(first.history) == 8
    more = comparison(rounds=4, looked=(4,))
    [between] = Compare(more).standings(first.history)
    assert between.comparison is not None
    assert (between.is_settled, between.comparison.looks) == (False, "sequential")
    whole = carry_out(more, noisy(1, truth=(1000, 1010)))
    assert len(whole.history) == 16
    [after] = Compare(more).standings(whole.history)
    assert after.comparison is not None
    assert (after.comparison.pair_count, after.comparison.looks) == (8, "fixed")
    assert after.comparison.level_ratio == 0.99


def test_runs_keep_their_length_after_a_change_of_the_budget() -> None:
    short = experiment(CompareDesign(budget="100s"), ("A", "B"), duration="30s")
    done = carry_out(short, noisy(1, truth=(1000, 1010)))
    [length_ns] = {seen.run.measure_ns for seen in done.history if seen.run.purpose == "round"}
    assert length_ns < 30 * 10**9
    longer = experiment(CompareDesign(budget="1h", extended=True), ("A", "B"), duration="30s")
    following = Compare(longer).next_run(done.history)
    assert isinstance(following, PlannedRun)
    assert following.measure_ns == length_ns


def test_a_budget_never_ends_it_within_a_pair() -> None:
    for budget in ("10s", "20s", "30s", "40s", "50s"):
        done = carry_out(comparison(budget=budget), noisy(5, truth=(1000, 1001)))
        assert len(done.history) % 2 == 0
        spent_s = elapsed_ns(done.history) / 1e9
        assert spent_s <= 1.05 * float(budget[:-1]) or len(done.history) == 2, "one round at least"


def test_the_number_of_expected_runs_is_never_below_the_next_one_nor_new_within_a_round() -> None:
    for budget in ("60s", "80s", "100s"):
        asked = comparison("A", "B", "C", budget=budget)
        done = carry_out(asked, noisy(5, truth=(1000, 1001, 1002)))
        plan = Compare(asked)
        expected = [plan.runs_expected(done.history[:n]) for n in range(len(done.history))]
        assert all(total > number for number, total in enumerate(expected)), expected
        assert len(set(expected[:3])) == 1, expected


def test_a_decided_comparison_is_not_measured_further() -> None:
    asked = comparison("A", "B", "C")
    done = carry_out(asked, noisy(6, truth=(1000, 3000, 1040), deviation=0.03))
    counts = [done.variants.count(variant) for variant in (0, 1, 2)]
    assert counts[1] < counts[2] == counts[0]
    assert all(standing.is_settled for standing in Compare(asked).standings(done.history))


def test_rounds_of_three_are_visited_in_random_orders() -> None:
    asked = comparison("A", "B", "C", rounds=30)
    done = carry_out(asked, noisy(6, truth=(1000, 1001, 1002), deviation=0.03))
    orders = [tuple(done.variants[at : at + 3]) for at in range(0, 90, 3)]
    assert all(sorted(order, key=str) == [0, 1, 2] for order in orders)
    assert len(set(orders)) == 6


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
    assert len(set(seeds)) == len(seeds) / 2


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


def test_the_number_of_runs_that_is_shown_stays_that_of_the_plan() -> None:
    asked = comparison(rounds=4)
    history: History = ()
    server, shown = noisy(5, truth=(1000, 1003)), set()
    while isinstance(run := next_run(Compare, asked, history), PlannedRun):
        shown.add(Compare(asked).runs_expected(history))
        metrics = server(run, len(history) * RUN_NS)
        history = (*history, Measured(run, metrics["tps"], None, metrics, RUN_NS))
    assert shown == {len(history)} == {8}
