"""Judges the check of the data after a run: which conditions hold, and where they do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.analysis.verdicts import Doubt
from pgdyno.quantities import counted


@dataclass(frozen=True, slots=True)
class ConditionFindings:
    """One consistency condition after the run, with its violations by part of the data."""

    number: int
    rule: str
    violations: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CheckFindings:
    """The check of the data after a run; `why_not` says why there was none, else ""."""

    conditions: tuple[ConditionFindings, ...]
    duration_s: float
    why_not: str = ""

    @property
    def violated(self) -> tuple[ConditionFindings, ...]:
        """Return the conditions that do not hold."""
        return tuple(condition for condition in self.conditions if condition.violations)


def check_doubts(check: CheckFindings | None, dataset_kind: str, part_word: str) -> Iterator[Doubt]:
    """Yield a doubt if the check of the data after a run failed or was not possible.

    Args: dataset_kind, the word after `pgdyno check`; part_word, what a part of these data is.
    """
    if check is None:
        return
    again = f"pgdyno check {dataset_kind}".rstrip()
    if check.why_not:
        yield Doubt(
            "not_checked",
            "doubt",
            f"The data were not checked after the run: {check.why_not}.",
            f"run {again}",
        )
    if not check.violated:
        return
    words = []
    for condition in check.violated:
        parts = sorted(condition.violations)
        shown = ", ".join(str(part) for part in parts[:3]) + ", ..." * (len(parts) > 3)
        violations = counted(sum(condition.violations.values()), "violation")
        words.append(f"{condition.number} ({condition.rule}): {violations}, {part_word} {shown}")
    yield Doubt(
        "inconsistent",
        "not_valid",
        f"After the run the data violate consistency condition {'; '.join(words)}.",
        f"load the data again before the next run; {again} repeats the check",
    )
