"""The findings about one script of a run, or about one transaction type of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.analysis.estimate import Estimate

PERCENTILES = ("p50", "p90", "p95", "p99", "p999")


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of completed transactions; the unit of every Estimate is ms."""

    mean: Estimate
    percentiles: dict[str, Estimate]
    max_ms: float


@dataclass(frozen=True, slots=True)
class StatementFindings:
    """One statement of a script: `share` is its part of the script's mean latency, 0..1."""

    line: int
    text: str
    calls: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    share_ratio: float


@dataclass(frozen=True, slots=True)
class ScriptFindings:
    """One script of a run, or one transaction type of a program.

    Transactions rolled back on purpose are included. `counted`: counters that only this type has,
    such as order lines. `is_background`: no client waits for it, so it is in no total.
    """

    name: str
    weight: int
    transactions: int
    failures: dict[str, int]
    tps: Estimate
    latency: Latency
    statements: tuple[StatementFindings, ...]
    program: str = ""
    rolled_back_count: int = 0
    retry_count: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    is_background: bool = False
