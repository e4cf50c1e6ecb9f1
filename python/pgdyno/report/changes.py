"""What changed between the detailed runs of two results: parts of the time, and statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.analysis.between_results import difference_between
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import common_decimals, ends_text
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.quantities import plain, signed
from pgdyno.report.parts import parts_of
from pgdyno.report.text_page import cut

_SHOWN = 5
_TEXT = 60
# Less than the clock of a statement can tell.
_LEAST_MS = 1e-4


@dataclass(frozen=True, slots=True)
class ChangeOfTime:
    """One part of a mean transaction's time, or one statement, in two results.

    `kind`: "time" or "statement". A value is None if one of the results does not have it.
    """

    kind: str
    name: str
    first: Estimate | None
    other: Estimate | None

    @property
    def difference(self) -> Estimate:
        """Return the change in ms; a part that a result does not have counts as 0 there."""
        none = without_interval(0.0, "ms")
        return difference_between(self.first or none, self.other or none)

    @property
    def words(self) -> str:
        """Return the change in one line: difference, interval, both values, name."""
        difference = self.difference
        decimals = common_decimals((difference.value, difference.low, difference.high))
        interval = "no interval"
        if difference.low is not None and difference.high is not None:
            interval = ends_text(difference.low, difference.high, decimals, is_signed=True)
        values = " | ".join(_value(ms) for ms in (self.first, self.other))
        return f"{signed(difference.value, decimals)} ms ({interval}): {values} ms  {self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the change as a part of the document."""
        values = [None if ms is None else ms.to_json() for ms in (self.first, self.other)]
        difference = self.difference.to_json()
        return {"kind": self.kind, "name": self.name, "values": values, "difference": difference}


def _value(ms: Estimate | None) -> str:
    if ms is None:
        return "-"
    return "0" if abs(ms.value) < _LEAST_MS else plain(ms.value)


def changes_between(first: ExperimentFindings, other: ExperimentFindings) -> list[ChangeOfTime]:
    """Return the statements and the parts that changed most, the largest change first.

    Empty if one of the results has no detailed run with parts of the time.
    """
    wheres = [result.run.where if result.run is not None else None for result in (first, other)]
    if wheres[0] is None or wheres[1] is None:
        return []
    statements = [_statements(where) for where in wheres if where is not None]
    parts = [_parts(where) for where in wheres if where is not None]
    return [*_largest("statement", *statements), *_largest("time", *parts)]


def _largest(
    kind: str, first: Mapping[str, Estimate], other: Mapping[str, Estimate]
) -> Iterator[ChangeOfTime]:
    names = dict.fromkeys((*first, *other))
    changes = [ChangeOfTime(kind, name, first.get(name), other.get(name)) for name in names]
    largest = sorted(changes, key=lambda change: -abs(change.difference.value))
    yield from (change for change in largest[:_SHOWN] if change.difference.value)


def _statements(where: WhereTheTimeGoes) -> dict[str, Estimate]:
    named = {}
    for statement in where.statements:
        place = f"{statement.script}:{statement.line} " if statement.line else ""
        named[f"{place}{cut(statement.text, _TEXT)}"] = statement.ms
    return named


def _parts(where: WhereTheTimeGoes) -> dict[str, Estimate]:
    return {part.words: part.ms for part in parts_of(where)}
