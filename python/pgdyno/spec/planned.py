"""The type of one planned run: what the planner decides and `measure/` carries out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Purpose = Literal["pilot", "round", "detail", "capacity"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A variant and a load: what a round visits once."""

    script_indexes: tuple[int, ...]
    """Which scripts of the experiment run, mixed by their weights."""
    clients: int
    rate_tps: float | None = None
    variant: int | None = None
    """Which variant of the experiment; None where there are none."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: the unit of replication.

    `pilot` finds the warm-up and is not analysed; `round` is one visit of a cell; `detail` is the
    long run that is shown whole; `capacity` tries one load against a latency target.
    """

    number: int
    purpose: Purpose
    round: int
    cell: Cell
    warm_ns: int
    measure_ns: int
    seed: int
    transactions_per_client: int | None = None
    reason: str = ""

    def label(self, script_names: Sequence[str], variant_names: Sequence[str] = ()) -> str:
        """Return the run in words, such as `4GB: tpcb-like, 16 clients`."""
        names = " + ".join(script_names[index] for index in self.cell.script_indexes)
        clients = f"{self.cell.clients} client{'s' if self.cell.clients != 1 else ''}"
        rate = f", {self.cell.rate_tps:g}/s" if self.cell.rate_tps else ""
        variant = "" if self.cell.variant is None else f"{variant_names[self.cell.variant]}: "
        return f"{variant}{names}, {clients}{rate}"


@dataclass(frozen=True, slots=True)
class Stop:
    """No further run: the plan is done, or decided."""

    reason: str
