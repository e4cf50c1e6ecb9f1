"""Makes facts, tables and doubts from the telemetry of one stored run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pgdyno.analysis.findings import TelemetryFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.fact_tables import fact_tables
from pgdyno.engine.records import WarningKind
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.collector import NoticeKind
from pgdyno.quantities import milliseconds
from pgdyno.store.stored_run import StoredRun

# With fewer durations, the p95 is the longest.
_P95_COUNT_MIN = 20
# Notices of the observer that put every number of the run in doubt.
_DOUBTED = frozenset[str](
    {
        NoticeKind.CLOCK_SET,
        NoticeKind.OBSERVER_ANSWERED_LATE,
        NoticeKind.OBSERVER_LOST_SERVER,
        NoticeKind.OBSERVER_LOST_HOST,
        NoticeKind.OBSERVER_LOST_POOLER,
        NoticeKind.OBSERVER_BEHIND_POOLER,
        NoticeKind.OBSERVER_WITHOUT_PG_MONITOR,
        NoticeKind.HOST_NOT_OBSERVED,
        NoticeKind.NETWORK_NOT_PROBED,
        NoticeKind.POOLER_NOT_OBSERVED,
        WarningKind.PROCEDURES_REPLACED,
    }
)


def telemetry_findings(stored: StoredRun, numbers: LoadNumbers) -> TelemetryFindings:
    """Return facts and tables of a run, from its files alone."""
    server = stored.server_json
    doctor = stored.document("doctor.json") or {}
    energy = energy_joules(stored, numbers)
    completed = numbers.counts.completed
    missing = [
        warning for warning in stored.warnings if warning["kind"] == NoticeKind.NOT_MEASURABLE
    ]
    return TelemetryFindings(
        facts=tuple(_facts(server, energy, completed)),
        tables=fact_tables(stored, numbers),
        examined=tuple(doctor.get("findings", ())),
        not_measured=tuple(dict.fromkeys(str(warning["message"]) for warning in missing)),
        energy_joules_per_transaction=energy / completed if energy and completed else None,
    )


def telemetry_doubts(stored: StoredRun) -> Iterator[Doubt]:
    """Yield the doubts about a run from telemetry and the doctor."""
    server = stored.server_json
    for change in server.get("settings_changed") or ():
        of = f" of {change['of']}" if change["of"] else ""
        yield Doubt(
            f"setting_changed_{change['name']}",
            "doubt",
            f"{change['name']}{of} was {_shown(change['before'])} before the run and"
            f" {_shown(change['after'])} after it.",
            "measure again, and make sure that nobody changes settings during the run",
        )
    for name, disk in (server.get("disks") or {}).items():
        if disk.get("slowed_by_heat"):
            yield Doubt(
                "disk_too_warm",
                "doubt",
                f"{name} was too warm during the run, or reduced its speed because of heat.",
                "cool it, or measure shorter runs with pauses between them",
            )
    said: set[str] = set()
    for warning in stored.warnings:
        kind = str(warning["kind"])
        if kind in _DOUBTED and kind not in said:
            said.add(kind)
            yield Doubt(kind, "doubt", str(warning["message"]), str(warning["hint"]))
    doctor = stored.document("doctor.json") or {}
    for finding in doctor.get("findings", ()):
        if finding["verdict"] == "bad":
            name = str(finding["id"]).replace("_", " ")
            yield Doubt(
                f"doctor_{finding['id']}",
                "doubt",
                f"Doctor, {name}: {finding['seen']}.",
                str(finding["mend"]),
            )


def energy_joules(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the energy of whole processors in the measured phase; None if not known."""
    packages = [
        growth for growth in counters_of(stored, "energy") if "/" not in growth.key["domain"]
    ]
    total = [package.total("energy_uj", *numbers.span_ns) for package in packages]
    known = [value for value in total if not np.isnan(value)]
    return sum(known) / 1e6 if known else None


def _slowest(times: Mapping[str, Any]) -> str:
    """Return the p95 of durations, or the longest one where they are too few for a p95."""
    if times["count"] >= _P95_COUNT_MIN:
        return f"p95 {milliseconds(times['p95_ns'] / 1e6)}"
    return f"longest of {times['count']}: {milliseconds(times['max_ns'] / 1e6)}"


def _facts(
    server: Mapping[str, Any], energy: float | None, completed: int
) -> Iterator[tuple[str, str]]:
    trips = server.get("round_trips") or {}
    for moment in ("before", "after"):
        seen = trips.get(moment) or {}
        parts = [
            f"{words} {milliseconds(times['p50_ns'] / 1e6)} ({_slowest(times)})"
            for words, times in (
                ("connect", seen.get("connect")),
                ("SELECT 1:", seen.get("statement")),
            )
            if times
        ]
        if parts:
            yield f"round trip {moment} the run", ", ".join(parts)
    clock = server.get("host_clock")
    if clock:
        yield (
            f"clock of host {clock['host']}",
            f"{_ahead(clock)}; samples are converted to pgdyno's clock",
        )
    clock = (trips.get("before") or {}).get("clock")
    if clock:
        yield "clock of the server", _ahead(clock)
    if energy is not None and completed:
        yield "energy", f"{energy / completed:.3g} J per transaction ({energy:,.0f} J, processors)"
    for name, disk in (server.get("disks") or {}).items():
        if "unknown" in disk:
            yield f"disk {name}", str(disk["unknown"])
            continue
        after = disk["after"]
        parts = [
            f"{label} {after[key]}{unit}"
            for label, key, unit in (
                ("used", "used_percent", " %"),
                ("temperature", "temperature_celsius", " °C"),
                ("media errors", "media_errors", ""),
            )
            if after.get(key) is not None
        ]
        yield f"disk {name}", ", ".join(parts)


def _ahead(clock: Mapping[str, Any]) -> str:
    ahead_ms, sure_ms = clock["ahead_ns"] / 1e6, clock["uncertainty_ns"] / 1e6
    word = "ahead" if ahead_ms >= 0 else "behind"
    return f"{milliseconds(abs(ahead_ms))} {word} (± {milliseconds(sure_ms)})"


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{value}'"
