"""How throughput grows with the number of workers of a distributed server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.compare import compare, family_level, log_ratios
from pgdyno.analysis.curve import load_curve
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.usl import Usl

_SEED = 1


@dataclass(frozen=True, slots=True)
class OnWorkers:
    """One variant. `speed_up`: its throughput as a multiple of that with the fewest workers.

    `efficiency`: the speed-up divided by the growth of the number of workers; both have the unit
    "1", and are None for the variant with the fewest workers.
    """

    variant: str
    worker_count: int
    speed_up: Estimate | None
    efficiency: Estimate | None


@dataclass(frozen=True, slots=True)
class ScalingOut:
    """Variants by rising number of workers; `law`: three numbers and two rounds, else None.

    The law is over workers: its gamma is the throughput of one worker.
    """

    variants: tuple[OnWorkers, ...]
    law: Usl | None


def scaling_out(
    variants: Sequence[tuple[str, int]], table: Sequence[Sequence[float]]
) -> ScalingOut | None:
    """Return speed-up and efficiency; None if all variants have the same number of workers.

    Args: variants, names and numbers of workers (at least 1); table, shape (rounds, variants), the
    throughput of the rounds that measured all variants.
    Source: intervals from the rounds as pairs, together 95 % (Bonferroni); the Universal
    Scalability Law of Gunther 2007, whose N is here the number of workers.
    """
    counts = [count for _, count in variants]
    if len(set(counts)) < 2 or not table:
        return None
    order = sorted(range(len(variants)), key=counts.__getitem__)
    values = np.asarray(table, dtype=np.float64)
    fewest = order[0]
    level = family_level(len(variants))
    by_workers = []
    for place in order:
        name, count = variants[place]
        speed_up = efficiency = None
        if place != fewest:
            ratios = log_ratios(values[:, fewest], values[:, place])
            speed_up = compare(ratios, looks="fixed", level=level).ratio
            efficiency = speed_up.scaled(counts[fewest] / count, "1")
        by_workers.append(OnWorkers(name, count, speed_up, efficiency))
    law = None
    if len(table) > 1:
        workers = np.tile(np.asarray(counts, dtype=np.float64), len(table))
        law = load_curve(workers, values.ravel(), seed=_SEED).usl
    return ScalingOut(tuple(by_workers), law)
