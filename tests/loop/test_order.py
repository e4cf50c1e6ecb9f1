"""The order of runs is drawn for each experiment, and kept with it."""

from __future__ import annotations

from functools import partial

import numpy as np
from tests.fixtures.prove import Figure
from tests.plan.simulated_server import comparison
from tests.statistics import last_look as last

from pgdyno.loop.drive import with_order
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.file import to_toml
from pgdyno.spec.workload import Workload


def given(**workload: int) -> Experiment:
    asked = comparison()
    of_load = Workload(scripts=asked.workload.scripts, **workload)  # type: ignore[arg-type]
    return asked.model_copy(update={"workload": of_load})


def test_the_order_is_drawn_for_each_experiment_and_stored_with_it() -> None:
    orders = {with_order(given()).workload.order_seed for _ in range(20)}
    assert len(orders) == 20
    first = with_order(given())
    assert f"order_seed = {first.workload.order_seed}" in to_toml(first)
    assert with_order(first) == first


def test_the_seed_of_the_load_does_not_decide_about_the_order() -> None:
    orders = {with_order(given(seed=1)).workload.order_seed for _ in range(20)}
    assert len(orders) == 20
    assert with_order(given(seed=1, order_seed=7)) == given(seed=1, order_seed=7)


def test_no_seed_of_the_load_fits_the_period_of_a_disturbance(figure: Figure) -> None:
    order_seeds = [
        with_order(given(seed=seed)).workload.order_seed for seed in range(25) for _ in range(40)
    ]
    rng, count = np.random.default_rng(41), len(order_seeds)
    wrong_ratio = {}
    for period in last.PERIODS:
        noise = partial(last.periodic, period=period)
        ended = last.ended(rng, count, noise, pairs=5, effect=0.0, order_seeds=order_seeds)
        wrong_ratio[period] = ended.decided(1) + ended.decided(-1)
    worst = max(wrong_ratio, key=lambda period: wrong_ratio[period])
    figure(
        f"{count} comparisons under a sine of 5 % for each of {len(wrong_ratio)} periods,"
        " with 25 seeds of the load, simulated",
        truth="at most 5 % false verdicts, plus 2 % for 1,000 experiments",
        seen=f"{np.mean([*wrong_ratio.values()]):.1%}; {wrong_ratio[worst]:.1%} at {worst:g} runs",
    )
    # Three standard errors of 1,000 experiments are 2.1 %.
    assert wrong_ratio[worst] <= 0.071
