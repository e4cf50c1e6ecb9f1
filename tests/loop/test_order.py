"""The order of runs is drawn for each experiment, and kept with it."""

from __future__ import annotations

from tests.plan.simulated_server import comparison

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
