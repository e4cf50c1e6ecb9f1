"""What telemetry says beside charts, ready to be shown: tables of facts, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FactTable:
    """One table of a report: words and numbers as text; columns after the first are numbers.

    `whole`: the first words of each row in full, where `rows` have them shortened; else empty.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    whole: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TelemetryFindings:
    """Facts of one run beside its charts.

    `facts` are label and text; `examined` the doctor's findings, worst first; `not_measured` says
    in whole sentences what is missing, and why.
    """

    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[FactTable, ...] = ()
    examined: tuple[Mapping[str, Any], ...] = ()
    not_measured: tuple[str, ...] = ()
    energy_joules_per_transaction: float | None = None
