"""What was found of variants: each against its reference, with the reason and the doubts."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.analysis.compare import Comparison
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.served import Served
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_difference import Difference


@dataclass(frozen=True, slots=True)
class Pair:
    """One round's two runs of a contrast; values in the unit of the deciding metric."""

    round: int
    reference_value: float
    variant_value: float
    is_reversed: bool

    @property
    def ratio(self) -> float:
        """Return variant over reference."""
        return self.variant_value / self.reference_value


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A statement whose plan differs: between two variants, or between rounds of one."""

    script: str
    line: int
    text: str
    was: str
    became: str
    between: str


@dataclass(frozen=True, slots=True)
class VariantFindings:
    """One variant: what it changes, and what was measured of it.

    `metrics`: means over its runs with intervals between runs. `weakened`: settings with which a
    crash may lose acknowledged commits. `holds_rate`: None without a rate. `by_round`: the deciding
    metric of every run with its round. `cost`: what 1,000 tps of it cost, where it has a price; a
    rate that it cannot hold has none.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    target: str
    cannot_start: str
    runs: int
    runs_valid: int
    metrics: dict[str, Estimate]
    where: WhereTheTimeGoes | None
    weakened: tuple[str, ...]
    holds_rate: bool | None
    by_round: tuple[tuple[int, float], ...] = ()
    cost: Estimate | None = None

    served: Served | None = None


@dataclass(frozen=True, slots=True)
class ContrastFindings:
    """One variant against its reference.

    `comparisons` has every metric that was measured, the deciding one among them; only intervals
    that hold at every look. `because`: in words, "" where nothing measured explains it. `left_ns`:
    how much longer a verdict will take, None where that cannot be foreseen or it is in.
    """

    variant: str
    reference: str
    deciding: Comparison
    comparisons: dict[str, Comparison]
    pairs: tuple[Pair, ...]
    difference: Difference | None
    because: str
    plan_changes: tuple[PlanChange, ...]
    sentence: str
    is_settled: bool
    left_ns: int | None


@dataclass(frozen=True, slots=True)
class CompareFindings:
    """The answer of a design with variants.

    `effects` of a factorial, `steps` of passes (each against the one before). `confounds`: what
    the design cannot tell apart. `settings`: every setting that is not the same on the servers of
    all variants, with its value on each, "" where it is not known. `state`: how the data of each
    variant grew meanwhile.
    """

    metric: str
    unit: str
    reference: str
    variants: tuple[VariantFindings, ...]
    contrasts: tuple[ContrastFindings, ...]
    rounds: int
    stopped_by: str
    effects: tuple[Effect, ...] = ()
    steps: tuple[ContrastFindings, ...] = ()
    confounds: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    settings: tuple[tuple[str, tuple[str, ...]], ...] = ()
