"""The type of one planned run: the planner decides it, `measure/` carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgdyno.programs.registry import program_of
from pgdyno.quantities import counted
from pgdyno.spec.variant import Variant

Purpose = Literal["pilot", "round", "turns", "detail", "capacity"]


@dataclass(frozen=True, slots=True)
class PlannedVariant:
    """A variant under the id by which the store, the servers and the answer know it.

    The id never changes within an experiment. "0", "1" and so on are the variants of the spec in
    their order. A design chooses the ids of those that it creates while the experiment runs. Two
    planned variants are equal if their ids are.
    """

    id: str
    spec: Variant = field(compare=False)

    @property
    def name(self) -> str:
        """Return the name that people see."""
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Cell:
    """A variant and a load; a round visits each cell once."""

    script_indexes: tuple[int, ...]
    """The scripts of the experiment that run, mixed by their weights."""
    clients: int
    rate_tps: float | None = None
    variant: PlannedVariant | None = None
    """None if the experiment has no variants."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: the unit of replication.

    `pilot` finds the warm-up and is not analysed. `round` is one visit of a cell. `detail` is the
    long run that the report shows completely. `capacity` tries one load against a latency target.
    `turns` is one load in which variants take turns: `turns` has their order, `turn_ns` the length
    of each. They differ only in settings that act at once, so the server is never restarted.
    `restarts`: the run begins with a restart of the server, as all runs of its round.
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
    restarts: bool = False
    turns: tuple[PlannedVariant, ...] = ()
    turn_ns: int = 0

    def label(self, script_names: Sequence[str]) -> str:
        """Return the run in words, such as `4GB: tpcb-like, 16 clients`."""
        scripts = [script_names[index] for index in self.cell.script_indexes]
        names = " + ".join(scripts)
        clients = counted(self.cell.clients, program_of(scripts).client_word)
        rate = f", {self.cell.rate_tps:g}/s" if self.cell.rate_tps else ""
        variant = "" if self.cell.variant is None else f"{self.cell.variant.name}: "
        if self.turns:
            variant = f"{len(set(self.turns))} variants in turns: "
        return f"{variant}{names}, {clients}{rate}"


@dataclass(frozen=True, slots=True)
class Stop:
    """No further run: the plan is complete, or the question is decided."""

    reason: str
