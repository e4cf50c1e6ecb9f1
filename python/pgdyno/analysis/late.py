"""The share of transactions that were not done within a latency limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.histogram import Histogram
from pgdyno.analysis.resample import block_weights, plan_blocks, within_run_estimate


def over_limit_count(histogram: Histogram, limit_ns: int) -> int:
    """Return how many values are above the limit.

    Limits: the limit is good to half a bucket (0.05 %).
    """
    return int(histogram.count[histogram.middles_ns() > limit_ns].sum())


def late_share(
    seconds: Sequence[Histogram],
    limit_ns: int,
    *,
    seed: int,
    unfinished_ages_ns: npt.ArrayLike = (),
) -> Estimate:
    """Return the share above the limit, in 0..1, with an interval where the run is long enough.

    Args: seconds, latencies of completed transactions, one histogram a second in time order, at
    least one value in all; unfinished_ages_ns, ages of what was due or begun and never ended.
    Returns: unit "ratio". Unfinished transactions count as late: they were not done in time.
    Source: circular block bootstrap over seconds (Politis and Romano 1992), as for percentiles.
    """
    ages = np.asarray(unfinished_ages_ns, dtype=np.int64)
    late = np.array([over_limit_count(one, limit_ns) for one in seconds], dtype=np.float64)
    total = np.array([one.transaction_count for one in seconds], dtype=np.float64)
    value = float((late.sum() + ages.size) / (total.sum() + ages.size))
    plan = plan_blocks(late / np.maximum(total, 1.0), 1.0)
    weights = block_weights(plan, np.random.default_rng(seed))
    group = plan.group_of(np.arange(len(seconds), dtype=np.float64))
    late_drawn = weights @ np.bincount(group, late, minlength=plan.group_count) + ages.size
    drawn = weights @ np.bincount(group, total, minlength=plan.group_count) + ages.size
    shares = late_drawn[drawn > 0] / drawn[drawn > 0]
    found = within_run_estimate(value, shares, plan.block_count, "ratio", is_positive=False)
    if not found.has_interval or found.low is None or found.high is None:
        return found
    low, high = max(found.low, 0.0), min(found.high, 1.0)
    return Estimate(value, low, high, found.n, "ratio", found.scope)
