"""Which candidates a statement should have, by the work that was measured of each. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.mirror.findings import BLOCKS_LIMIT, RATIO_LIMIT
from pgdyno.features.capture.model import Constant, Drawn, Source
from pgdyno.features.capture.observed import Statement

_WEIGHTS = tuple(step / 20 for step in range(21))
# Candidates whose work is so near share a weight, so that not one value is asked for all the time.
_NEAR = 0.2
# How much the error of a single call counts, compared with the error of the mean.
_FAR = 0.2
Measured = tuple[float, float]


@dataclass(frozen=True, slots=True)
class WantedWork:
    """Rows and blocks of a call of a statement in the source. `blocks`: None if not compared."""

    rows: float
    blocks: float | None

    def error(self, seen: Measured) -> float:
        """Return how far the work of a call is from that of the source; 0 if it is the same."""
        rows = abs(seen[0] - self.rows) / max(self.rows, 1.0)
        if self.blocks is None:
            return rows
        return rows + 0.5 * abs(seen[1] - self.blocks) / max(self.blocks, 4.0)

    def is_met(self, seen: Measured) -> bool:
        """Return whether rows and blocks are within the limits of likeness."""
        rows = abs(seen[0] - self.rows) <= max(RATIO_LIMIT * self.rows, 0.5)
        if self.blocks is None:
            return rows
        limit = max(RATIO_LIMIT * self.blocks, BLOCKS_LIMIT)
        return rows and abs(seen[1] - self.blocks) <= limit


def wanted_of(statement: Statement) -> WantedWork | None:
    """Return the work of a call in the source; None if it was not counted, or is a COPY."""
    own = statement.counters
    is_counted = own.rows or own.hit_blocks or own.read_blocks
    if not own.calls or not is_counted:
        return None
    if statement.kind == "insert":
        # The blocks of an INSERT are those of its keys and indexes: the rows decide.
        return WantedWork(own.rows / own.calls, None)
    if statement.kind not in ("select", "update", "delete"):
        return None
    return WantedWork(own.rows / own.calls, (own.hit_blocks + own.read_blocks) / own.calls)


def mixture(seen: Mapping[str | None, Measured], wanted: WantedWork) -> Source:
    """Return the mixture of at most two kinds of candidates that is nearest to the source."""

    def error(pair: tuple[str | None, str | None], weight: float) -> float:
        first, other = seen[pair[0]], seen[pair[1]]
        mixed = [weight * a + (1 - weight) * b for a, b in zip(first, other, strict=True)]
        return wanted.error((mixed[0], mixed[1]))

    def cost(choice: tuple[tuple[str | None, str | None], float]) -> tuple[float, float]:
        # Calls that are near come before far ones that are right on average: often one value.
        # If most calls find nothing, no call is near.
        pair, weight = choice
        used = [value for value, part in zip(pair, (weight, 1 - weight), strict=True) if part]
        farthest = max(wanted.error(seen[value]) for value in used)
        far = _FAR * farthest if wanted.rows >= 1 else 0.0
        return max(error(pair, weight), RATIO_LIMIT / 2) + far, farthest

    pairs = itertools.combinations_with_replacement(seen, 2)
    pair, weight = min(itertools.product(pairs, _WEIGHTS), key=cost)
    shares: dict[str | None, float] = {}
    for chosen, part in zip(pair, (weight, 1 - weight), strict=True):
        alike = [value for value in seen if _is_near(seen[value], seen[chosen])] if part else []
        for value in alike:
            shares[value] = shares.get(value, 0.0) + part / len(alike)
    return _drawn(shares)


def evenly(values: Sequence[str]) -> Source:
    """Return a source of each value as often as any other."""
    return _drawn(dict.fromkeys(values, 1 / len(values)))


def _drawn(weights: Mapping[str | None, float]) -> Source:
    shares = dict(weights)
    nulls = shares.pop(None, 0.0)
    if not shares:
        return Constant(value=None)
    if len(shares) == 1 and not nulls:
        return Constant(value=next(iter(shares)))
    whole = sum(shares.values())
    hot = tuple(Hot(value=str(value), fraction=part / whole) for value, part in shares.items())
    width = sum(len(own.value) for own in hot) / len(hot)
    distribution = Distribution(
        kind="text", null_fraction=nulls, distinct=len(hot), width=width, hot=hot
    )
    return Drawn(distribution=distribution)


def _is_near(first: Measured, other: Measured) -> bool:
    return all(abs(a - b) <= _NEAR * max(b, 1.0) for a, b in zip(first, other, strict=True))
