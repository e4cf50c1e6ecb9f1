"""What a watch found: numbers in its document, panels over time, what the doctor said before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.analysis.findings import Mark, Panel
from pgdyno.analysis.hazel import Hazel
from pgdyno.analysis.telemetry import FactTable


@dataclass(frozen=True, slots=True)
class WatchFindings:
    """A watch as its page shows it.

    `document` is `pgdyno.watch/1`; `examined` the findings of the doctor, worst first; `hazel`:
    speed and waits by the method published as PG_HAZEL, and corrected; `tables`: what was there
    before and after.
    """

    document: Mapping[str, Any]
    duration_s: float
    panels: tuple[Panel, ...] = ()
    marks: tuple[Mark, ...] = ()
    examined: tuple[Mapping[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    hazel: Hazel | None = None
    tables: tuple[FactTable, ...] = ()
