"""`pgdyno diff`: two results side by side, with what speaks against comparing them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings, RunFindings
from pgdyno.cli import options
from pgdyno.errors import SpecError
from pgdyno.loop.answer import answer_of
from pgdyno.report.numbers import estimate_text
from pgdyno.spec.units import duration_text
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

_MANY_SETTINGS = 12


@click.command("diff", short_help="Two results side by side.")
@click.argument("first")
@click.argument("second")
@options.store_option
@options.json_option
def command(first: str, second: str, store: Path | None, json_to: str | None) -> int:
    """Show the detailed runs of two results side by side, and what differs between their servers.

    They were measured at different times, so this is no verdict: `pgdyno compare` gives one.
    """
    kept = Store.default(store)
    folders = kept.find(first), kept.find(second)
    found = answer_of(folders[0]), answer_of(folders[1])
    runs = _run_of(found[0]), _run_of(found[1])
    rows = list(_rows(*runs))
    differing = _differing(*found)
    caveat = _caveat(*folders)
    text = [f"CAVEAT      {caveat}", f"{'':12}#{found[0].number}, #{found[1].number}"]
    text += [f"{name:12}{a} | {b}{change}" for name, a, b, change in rows]
    text += [f"differs     {name}: {a} | {b}" for name, a, b in differing[:_MANY_SETTINGS]]
    if len(differing) > _MANY_SETTINGS:
        text.append(f"            and {len(differing) - _MANY_SETTINGS} more")
    document = {
        "format": "pgdyno.diff/1",
        "numbers": [one.number for one in found],
        "warnings": [{"kind": "different_times", "message": caveat, "hint": "pgdyno compare"}],
        "metrics": {name: [one.to_json() for one in pair] for name, pair in _pairs(*runs)},
        "differs": {name: [a, b] for name, a, b in differing},
    }
    options.write("\n".join(text), json.dumps(document, indent=2, ensure_ascii=False), json_to)
    return 0


def _run_of(found: ExperimentFindings) -> RunFindings:
    if found.run is None:
        raise SpecError(
            f"#{found.number} is a {found.kind} without a run in detail.",
            hint="diff takes results of bench and sweep; show prints this one",
        )
    return found.run


def _pairs(a: RunFindings, b: RunFindings) -> Iterator[tuple[str, tuple[Estimate, Estimate]]]:
    yield "tps", (a.tps, b.tps)
    yield "mean", (a.latency.mean, b.latency.mean)
    for name in a.latency.percentiles.keys() & b.latency.percentiles.keys():
        yield name, (a.latency.percentiles[name], b.latency.percentiles[name])


def _rows(a: RunFindings, b: RunFindings) -> Iterator[tuple[str, str, str, str]]:
    for name, (one, other) in sorted(_pairs(a, b), key=lambda pair: (pair[0] != "tps", pair[0])):
        change = ""
        if one.value > 0:
            change = f" | {(other.value / one.value - 1) * 100:+.1f} %, no interval"
        texts = [estimate_text(estimate, with_unit=True) for estimate in (one, other)]
        yield name, texts[0], texts[1], change
    yield "load", a.label, b.label, ""


def _differing(a: ExperimentFindings, b: ExperimentFindings) -> list[tuple[str, str, str]]:
    """Return facts and settings that are not the same in both."""
    return [
        (name, one.get(name, "-"), other.get(name, "-"))
        for one, other in ((_facts(a), _facts(b)),)
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]


def _facts(found: ExperimentFindings) -> dict[str, Any]:
    settings = {name: value for name, value, _ in found.facts.settings}
    return {**dict(found.facts.rows), **settings, "target": found.facts.target}


def _caveat(a: ExperimentFolder, b: ExperimentFolder) -> str:
    apart = duration_text(abs(b.began_ns - a.began_ns))
    return (
        f"measured {apart} apart: whatever else changed in between is in the difference, and no"
        " interval covers that. For a verdict: pgdyno compare"
    )
