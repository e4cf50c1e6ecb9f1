"""The JSON document of an experiment with variants: every estimate with its unit and interval."""

from __future__ import annotations

from typing import Any

from pgdyno.analysis.compare_findings import (
    OF_NOISE,
    CompareFindings,
    ContrastFindings,
    VariantFindings,
    VariantMeans,
)
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.devices import PLACES, DeviceFindings
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.scaling_out import ScalingOut
from pgdyno.analysis.where_difference import Difference
from pgdyno.report.documents import where_document

Document = dict[str, Any]


def compare_body(findings: ExperimentFindings) -> Document:
    """Return the additional keys of `pgdyno.compare/1`: variants, contrasts, effects, steps."""
    compared = findings.compare
    assert compared is not None, "only an experiment with variants has this document"
    contrasts = {contrast.variant: contrast for contrast in compared.contrasts}
    return {
        "metric": compared.metric,
        "unit": compared.unit,
        "reference": compared.reference,
        "rounds": compared.rounds,
        "stopped_by": compared.stopped_by,
        "variants": [
            _variant(variant, contrasts.get(variant.name))
            | {"devices": _devices(compared.devices, variant.name)}
            for variant in compared.variants
        ],
        "devices_not_measured": list(compared.devices.not_measured) if compared.devices else [],
        "effects": [_effect(effect) for effect in compared.effects],
        "steps": [_contrast(step) for step in compared.steps],
        "confounds": list(compared.confounds),
        "state": list(compared.state),
        **_scaling_out(compared.scaling_out),
    }


def proof_body(compared: CompareFindings) -> Document:
    """Return the keys of a document with the runs of a proof.

    Each contrast compares the proved settings with other settings, so contrasts are a list.
    """
    return {
        "variants": [_variant(variant, None) for variant in compared.variants],
        "contrasts": [_contrast(contrast) for contrast in compared.contrasts],
    }


def _variant(variant: VariantFindings, contrast: ContrastFindings | None) -> Document:
    document: Document = {
        "name": variant.name,
        "changes": dict(variant.changes),
        "target": variant.target,
        "cannot_start": variant.cannot_start or None,
        "runs": variant.runs,
        "runs_valid": variant.runs_valid,
        "holds_rate": variant.holds_rate,
        "weakened_durability": list(variant.weakened),
        "losses": [loss.as_document() for loss in variant.losses],
        "cost": _json(variant.cost),
        "metrics": {name: estimate.to_json() for name, estimate in variant.metrics.items()},
        "served": None if variant.served is None else _served(variant.served),
        "where_the_time_goes": where_document(variant.where),
    }
    return document | (_contrast(contrast) if contrast is not None else {})


def _served(served: VariantMeans) -> Document:
    return {
        "clients": served.clients,
        "latency_max_ms": served.maximum.to_json(),
        "round_trip_ms": _json(served.round_trip),
        "completed_by_client_min": _json(served.completed_min),
        "completed_by_client_max": _json(served.completed_max),
        "gini": _json(served.gini),
        "failed": served.failed.to_json(),
        "server_sessions_max": served.session_count_max,
        "pooler_cpu_ms": _json(served.pooler_cpu),
        "server_and_pooler_cpu_ms": _json(served.whole_cpu),
    }


def _scaling_out(scaling: ScalingOut | None) -> Document:
    """Return the key of servers with different numbers of workers; nothing for all others."""
    if scaling is None:
        return {}

    law = scaling.law
    return {
        "scaling_out": {
            "variants": [
                {
                    "name": of.variant,
                    "workers": of.worker_count,
                    "speed_up": _json(of.speed_up),
                    "efficiency": _json(of.efficiency),
                }
                for of in scaling.variants
            ],
            "law": None
            if law is None
            else {
                "one_worker": law.gamma.to_json(),
                "contention": law.alpha.to_json(),
                "coherency": law.beta.to_json(),
            },
        }
    }


def _devices(devices: DeviceFindings | None, name: str) -> Document | None:
    """Return the disks of a variant and each quantity; None without telemetry of its runs."""
    own = [variant for variant in devices.variants if variant.name == name] if devices else []
    if not own:
        return None
    places = {f"{place}_disk": own[0].places.get(place) for place in PLACES}
    return places | {key: mean.to_json() for key, mean in own[0].means.items()}


def _contrast(contrast: ContrastFindings) -> Document:
    ratios = {name: comparison.ratio.to_json() for name, comparison in contrast.comparisons.items()}
    noise = dict.fromkeys(contrast.of_noise)
    return {
        "name": contrast.variant,
        "against": contrast.reference,
        "verdict": contrast.deciding.verdict,
        "sentence": contrast.sentence,
        "is_settled": contrast.is_settled,
        "level": contrast.deciding.level_ratio,
        "margin": contrast.deciding.margin_ratio,
        "tps_ratio": ratios.get("tps"),
        "latency_p99_ratio": ratios.get("p99"),
        "ratios": ratios | noise,
        "ratios_not_computed_because": dict.fromkeys(noise, OF_NOISE),
        "seconds_left": None if contrast.left_ns is None else contrast.left_ns / 1e9,
        "pairs": [
            {"round": pair.round, "reference": pair.reference_value, "variant": pair.variant_value}
            for pair in contrast.pairs
        ],
        "because": contrast.because or None,
        "where_the_difference_lies": _difference(contrast.difference),
        "where_the_difference_lies_not_computed_because": contrast.why_not_split or None,
        "plans_changed": [
            {
                "script": change.script,
                "line": change.line,
                "statement": change.text,
                "was": change.was,
                "became": change.became,
            }
            for change in contrast.plan_changes
        ],
        **_statements(contrast),
    }


def _statements(contrast: ContrastFindings) -> Document:
    if not contrast.statements:
        return {}
    return {
        "statements": [
            {
                "script": change.script,
                "line": change.line,
                "statement": change.text,
                "calls": change.calls,
                "verdict": change.comparison.verdict,
                "time_ratio": change.comparison.ratio.to_json(),
                "level": change.comparison.level_ratio,
                "plan_was": change.plan_was or None,
                "plan_became": change.plan_became or None,
            }
            for change in contrast.statements
        ]
    }


def _difference(difference: Difference | None) -> Document | None:
    if difference is None:
        return None
    return {
        "latency_ms": difference.latency_ms.value,
        "parts": [
            {"name": part.name, "ms": part.ms.value, "low": part.ms.low, "high": part.ms.high}
            for part in difference.parts
        ],
        "residual_ms": difference.residual_ms,
    }


def _effect(effect: Effect) -> Document:
    return {
        "name": effect.name,
        "terms": [list(term) for term in effect.terms],
        "ratio": effect.ratio.to_json(),
        "p_value": effect.p_value_ratio,
        "p_adjusted": effect.p_adjusted_ratio,
        "aliased_with": list(effect.aliased_with),
    }


def _json(estimate: Estimate | None) -> Document | None:
    return None if estimate is None else estimate.to_json()
