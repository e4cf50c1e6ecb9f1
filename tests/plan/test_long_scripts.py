"""Batches and reports: how long one takes decides, not how many there were in a run."""

from __future__ import annotations

import pytest
from tests.plan.following import next_run
from tests.plan.simulated_server import comparison

from pgdyno.plan.designs.compare import Compare
from pgdyno.plan.history import History, Measured
from pgdyno.plan.long_scripts import as_measured
from pgdyno.spec.planned import PlannedRun

SETTLED_NS = 2_000_000_000


def after_one_run(mean_ms: float, tps: float = 1.0, **design: object) -> tuple[PlannedRun, History]:
    asked = comparison(**design)
    run = next_run(Compare, asked, ())
    assert isinstance(run, PlannedRun)
    measured = Measured(
        run, tps, SETTLED_NS, {"tps": tps, "p99": 1.0}, 1, latency_ms={"mean": mean_ms}
    )
    following = next_run(Compare, asked, (measured,))
    assert isinstance(following, PlannedRun)
    return following, (measured,)


def test_one_execution_is_one_run_where_it_takes_more_than_a_tenth_of_it() -> None:
    run, history = after_one_run(501.0)
    assert run.transactions_per_client == 1
    assert (run.round, run.warm_ns) == (1, 2_000_000_000)
    experiment, kept = as_measured(comparison(), history)
    assert experiment.metric() == "duration"
    assert kept == (), "what was measured by the clock stands for a pilot"


def test_an_ordinary_script_is_measured_by_the_clock() -> None:
    run, history = after_one_run(499.0)
    assert run.transactions_per_client is None
    assert as_measured(comparison(), history)[1] == history


def test_clients_that_wait_in_a_long_queue_are_no_long_script() -> None:
    # 500 clients, 0.6 s each: 4,000 executions in 5 s.
    run, history = after_one_run(625.0, tps=800.0)
    assert run.transactions_per_client is None
    assert as_measured(comparison(), history)[0].metric() == "tps"


@pytest.mark.parametrize("metric", ["tps", "p99"])
def test_a_chosen_metric_decides_even_if_an_execution_is_long(metric: str) -> None:
    run, history = after_one_run(3000.0, metric=metric)
    assert run.transactions_per_client is None
    assert as_measured(comparison(metric=metric), history)[0].metric() == metric
