"""What a run says while it is under way; who shows it is not its business."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a run stands now. `total_ns` 0 = not known; `position` such as "run 4 of 20"."""

    label: str
    phase: str
    elapsed_ns: int = 0
    total_ns: int = 0
    tps: float | None = None
    p99_ms: float | None = None
    failed_count: int = 0
    position: str = ""
    eta_ns: int = 0
    rows_per_second: float | None = None
    mb_per_second: float | None = None


class Progress:
    """Silent; the command line has one that shows."""

    def said(self, text: str) -> None:
        """Take note of a step that was reached, in one line."""

    def moved(self, moment: Moment) -> None:
        """Take note of where the run stands; called many times a second."""

    def ended(self) -> None:
        """Take note that nothing moves any more."""
