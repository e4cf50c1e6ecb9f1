"""JSON documents of the verbs: stable keys, every number with its unit and interval."""

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
from pgdyno.analysis.tpcc import TpccFindings, TypeFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.report.hazel_document import hazel_document

Document = dict[str, Any]


def document_with(findings: ExperimentFindings, body: Document) -> Document:
    """Return the document of one experiment: `pgdyno.bench/1`, `pgdyno.compare/1` and so on.

    Args: body, what only this kind of answer has.
    """
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
        **body,
        "warnings": [_warning(doubt) for doubt in doubts],
    }


def run_body(findings: ExperimentFindings) -> Document:
    """Return what `pgdyno.bench/1` adds: the one run."""
    return _run(findings.run) if findings.run is not None else {}


def sweep_body(findings: ExperimentFindings) -> Document:
    """Return what `pgdyno.sweep/1` adds: the curves, and the run at the knee."""
    return {
        "curves": [_curve(curve) for curve in findings.curves],
        "at_the_knee": _run(findings.run) if findings.run is not None else None,
    }


def _run(run: RunFindings) -> Document:
    return {
        "loop": run.loop,
        "clients": run.clients,
        "offered_tps": run.offered_tps,
        "duration_seconds": run.duration_s,
        "tps": run.tps.to_json(),
        "transactions": run.transactions,
        "transactions_committed_all_phases": run.transactions_committed_all_phases,
        "failures": run.failures,
        "retried": run.retried,
        "latency_ms": _latency(run.latency),
        "energy_joules_per_transaction": run.telemetry.energy_joules_per_transaction,
        "telemetry": telemetry_document(run.telemetry),
        "where_the_time_goes": where_document(run.where),
        "where_the_time_goes_not_computed_because": run.where_not or None,
        "scripts": [_script(script) for script in run.scripts],
        "client_cpu_seconds": run.client_cpu_s,
        "valid": run.is_valid,
        "connections": None if run.connections is None else asdict(run.connections),
        **_offered(run),
        **({} if run.tpcc is None else tpcc_document(run.tpcc)),
    }


def tpcc_document(found: TpccFindings) -> Document:
    """Return what a TPC-C-like run has: NOPM, its types, what was drawn, the check of the data."""
    check = found.check
    return {
        "nopm": found.nopm.to_json(),
        "tpm": found.tpm.to_json(),
        "warehouses": found.warehouses,
        "think_ratio": found.think_ratio,
        "options": dict(found.options),
        "nopm_of_maximum": None if found.of_maximum is None else found.of_maximum.to_json(),
        "types": [_type(one) for one in found.types],
        "drawn": [
            {
                "name": one.name,
                "specified": one.expected_ratio,
                "measured": one.share.to_json(),
                "count": one.count,
                "of": one.of_count,
                "differs": one.is_off,
            }
            for one in found.shares
        ],
        "delivered_orders": found.delivered_order_count,
        "skipped_districts": found.skipped_district_count,
        "check": None
        if check is None
        else {
            "violations": {
                str(one.number): sum(one.violations.values()) for one in check.conditions
            },
            "warehouses": {str(one.number): sorted(one.violations) for one in check.violated},
            "seconds": check.duration_s,
            "not_checked_because": check.why_not or None,
        },
    }


def _type(one: TypeFindings) -> Document:
    return {
        "name": one.name,
        "count": one.count,
        "rolled_back": one.rolled_back_count,
        "failures": dict(one.failures),
        "retries": one.retry_count,
        "share": None if one.share is None else one.share.value,
        "share_minimum": one.minimum_ratio,
        "mix": one.mix,
        "latency_ms": _latency(one.latency),
        "p90_limit_ms": one.limit_s * 1e3,
        "p90": one.limit,
    }


def _offered(run: RunFindings) -> Document:
    """Return what only an open loop or a latency limit has."""
    document: Document = {}
    if run.backlog_at_end_count is not None:
        document["backlog_at_end_count"] = run.backlog_at_end_count
    if run.phases:
        document["phases"] = [asdict(phase) for phase in run.phases]
    if run.late is not None:
        document["over_latency_limit"] = {
            "limit_ms": run.late.limit_ms,
            "transactions": run.late.late_count,
            "of": run.late.total_count,
            "share": run.late.share.to_json(),
        }
    return document


def _latency(latency: Latency) -> Document:
    percentiles = {name: value.to_json() for name, value in latency.percentiles.items()}
    return {"mean": latency.mean.to_json(), **percentiles, "max": latency.max_ms}


def telemetry_document(telemetry: TelemetryFindings) -> Document:
    """Return facts, tables and what is missing, as texts."""
    return {
        "facts": dict(telemetry.facts),
        "tables": {
            table.key: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in telemetry.tables
        },
        "not_measured": list(telemetry.not_measured),
        "doctor": [dict(one) for one in telemetry.examined],
    }


def where_document(where: WhereTheTimeGoes | None) -> Document | None:
    """Return the parts of the latency in ms; with the residual they sum to it."""
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
        "sampled_server_ms": where.sampled_server_ms,
        "others_ratio": where.others_ratio,
        "scheduled": None if where.scheduled is None else asdict(where.scheduled),
        "statements": [
            {
                "script": one.script or None,
                "line": one.line or None,
                "text": one.text,
                "ms": one.ms.value,
                "low": one.ms.low,
                "high": one.ms.high,
                "events": dict(one.events),
            }
            for one in where.statements
        ],
    }


def _script(script: ScriptFindings) -> Document:
    return {
        "name": script.name,
        "weight": script.weight,
        "transactions": script.transactions,
        "failures": script.failures,
        "tps": script.tps.to_json(),
        "latency_ms": _latency(script.latency),
        "statements": [
            {
                "line": statement.line,
                "text": statement.text,
                "calls": statement.calls,
                "mean_ms": statement.mean_ms,
                "p50_ms": statement.p50_ms,
                "p99_ms": statement.p99_ms,
                "share_ratio": statement.share_ratio,
            }
            for statement in script.statements
        ],
    }


def _curve(found: CurveFindings) -> Document:
    curve = found.curve
    return {
        "script": found.script,
        "levels": [
            {
                "clients": level.clients,
                "tps": level.tps.to_json(),
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
            "is_at_edge": curve.peak.is_at_edge,
        },
        "knee": {
            "clients": curve.knee.clients,
            "tps": curve.knee.tps.to_json(),
            "tolerance_ratio": curve.knee.tolerance_ratio,
            "candidates": [
                {"clients": one.clients, "probability_ratio": one.probability_ratio}
                for one in curve.knee.candidates
            ],
        },
        "beyond": None
        if curve.degradation is None
        else {
            "clients": curve.degradation.clients,
            "change": curve.degradation.change.to_json(),
        },
        "limit": found.limit,
        "variant": found.variant or None,
        "pg_hazel": hazel_document(found.hazel),
        "capacity": None if found.capacity is None else _capacity(found.capacity),
        "cost": None if found.cost is None else found.cost.to_json(),
        "speed_up": None if found.speed_up is None else _speed_up(found.speed_up),
    }


def _capacity(found: Capacity) -> Document:
    return {
        "tps": found.tps.to_json(),
        "end": found.end,
        "rule": found.rule,
        "failed_by": found.failed_by or None,
        "confirmed_tps": found.confirmed_tps,
        "trials": [
            {
                "offered_tps": one.offered_tps,
                "achieved_ratio": one.achieved_ratio,
                "latency_ms": one.latency_ms,
            }
            for one in found.trials
        ],
    }


def _speed_up(found: SpeedUp) -> Document:
    return {
        "levels": [
            {"clients": level.clients, "ratio": level.ratio.to_json()} for level in found.levels
        ],
        "mean": found.mean.to_json(),
        "maximum": found.maximum.to_json(),
        "maximum_clients": found.maximum_clients,
        "knee_clients": found.knee_clients,
    }


def _warning(doubt: Doubt) -> Document:
    return {
        "kind": doubt.kind,
        "verdict": doubt.verdict,
        "message": doubt.message,
        "hint": doubt.hint,
    }
