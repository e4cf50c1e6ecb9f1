"""What a variant's throughput costs, where it has a price."""

from __future__ import annotations

from pgdyno.analysis.estimate import Estimate
from pgdyno.spec.variant import Variant


def cost_of(variant: Variant, tps: Estimate | None) -> Estimate | None:
    """Return what 1,000 transactions a second of the variant cost, with the interval of `tps`.

    None without a price, or where no load is known to be held.
    """
    if variant.cost is None or tps is None or tps.value <= 0:
        return None
    amount, unit = variant.cost
    if tps.censored:
        return None  # More may be held than was offered.
    each, ends = amount * 1000 / tps.value, (tps.high, tps.low)
    low, high = (amount * 1000 / end if end else None for end in ends)
    return Estimate(each, low, high, tps.n, f"{unit} per 1,000 tps", tps.scope)
