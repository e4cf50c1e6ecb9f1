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
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.scaling_out import ScalingOut
from pgdyno.analysis.where_difference import Difference
from pgdyno.report.documents import picked, plain, where_document

Document = dict[str, Any]


def compare_body(findings: ExperimentFindings) -> Document:
    """Return the additional keys of `pgdyno.compare/1`: variants, contrasts, effects, steps."""
    compared = findings.compare
    assert compared is not None, "only an experiment with variants has this document"
    contrasts = {contrast.variant: contrast for contrast in compared.contrasts}
    return {
        **picked(compared, "metric", "unit", "reference", "rounds", "stopped_by"),
        "variants": [
            _variant(variant, contrasts.get(variant.name))
            | {"devices": _devices(compared.devices, variant.name)}
            for variant in compared.variants
        ],
        "devices_not_measured": list(compared.devices.not_measured) if compared.devices else [],
        "effects": [_effect(effect) for effect in compared.effects],
        "steps": [_contrast(step) for step in compared.steps],
        **picked(compared, "confounds", "state"),
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
        **picked(variant, "runs", "runs_valid", "holds_rate", weakened_durability="weakened"),
        "losses": [loss.as_document() for loss in variant.losses],
        **picked(variant, "cost", "metrics"),
        "served": None if variant.served is None else _served(variant.served),
        "where_the_time_goes": where_document(variant.where),
    }
    return document | (_contrast(contrast) if contrast is not None else {})


def _served(served: VariantMeans) -> Document:
    return picked(
        served,
        "clients",
        latency_max_ms="maximum",
        round_trip_ms="round_trip",
        completed_by_client_min="completed_min",
        completed_by_client_max="completed_max",
        gini="gini",
        failed="failed",
        server_sessions_max="session_count_max",
        pooler_cpu_ms="pooler_cpu",
        server_and_pooler_cpu_ms="whole_cpu",
    )


def _scaling_out(scaling: ScalingOut | None) -> Document:
    """Return the key of servers with different numbers of workers; nothing for all others."""
    if scaling is None:
        return {}
    return {
        "scaling_out": {
            "variants": [
                {
                    **picked(of, name="variant", workers="worker_count"),
                    **picked(of, "speed_up", "efficiency"),
                }
                for of in scaling.variants
            ],
            "law": None
            if scaling.law is None
            else picked(scaling.law, one_worker="gamma", contention="alpha", coherency="beta"),
        }
    }


def _devices(devices: DeviceFindings | None, name: str) -> Document | None:
    """Return the disks of a variant and each quantity; None without telemetry of its runs."""
    own = [variant for variant in devices.variants if variant.name == name] if devices else []
    if not own:
        return None
    places = {f"{place}_disk": own[0].places.get(place) for place in PLACES}
    return {**places, **plain(own[0].means)}


def _contrast(contrast: ContrastFindings) -> Document:
    ratios = {name: plain(compared.ratio) for name, compared in contrast.comparisons.items()}
    noise = dict.fromkeys(contrast.of_noise)
    return {
        **picked(contrast, name="variant", against="reference", verdict="deciding.verdict"),
        **picked(contrast, "sentence", "is_settled"),
        **picked(contrast.deciding, level="level_ratio", margin="margin_ratio"),
        "tps_ratio": ratios.get("tps"),
        "latency_p99_ratio": ratios.get("p99"),
        "ratios": ratios | noise,
        "ratios_not_computed_because": dict.fromkeys(noise, OF_NOISE),
        "seconds_left": None if contrast.left_ns is None else contrast.left_ns / 1e9,
        "pairs": [
            picked(pair, "round", reference="reference_value", variant="variant_value")
            for pair in contrast.pairs
        ],
        "because": contrast.because or None,
        "where_the_difference_lies": _difference(contrast.difference),
        "where_the_difference_lies_not_computed_because": contrast.why_not_split or None,
        "plans_changed": [
            picked(change, "script", "line", statement="text", was="was", became="became")
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
                **picked(change, "script", "line", statement="text", calls="calls"),
                **picked(change.comparison, "verdict", time_ratio="ratio", level="level_ratio"),
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
            picked(part, "name", ms="ms.value", low="ms.low", high="ms.high")
            for part in difference.parts
        ],
        "residual_ms": difference.residual_ms,
    }


def _effect(effect: Effect) -> Document:
    return picked(
        effect,
        "name",
        "terms",
        "ratio",
        p_value="p_value_ratio",
        p_adjusted="p_adjusted_ratio",
        aliased_with="aliased_with",
    )
