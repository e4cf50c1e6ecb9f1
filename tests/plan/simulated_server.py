"""A server whose variants have a known truth, with noise between runs and drift over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tests.plan.following import next_run

from pgdyno.designs import design_of
from pgdyno.plan.history import History, Measured
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.experiment import (
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.planned import PlannedRun, Stop

RUN_NS = 8_000_000_000  # 5 s measured + 3 s around it


def experiment(design: object, names: Sequence[str], **workload: object) -> Experiment:
    options = {"duration": "5s", "warmup": "2s", "seed": 7, **workload}
    return Experiment(
        name="simulated",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),), **options),
        variant=tuple(Variant(name=name) for name in names),
        design=design,
    )


def comparison(*names: str, **design: object) -> Experiment:
    return experiment(CompareDesign(**{"budget": "24h", **design}), names or ("A", "B"))


@dataclass(frozen=True)
class Carried:
    """What came of a simulated experiment."""

    history: History
    stop: Stop

    @property
    def variants(self) -> list[int | None]:
        """Which variant each run visited, by its place in the spec."""
        variants = (measured.run.cell.variant for measured in self.history)
        return [None if variant is None else int(variant.id) for variant in variants]


def carry_out(
    asked: Experiment, metrics_of: Callable[[PlannedRun, int], Mapping[str, float]], **more: object
) -> Carried:
    """Plan and measure until Stop; `metrics_of` is given the run and the time since the start."""
    history: History = ()
    while True:
        decision = next_run(design_of(asked), asked, history, **more)
        if isinstance(decision, Stop):
            return Carried(history, decision)
        metrics = metrics_of(decision, len(history) * RUN_NS)
        settled_ns = 3_000_000_000 if decision.purpose == "pilot" else None
        measured = Measured(decision, metrics["tps"], settled_ns, metrics, RUN_NS)
        history = (*history, measured)
        assert len(history) < 3000


def noisy(
    seed: int,
    *,
    truth: Sequence[float],
    deviation: float = 0.05,
    drift_per_hour: float = 0.10,
) -> Callable[[PlannedRun, int], Mapping[str, float]]:
    """Return a server: throughput by variant, log-normal noise, drift."""
    rng = np.random.default_rng(seed)

    def measure(run: PlannedRun, at_ns: int) -> Mapping[str, float]:
        assert run.cell.variant is not None
        drift = math.exp(drift_per_hour * at_ns / 3.6e12)
        tps = truth[int(run.cell.variant.id)] * drift * math.exp(deviation * rng.standard_normal())
        return {"tps": tps, "p99": 1e7 / tps}

    return measure
