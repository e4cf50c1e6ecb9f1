"""A statement of the capture with what its text says."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.parsed import Parsed

# A statement finds rows if this share of its calls does.
_FINDS_ROWS = 0.5


@dataclass(frozen=True, slots=True)
class Described:
    """A statement of the capture with what its text says, and how many rows a call has."""

    statement: Statement
    parsed: Parsed

    @property
    def rows_per_call(self) -> float:
        """Return the mean number of rows."""
        counters = self.statement.counters
        return counters.rows / max(counters.calls, 1)

    @property
    def blocks_per_call(self) -> float:
        """Return the mean number of blocks."""
        counters = self.statement.counters
        return (counters.hit_blocks + counters.read_blocks) / max(counters.calls, 1)

    @property
    def finds_rows(self) -> bool:
        """Return whether a call usually returns or changes rows."""
        return self.rows_per_call >= _FINDS_ROWS
