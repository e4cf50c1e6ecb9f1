"""From one stored run to what its telemetry says: facts, tables, doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgdyno.analysis.telemetry import FactTable, TelemetryFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.catalogue import COLLECTORS
from pgdyno.observe.rates import Deltas, deltas
from pgdyno.store.stored_run import StoredRun

_COLUMNS = {collector.name: collector.columns for collector in COLLECTORS}
_ROWS_MAX = 15
# What the observer said that the reader of any number must know.
_DOUBTED = frozenset(
    {
        "observer_lost_server",
        "observer_lost_host",
        "observer_lost_pooler",
        "observer_behind_pooler",
        "observer_without_pg_monitor",
        "host_not_observed",
        "pooler_not_observed",
        "host_file_not_read",
    }
)


def telemetry_findings(stored: StoredRun, numbers: LoadNumbers) -> TelemetryFindings:
    """Return facts and tables of a run, of its files alone."""
    server = stored.document("server.json") or {}
    doctor = stored.document("doctor.json") or {}
    energy = energy_joules(stored, numbers)
    completed = numbers.counts.completed
    makers = (_tables, _statements, _processes, _log)
    missing = [one for one in stored.warnings if one["kind"] == "not_measurable"]
    return TelemetryFindings(
        facts=tuple(_facts(server, energy, completed)),
        tables=tuple(found for make in makers if (found := make(stored, numbers)) is not None),
        examined=tuple(doctor.get("findings", ())),
        not_measured=tuple(dict.fromkeys(str(one["message"]) for one in missing)),
        energy_joules_per_transaction=energy / completed if energy and completed else None,
    )


def telemetry_doubts(stored: StoredRun) -> Iterator[Doubt]:
    """Yield what telemetry and the doctor say against a run."""
    server = stored.document("server.json") or {}
    for one in server.get("settings_changed") or ():
        of = f" of {one['of']}" if one["of"] else ""
        yield Doubt(
            f"setting_changed_{one['name']}",
            "doubt",
            f"{one['name']}{of} was {_shown(one['before'])} before the run and"
            f" {_shown(one['after'])} after it.",
            "measure again, and let nobody change settings meanwhile",
        )
    for name, disk in (server.get("disks") or {}).items():
        if disk.get("slowed_by_heat"):
            yield Doubt(
                "disk_too_warm",
                "doubt",
                f"{name} was too warm during the run, or slowed itself for heat.",
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
    """Return the energy of whole processors in the measured phase; None where it is not known."""
    packages = [one for one in _deltas(stored, "energy") if "/" not in one.key["domain"]]
    total = [one.total("energy_uj", *numbers.span_ns) for one in packages]
    known = [value for value in total if not np.isnan(value)]
    return sum(known) / 1e6 if known else None


def _facts(
    server: Mapping[str, Any], energy: float | None, completed: int
) -> Iterator[tuple[str, str]]:
    trips = server.get("round_trips") or {}
    for moment in ("before", "after"):
        seen = trips.get(moment) or {}
        parts = [
            f"{words} {times['p50_ns'] / 1e6:.3g} ms (p95 {times['p95_ns'] / 1e6:.3g})"
            for words, times in (
                ("connect", seen.get("connect")),
                ("SELECT 1", seen.get("statement")),
            )
            if times
        ]
        if parts:
            yield f"round trip {moment} the run", ", ".join(parts)
    clock = server.get("host_clock")
    if clock:
        yield f"clock of host {clock['host']}", f"{_ahead(clock)}; samples are on our clock"
    clock = (trips.get("before") or {}).get("clock")
    if clock:
        yield "clock of the server", _ahead(clock)
    if energy is not None and completed:
        yield "energy", f"{energy / completed:.3g} J a transaction ({energy:,.0f} J, processors)"
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
    return f"{abs(ahead_ms):.3g} ms {word} (± {sure_ms:.2g} ms)"


def _tables(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    """Return the busiest tables, their growth in the measured phase."""
    names = ("seq_scans", "index_scans", "rows_inserted", "rows_updated", "rows_hot_updated",
             "rows_deleted", "heap_blks_read", "heap_blks_hit", "vacuums")  # fmt: skip
    found = _grown(stored, numbers, "tables", names)
    rows = [(f"{key['schema']}.{key['table']}", *map(_count, grown)) for key, grown in found]
    columns = ("table", "seq. scans", "index scans", "inserted", "updated", "HOT", "deleted",
               "blocks read", "blocks hit", "vacuums")  # fmt: skip
    return _table("tables", "Tables", columns, rows)


def _statements(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    names = ("calls", "exec_time_ns", "rows", "shared_blks_hit", "shared_blks_read",
             "temp_blks_written", "wal_bytes")  # fmt: skip
    found = _grown(stored, numbers, "statements", names)
    rows = []
    for key, (calls, exec_ns, *rest) in sorted(found, key=lambda one: -one[1][1]):
        each = f"{exec_ns / calls / 1e6:.3g}" if calls else ""
        name = f"{key['database']} {key['query_id']}"
        rows.append((name, _count(calls), f"{exec_ns / 1e9:,.3g}", each, *map(_count, rest)))
    columns = ("database, query id", "calls", "s", "ms a call", "rows", "blocks hit",
               "blocks read", "temporary blocks", "WAL bytes")  # fmt: skip
    return _table("pg_stat_statements", "Statements of the server", columns, rows)


def _processes(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    names = ("run_ns", "cpu_user_ns", "cpu_system_ns", "wait_ns")
    found = _grown(stored, numbers, "backends", names)
    rows = [
        (key["backend_type"], *(f"{value / 1e9:,.3g}" for value in grown)) for key, grown in found
    ]
    columns = ("process", "CPU s", "user s", "system s", "waiting for a core s")
    return _table("processes", "Processes of the server", columns, rows)


def _log(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    """Return how often what was logged in the measured phase."""
    arrays = stored.telemetry("log")
    if arrays is None:
        return None
    began_ns, ended_ns = numbers.span_ns
    counted: Counter[tuple[str, str]] = Counter()
    longest: dict[tuple[str, str], float] = {}
    rows = zip(
        arrays["happened_ns"], arrays["kind"], arrays["sqlstate"], arrays["duration_ns"],
        strict=True,
    )  # fmt: skip
    for happened_ns, kind, sqlstate, duration_ns in rows:
        if began_ns <= happened_ns <= ended_ns:
            counted[str(kind), str(sqlstate)] += 1
            if not np.isnan(duration_ns):
                key = str(kind), str(sqlstate)
                longest[key] = max(longest.get(key, 0.0), float(duration_ns))
    shown = [
        (" ".join(key).strip().replace("_", " "), str(count),
         f"{longest[key] / 1e6:,.3g}" if key in longest else "")
        for key, count in counted.most_common()
    ]  # fmt: skip
    return _table("log", "The server's log", ("event", "times", "longest ms"), shown)


def _grown(
    stored: StoredRun, numbers: LoadNumbers, collector: str, names: tuple[str, ...]
) -> list[tuple[Mapping[str, str], list[float]]]:
    """Return by key what counters grew by near the measured phase, those that did not left out.

    Slow collectors rarely sample just when a phase begins: every interval that overlaps counts.
    """
    found = []
    for one in _deltas(stored, collector):
        inside = (one.time_ns > numbers.began_ns) & (
            one.time_ns - one.interval_ns < numbers.ended_ns
        )
        grown = [float(np.nansum(one.by_column[name][inside])) for name in names]
        if any(grown):
            found.append((one.key, grown))
    return sorted(found, key=lambda pair: -sum(pair[1]))


def _deltas(stored: StoredRun, name: str) -> list[Deltas]:
    arrays = stored.telemetry(name)
    return [] if arrays is None else [d for d in deltas(arrays, _COLUMNS[name]) if d.time_ns.size]


def _table(
    key: str, title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> FactTable | None:
    if not rows:
        return None
    left = len(rows) - _ROWS_MAX
    note = f"and {left} more" if left > 0 else ""
    return FactTable(key, title, columns, tuple(rows[:_ROWS_MAX]), note)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{value}'"
