"""A server with a known capacity under a latency target: p99 rises as it saturates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pgdyno.analysis.capacity import LoadLimit, LoadTrial
from pgdyno.plan.capacity import next_rate


@dataclass
class SloServer:
    """p99 = base / (1 - load / saturation), noisy; now and then the machine stops for a moment."""

    peak_tps: float
    capacity_tps: float
    base_ms: float
    noise_ratio: float
    rng: np.random.Generator = field(repr=False)
    limit_ms: float = 20.0

    @classmethod
    def any(cls, seed: int, noise_ratio: float) -> SloServer:
        """Return a server drawn at random."""
        rng = np.random.default_rng(seed)
        peak = float(1000 * 10 ** rng.uniform(-1, 1))
        capacity = peak * float(rng.uniform(0.2, 1.0))
        return cls(peak, capacity, float(rng.uniform(1, 8)), noise_ratio, rng)

    def measure(self, offered_tps: float) -> LoadTrial:
        """Return what a run with this load would show."""
        saturated_tps = self.capacity_tps / (1 - self.base_ms / self.limit_ms)
        load = offered_tps / saturated_tps
        p99 = self.base_ms / (1 - load) if load < 1 else 1000.0
        p99 *= float(np.exp(self.noise_ratio * self.rng.standard_normal()))
        if self.rng.random() < 0.02:
            p99 *= 5
        return LoadTrial(offered_tps, min(1.0, 1 / load), p99)


def searched(server: SloServer, target: LoadLimit) -> list[LoadTrial]:
    """Return every trial of the search."""
    trials: list[LoadTrial] = []
    while (rate := next_rate(trials, target, server.peak_tps)) is not None:
        trials.append(server.measure(rate))
        assert len(trials) <= 20
    return trials
