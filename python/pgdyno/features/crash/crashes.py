"""Numbers from crashes, where the unit of replication is the crash: its commits depend on another.

Bounds of how often crashes lose something, and the time of recovery against the WAL to replay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from pgdyno.analysis.arrays import finite
from pgdyno.analysis.estimate import Estimate, mean_between_runs, t_quantile
from pgdyno.analysis.losses import Loss
from pgdyno.errors import AnalysisError
from pgdyno.features.crash.record import CrashRecord

_FEWEST_FITTED = 4
_HALVINGS = 60


def share_of_crashes(count: int, of_count: int) -> Estimate:
    """Return the share of crashes in which something happened, with an exact 95 % interval.

    Args: 0 <= count <= of_count, of_count > 0.
    Returns: if it never happened, the upper bound is 1 - 0.05^(1/n): 95 % on one side, because no
    share lies below 0. Else the bounds are 2.5 % on each side.
    Source: Clopper and Pearson 1934. Limits: the crashes must be independent and alike.
    """
    if not 0 <= count <= of_count or of_count < 1:
        raise AnalysisError(f"a share needs 0 <= count <= n and n > 0, got {count} of {of_count}")
    beyond = 0.05 if count in (0, of_count) else 0.025
    low = 0.0 if count == 0 else _where(lambda p: 1 - _at_most(count - 1, of_count, p), beyond)
    high = (
        1.0 if count == of_count else 1 - _where(lambda q: _at_most(count, of_count, 1 - q), beyond)
    )
    return Estimate(count / of_count, low, high, of_count, "1", "between_runs")


def loss_of(kind: str, records: Sequence[CrashRecord], blind: tuple[str, ...] = ()) -> Loss:
    """Return what these crashes took; its `share` is None without a crash."""
    lost_s = [record.lost_ns / 1e9 for record in records if record.lost]
    gaps_s = [
        record.longest_gap_ns / 1e9 for record in records if record.longest_gap_ns is not None
    ]
    return Loss(
        kind=kind,
        crashes=len(records),
        share=share_of_crashes(len(lost_s), len(records)) if records else None,
        lost=sum(record.lost for record in records),
        acknowledged=sum(record.acknowledged for record in records),
        seconds=mean_between_runs(lost_s, "s") if lost_s else None,
        seconds_max=max(lost_s, default=None),
        gap=mean_between_runs(gaps_s, "s") if gaps_s else None,
        gap_seconds_max=max(gaps_s, default=None),
        corrupt_count=sum(record.is_corrupt for record in records),
        blind=blind,
    )


def _at_most(count: int, of_count: int, share: float) -> float:
    """Return the probability of at most `count` of `of_count` independent events."""
    terms = (
        math.comb(of_count, k) * share**k * (1 - share) ** (of_count - k) for k in range(count + 1)
    )
    return math.fsum(terms)


def _where(increasing: Callable[[float], float], probability: float) -> float:
    """Return the share at which an increasing function of it reaches this probability."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < probability else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class RecoveryLine:
    """Recovery time = base + rate x WAL to replay, as crashes showed it."""

    base_s: float
    rate: Estimate
    """Seconds for each byte of WAL since the checkpoint."""
    mean_bytes: float
    spread_bytes: float
    residual_s: float

    def at(self, wal_bytes: float) -> Estimate:
        """Return the mean recovery time after a crash with this much WAL to replay.

        Limits: beyond the WAL of the crashes this assumes that the line goes on.
        """
        degrees = float(self.rate.n) - 2
        away = wal_bytes - self.mean_bytes
        error = self.residual_s * math.sqrt(
            1 / float(self.rate.n) + away * away / self.spread_bytes
        )
        half = t_quantile(0.975, degrees) * error
        value = self.base_s + self.rate.value * wal_bytes
        return Estimate(
            value, max(0.0, value - half), value + half, self.rate.n, "s", "between_runs"
        )


def recovery_line(wal_bytes: npt.ArrayLike, recovery_s: npt.ArrayLike) -> RecoveryLine | None:
    """Fit the recovery time against the WAL to replay, by ordinary least squares.

    Args: one value a crash each, shape (n,).
    Returns: None with fewer than 4 crashes, or if the interval of the rate contains 0: then these
    crashes had too little WAL to show what replaying it takes.
    """
    x = finite(wal_bytes, what="bytes of WAL")
    y = finite(recovery_s, what="seconds of recovery")
    spread = float(((x - x.mean()) ** 2).sum())
    if x.size < _FEWEST_FITTED or spread == 0:
        return None
    rate = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    base = float(y.mean()) - rate * float(x.mean())
    residual = math.sqrt(float(((y - base - rate * x) ** 2).sum()) / (x.size - 2))
    half = t_quantile(0.975, x.size - 2) * residual / math.sqrt(spread)
    if rate - half <= 0:
        return None
    estimate = Estimate(rate, rate - half, rate + half, int(x.size), "s/B", "between_runs")
    return RecoveryLine(base, estimate, float(x.mean()), spread, residual)
