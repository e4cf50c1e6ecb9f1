"""JSON documents of results: stable keys, every number with its unit and interval.

The documents of `bench` and `sweep` are made here, and the parts that other verbs share with them.
A value that does not apply or was not measured is null. Keys of some parts are absent instead.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pgdyno.analysis.capacity import Capacity
from pgdyno.analysis.findings import (
    CurveFindings,
    ExperimentFindings,
    RunFindings,
    TelemetryFindings,
)
from pgdyno.analysis.script_findings import Latency, ScriptFindings
from pgdyno.analysis.speed_up import SpeedUp
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_types import TypeTime
from pgdyno.report.blocks import keys_of
from pgdyno.report.own import own_of_cells, own_shown, sections_by_features

Document = dict[str, Any]


def document_with(findings: ExperimentFindings, body: Document) -> Document:
    """Return the document of one experiment: `pgdyno.bench/1`, `pgdyno.compare/1` and so on.

    Args: body, the keys that only this kind of answer has.
    """
    cells = own_of_cells(findings)
    doubts = [*findings.doubts, *(findings.run.doubts if findings.run is not None else ())]
    return {
        "format": f"pgdyno.{findings.kind}/1",
        "number": findings.number,
        "name": findings.name,
        "pgdyno_version": findings.version,
        "started_utc": findings.started_utc,
        "seconds": findings.seconds,
        "sentence": findings.sentence,
        "target": findings.facts.target,
        "durability": {"text": findings.facts.durability, "is_durable": findings.facts.is_durable},
        "facts": dict(findings.facts.rows),
        "is_complete": findings.is_complete,
        "runs": findings.runs_total,
        "runs_valid": findings.runs_valid,
        **_repeated(findings),
        **body,
        **({} if cells is None else keys_of(cells.blocks)),
        "notes": list(findings.remarks),
        "warnings": [asdict(doubt) for doubt in doubts],
    }


def _repeated(findings: ExperimentFindings) -> Document:
    """Return the runs that were repeated, if there are any."""
    runs = [asdict(run) for run in findings.repeated]
    return {"repeated": runs} if runs else {}


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
        "clients": run.clients,
        "offered_tps": None if run.open_loop is None else run.open_loop.offered_tps,
        "duration_seconds": run.timeline.duration_s,
        "tps": run.tps.to_json(),
        "transactions": run.counts.transactions,
        "transactions_committed_all_phases": run.counts.committed_all_phases,
        "failures": run.counts.failures,
        "retried": run.counts.retried,
        "latency_ms": latency_document(run.latency),
        "energy_joules_per_transaction": run.timeline.telemetry.energy_joules_per_transaction,
        "telemetry": telemetry_document(run.timeline.telemetry),
        "where_the_time_goes": where_document(run.where),
        "where_the_time_goes_not_computed_because": run.where_not or None,
        "scripts": [_script(script) for script in run.scripts],
        "client_cpu_seconds": run.counts.engine_cpu_s,
        "valid": run.is_valid,
        "connections": None if run.connections is None else asdict(run.connections),
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
            document["phases"] = [asdict(phase) for phase in run.open_loop.phases]
    if run.late is not None:
        document["over_latency_limit"] = {
            "limit_ms": run.late.limit_ms,
            "transactions": run.late.late_count,
            "of": run.late.total_count,
            "share": run.late.share.to_json(),
        }
    return document


def latency_document(latency: Latency) -> Document:
    """Return mean, percentiles and maximum of a latency in ms."""
    percentiles = {name: value.to_json() for name, value in latency.percentiles.items()}
    return {"mean": latency.mean.to_json(), **percentiles, "max": latency.max_ms}


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
            {
                "name": part.name,
                "ms": part.ms.value,
                "low": part.ms.low,
                "high": part.ms.high,
                "how": part.how,
            }
            for part in where.parts
        ],
        "residual_ms": where.residual_ms,
        "residual_ratio": where.residual_ratio,
        "residual_low": None if where.residual is None else where.residual.low,
        "residual_high": None if where.residual is None else where.residual.high,
        "server_ms": where.server_ms,
        "server_how": where.server_how,
        "server_uncounted_ms": where.uncounted_ms,
        "sampled_server_ms": where.sampled_server_ms,
        "others_ratio": where.others_ratio,
        "while_busy": [
            {"wait_event": event, "share_ratio": share} for event, share in where.while_busy
        ],
        "scheduled": None if where.scheduled is None else asdict(where.scheduled),
        "parallel_workers": None
        if where.workers is None
        else {**asdict(where.workers), "waits": dict(where.workers.waits)},
        "planning_ms": where.planning_ms,
        "compiling_ms": where.compiling_ms,
        **_nodes(where),
        "statements": [
            {
                "script": statement.script or None,
                "line": statement.line or None,
                "text": statement.text,
                "ms": statement.ms.value,
                "low": statement.ms.low,
                "high": statement.ms.high,
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
        "nodes": [{**asdict(node), "waits": dict(node.waits)} for node in where.nodes],
        "several_shards_ratio": where.several_shards_ratio,
    }


def _type_time(kind: TypeTime) -> Document:
    """Return the parts of the time of one transaction type; they sum to `held_ms`."""
    parts = {
        name: {"ms": ms.value, "low": ms.low, "high": ms.high}
        for name, ms in (
            ("core", kind.core),
            ("wait_events", kind.waits),
            ("network", kind.network),
            ("engine", kind.engine),
            ("not_explained", kind.residual),
        )
    }
    return {
        "name": kind.name,
        "is_background": kind.is_background,
        "count": kind.count,
        "held_ms": kind.held.value,
        "parts": parts,
        "events": dict(kind.events),
    }


def _script(script: ScriptFindings) -> Document:
    return {
        "name": script.name,
        "weight": script.weight,
        "transactions": script.transactions,
        "failures": script.failures,
        "tps": script.tps.to_json(),
        "latency_ms": latency_document(script.latency),
        "statements": [asdict(statement) for statement in script.statements],
    }


def _curve(findings: CurveFindings) -> Document:
    curve = findings.curve
    return {
        "script": findings.script,
        "levels": [
            {
                "clients": level.clients,
                "tps": level.tps.to_json(),
                **_rate(findings, level.clients),
                "latency_ms": {
                    name: value.scaled(1e-6, "ms").to_json()
                    for name, value in level.latency.items()
                },
                "runs_tps": list(level.runs_tps),
            }
            for level in curve.levels
        ],
        "peak": {
            "clients": curve.peak.clients,
            "tps": curve.peak.tps.to_json(),
            **_rate(findings, curve.peak.clients),
            "is_at_edge": curve.peak.is_at_edge,
        },
        "knee": {
            "clients": curve.knee.clients,
            "tps": curve.knee.tps.to_json(),
            **_rate(findings, curve.knee.clients),
            "tolerance_ratio": curve.knee.tolerance_ratio,
            "candidates": [asdict(candidate) for candidate in curve.knee.candidates],
        },
        "beyond": None
        if curve.degradation is None
        else {
            "clients": curve.degradation.clients,
            "change": curve.degradation.change.to_json(),
        },
        "limit": findings.limit,
        "variant": findings.variant or None,
        "capacity": None if findings.capacity is None else _capacity(findings.capacity),
        "cost": None if findings.cost is None else findings.cost.to_json(),
        "speed_up": None if findings.speed_up is None else _speed_up(findings.speed_up),
    }


def _rate(findings: CurveFindings, clients: int) -> Document:
    """Return New-Orders a minute at a level, or nothing if the load is not TPC-C-like."""
    rates = findings.rates
    return {findings.rate_name: rates[clients].to_json()} if rates else {}


def _capacity(capacity: Capacity) -> Document:
    unit = capacity.load.unit
    return {
        unit: capacity.load.to_json(),
        "end": capacity.end,
        "rule": capacity.rule,
        "failed_by": capacity.failed_by or None,
        f"confirmed_{unit}": capacity.confirmed_count,
        "trials": [
            {
                f"offered_{unit}": trial.offered_count,
                "achieved_ratio": trial.achieved_ratio,
                "latency_ms": trial.latency_ms,
            }
            for trial in capacity.trials
        ],
    }


def _speed_up(speed_up: SpeedUp) -> Document:
    return {
        "levels": [
            {"clients": level.clients, "ratio": level.ratio.to_json()} for level in speed_up.levels
        ],
        "mean": speed_up.mean.to_json(),
        "maximum": speed_up.maximum.to_json(),
        "maximum_clients": speed_up.maximum_clients,
        "knee_clients": speed_up.knee_clients,
    }
