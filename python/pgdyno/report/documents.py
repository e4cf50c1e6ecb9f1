"""JSON documents of results: stable keys, every number with its unit and interval.

The documents of `bench` and `sweep` are made here, and the parts that other verbs share with them.
A value that does not apply or was not measured is null. Keys of some parts are absent instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pgdyno.analysis.capacity import Capacity
from pgdyno.analysis.findings import (
    CurveFindings,
    ExperimentFindings,
    Latency,
    RunFindings,
    ScriptFindings,
    TelemetryFindings,
)
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_types import TypeTime
from pgdyno.report.blocks import keys_of
from pgdyno.report.own import own_of_cells, own_shown, sections_by_features

Document = dict[str, Any]


def picked(source: object, *names: str, **renamed: str) -> Document:
    """Return attributes of an object for a document, under their names or under others.

    A path leads through attributes, of which each may be None. Example: `picked(part, "name",
    low="ms.low")` -> {"name": "core", "low": 0.1}.
    """
    paths = {**dict(zip(names, names, strict=True)), **renamed}
    return {key: plain(_at(source, path)) for key, path in paths.items()}


def _at(source: Any, path: str) -> Any:
    for name in path.split("."):
        source = None if source is None else getattr(source, name)
    return source


def plain(value: Any) -> Any:
    """Return a value as JSON has it: an object with its fields as keys, a tuple as a list."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(held) for key, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, tuple | list) else value


def document_with(findings: ExperimentFindings, body: Document) -> Document:
    """Return the document of one experiment: `pgdyno.bench/1`, `pgdyno.compare/1` and so on.

    Args: body, the keys that only this kind of answer has.
    """
    cells = own_of_cells(findings)
    doubts = [*findings.doubts, *(findings.run.doubts if findings.run is not None else ())]
    return {
        "format": f"pgdyno.{findings.kind}/1",
        **picked(findings, "number", "name", pgdyno_version="version"),
        **picked(findings, "started_utc", "seconds", "sentence", target="facts.target"),
        "durability": picked(findings.facts, text="durability", is_durable="is_durable"),
        "facts": dict(findings.facts.rows),
        **picked(findings, "is_complete", runs="runs_total", runs_valid="runs_valid"),
        **({"repeated": plain(findings.repeated)} if findings.repeated else {}),
        **body,
        **({} if cells is None else keys_of(cells.blocks)),
        "notes": list(findings.remarks),
        "warnings": plain(doubts),
    }


def run_body(findings: ExperimentFindings) -> Document:
    """Return the additional keys of `pgdyno.bench/1`: the run."""
    return _run(findings.run) if findings.run is not None else {}


def sweep_body(findings: ExperimentFindings) -> Document:
    """Return the additional keys of `pgdyno.sweep/1`: the curves, and the run at the knee."""
    return {
        "curves": [_curve(curve) for curve in findings.curves],
        "at_the_knee": _run(findings.run) if findings.run is not None else None,
    }


def _run(run: RunFindings) -> Document:
    own = own_shown(run)
    return {
        "loop": "closed" if run.open_loop is None else "open",
        **picked(run, "clients", offered_tps="open_loop.offered_tps"),
        **picked(run, duration_seconds="timeline.duration_s", tps="tps"),
        **picked(
            run.counts,
            "transactions",
            transactions_committed_all_phases="committed_all_phases",
            failures="failures",
            retried="retried",
        ),
        "latency_ms": latency_document(run.latency),
        "energy_joules_per_transaction": run.timeline.telemetry.energy_joules_per_transaction,
        "telemetry": telemetry_document(run.timeline.telemetry),
        "where_the_time_goes": where_document(run.where),
        "where_the_time_goes_not_computed_because": run.where_not or None,
        "scripts": [_script(script) for script in run.scripts],
        **picked(run, client_cpu_seconds="counts.engine_cpu_s", valid="is_valid"),
        "connections": plain(run.connections),
        **keys_of(tuple(sections_by_features(run))),
        **_offered(run),
        **({} if own is None else keys_of(own.blocks)),
    }


def _offered(run: RunFindings) -> Document:
    """Return the keys of an open loop or a latency limit."""
    document: Document = {}
    if run.open_loop is not None:
        if run.open_loop.backlog_at_end_count is not None:
            document["backlog_at_end_count"] = run.open_loop.backlog_at_end_count
        if run.open_loop.phases:
            document["phases"] = plain(run.open_loop.phases)
    if run.late is not None:
        document["over_latency_limit"] = picked(
            run.late, "limit_ms", transactions="late_count", of="total_count", share="share"
        )
    return document


def latency_document(latency: Latency) -> Document:
    """Return mean, percentiles and maximum of a latency in ms."""
    return {"mean": plain(latency.mean), **plain(latency.percentiles), "max": latency.max_ms}


def telemetry_document(telemetry: TelemetryFindings) -> Document:
    """Return facts, tables, and what was not measured, as texts."""
    return {
        "facts": dict(telemetry.facts),
        "tables": {
            table.key: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in telemetry.tables
        },
        "not_measured": list(telemetry.not_measured),
        "doctor": [dict(finding) for finding in telemetry.examined],
    }


def where_document(where: WhereTheTimeGoes | None) -> Document | None:
    """Return the parts of the latency in ms; parts and residual sum to the latency."""
    if where is None:
        return None
    return {
        "latency_ms": where.latency_ms.value,
        "parts": [
            picked(part, "name", ms="ms.value", low="ms.low", high="ms.high", how="how")
            for part in where.parts
        ],
        **picked(where, "residual_ms", "residual_ratio"),
        **picked(where, residual_low="residual.low", residual_high="residual.high"),
        **picked(where, "server_ms", "server_how", server_uncounted_ms="uncounted_ms"),
        **picked(where, "sampled_server_ms", "others_ratio"),
        "while_busy": [
            {"wait_event": event, "share_ratio": share} for event, share in where.while_busy
        ],
        "scheduled": plain(where.scheduled),
        "parallel_workers": None
        if where.workers is None
        else {**plain(where.workers), "waits": dict(where.workers.waits)},
        **picked(where, "planning_ms", "compiling_ms"),
        **_nodes(where),
        "statements": [
            {
                "script": statement.script or None,
                "line": statement.line or None,
                **picked(statement, "text", ms="ms.value", low="ms.low", high="ms.high"),
                "events": dict(statement.events),
            }
            for statement in where.statements
        ],
        "types": [_type_time(kind) for kind in where.types],
    }


def _nodes(where: WhereTheTimeGoes) -> Document:
    """Return the work of a distributed server's workers; no keys for any other server."""
    if not where.nodes:
        return {}
    return {
        "nodes": [{**plain(node), "waits": dict(node.waits)} for node in where.nodes],
        "several_shards_ratio": where.several_shards_ratio,
    }


def _type_time(kind: TypeTime) -> Document:
    """Return the parts of the time of one transaction type; they sum to `held_ms`."""
    of = {"core": "core", "wait_events": "waits", "network": "network", "engine": "engine"}
    parts = {
        name: picked(getattr(kind, field), ms="value", low="low", high="high")
        for name, field in (of | {"not_explained": "residual"}).items()
    }
    return {
        **picked(kind, "name", "is_background", "count", held_ms="held.value"),
        "parts": parts,
        "events": dict(kind.events),
    }


def _script(script: ScriptFindings) -> Document:
    return {
        **picked(script, "name", "weight", "transactions", "failures", "tps"),
        "latency_ms": latency_document(script.latency),
        "statements": plain(script.statements),
    }


def _curve(findings: CurveFindings) -> Document:
    curve = findings.curve
    return {
        "script": findings.script,
        "levels": [
            {
                **picked(level, "clients", "tps"),
                **_rate(findings, level.clients),
                "latency_ms": {
                    name: plain(value.scaled(1e-6, "ms")) for name, value in level.latency.items()
                },
                "runs_tps": list(level.runs_tps),
            }
            for level in curve.levels
        ],
        "peak": {
            **picked(curve.peak, "clients", "tps"),
            **_rate(findings, curve.peak.clients),
            "is_at_edge": curve.peak.is_at_edge,
        },
        "knee": {
            **picked(curve.knee, "clients", "tps"),
            **_rate(findings, curve.knee.clients),
            **picked(curve.knee, "tolerance_ratio", "candidates"),
        },
        "beyond": plain(curve.degradation),
        "limit": findings.limit,
        "variant": findings.variant or None,
        "capacity": None if findings.capacity is None else _capacity(findings.capacity),
        **picked(findings, "cost", "speed_up"),
    }


def _rate(findings: CurveFindings, clients: int) -> Document:
    """Return New-Orders a minute at a level, or nothing if the load is not TPC-C-like."""
    rates = findings.rates
    return {findings.rate_name: plain(rates[clients])} if rates else {}


def _capacity(capacity: Capacity) -> Document:
    unit = capacity.load.unit
    return {
        unit: plain(capacity.load),
        **picked(capacity, "end", "rule"),
        "failed_by": capacity.failed_by or None,
        f"confirmed_{unit}": capacity.confirmed_count,
        "trials": [
            {
                f"offered_{unit}": trial.offered_count,
                **picked(trial, "achieved_ratio", "latency_ms"),
            }
            for trial in capacity.trials
        ],
    }
