"""`pgdyno diff`: two results side by side, and the reasons not to compare them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.errors import SpecError, StoreError
from pgdyno.quantities import duration_text, percent
from pgdyno.report.text_page import TextPage

if wanted.body(__name__):
    from pgdyno.analysis.between_results import ratio_between
    from pgdyno.analysis.estimate import Estimate
    from pgdyno.analysis.findings import ExperimentFindings
    from pgdyno.analysis.rounding import change_text
    from pgdyno.cli.show import answered
    from pgdyno.report.changes import changes_between
    from pgdyno.report.figures import percentile_name
    from pgdyno.report.numbers import estimate_text
    from pgdyno.report.result_kind import RESULTS
    from pgdyno.report.short_text import shortened
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

_MANY_SETTINGS = 12
# Facts that were measured and differ by nanoseconds each time.
_NEVER_EQUAL = ("clock",)


@click.command("diff", cls=Verb, short_help="Compare two results, side by side.")
@click.argument("first")
@click.argument("second")
@options.store_option
@options.json_option
@options.verbose
def command(first: str, second: str, store: Path | None, json_to: str | None, verbose: bool) -> int:
    """Show what changed between the detailed runs of two results, and how their servers differ.

    First come throughput, the statements and the parts of the time that changed most. Changes have
    intervals, made from the intervals of both results. The results were measured at different
    times, so diff gives no verdict: use `pgdyno compare` for that. RESULT:VARIANT selects a
    variant; the default is the reference. If the load of the first result was measured again before
    the second, diff prints its drift.
    """
    kept = Store.default(store)
    (folder_a, a), (folder_b, b) = (_found(kept, handle) for handle in (first, second))
    _refuse_without_runs(folder_a, folder_b)
    with output.doing("reading the measurements of both results"):
        first_result, other = answered(folder_a), answered(folder_b)
    runs = _numbers_of(first_result, a), _numbers_of(other, b)
    rows = list(_rows(*runs))
    of_loads = list(_loads_differing((folder_a, first_result), (folder_b, other)))
    differing = [*of_loads, *_differing(first_result, other)]
    caveat = _caveat(folder_a, folder_b, *runs, are_loads_equal=not of_loads)
    drift = _drift(kept, folder_a, folder_b)
    metrics = [(percentile_name(name), f"{x} | {y}{change}") for name, x, y, change in rows]
    changes = changes_between(first_result, other)
    shown = f"{_name_of(first_result, a)} | {_name_of(other, b)}"
    said = [("CAVEAT", caveat), ("results", shown)]
    said += metrics[:1]
    said += [(change.kind, change.words) for change in changes]
    said += metrics[1:]
    said += [("drift", drift["text"])]
    said += [("differs", f"{name}: {x} | {y}") for name, x, y in differing[:_MANY_SETTINGS]]
    if len(differing) > _MANY_SETTINGS:
        said.append(("", f"and {len(differing) - _MANY_SETTINGS} more"))
    page = TextPage(output.width())
    text = "\n".join(line for label, words in said for line in page.row(label, words))
    if not verbose:
        text = shortened(text, f"pgdyno diff -v {first} {second}")
    document = {
        "format": "pgdyno.diff/1",
        "numbers": [first_result.number, other.number],
        "warnings": [{"kind": "different_times", "message": caveat, "hint": "pgdyno compare"}],
        "drift": drift,
        "metrics": {name: [x.to_json() for x in pair] for name, pair in _pairs(*runs)},
        "changes": [change.to_json() for change in changes],
        "differs": {name: [x, y] for name, x, y in differing},
    }
    options.write(text, json.dumps(document, indent=2, ensure_ascii=False), json_to)
    return 0


def _refuse_without_runs(before: ExperimentFolder, after: ExperimentFolder) -> None:
    """Raise SpecError if two results of one verb have no runs, but a command that compares them."""
    verb = before.verb
    command = RESULTS[verb].comparing if verb in RESULTS and verb == after.verb else ""
    if before.is_experiment or not command:
        return
    compares = command.format(before=before.number, after=after.number)
    raise SpecError(
        f"#{before.number} ({before.name}) is a {verb}: it has no experiment and no runs.",
        hint=f"{compares} shows what changed; pgdyno show {before.number} prints the first",
    )


def _found(store: Store, handle: str) -> tuple[ExperimentFolder, str]:
    """Return a result, and ":VARIANT" or "" for the whole result."""
    try:
        folder = store.find(handle)
    except StoreError:
        result, colon, variant = handle.rpartition(":")
        if not colon:
            raise
        return store.find(result), f":{variant}"
    return folder, ""


def _name_of(findings: ExperimentFindings, named: str) -> str:
    """Return "#4:direct"; the reference is named, too, if the user named no variant."""
    if findings.compare is not None and not named:
        named = f":{findings.compare.reference}"
    return f"#{findings.number}{named}"


def _numbers_of(findings: ExperimentFindings, named: str) -> dict[str, Estimate]:
    """Return the metrics of one result that diff shows.

    Raises: SpecError for an unknown variant, and for a result with neither run nor variants.
    """
    if findings.compare is not None:
        variants = {
            variant.name: variant for variant in findings.compare.variants if variant.metrics
        }
        name = named[1:] or findings.compare.reference
        if name not in variants:
            raise SpecError(
                f"#{findings.number} has no measured variant {name!r}.",
                hint=f"its variants are: {', '.join(variants) or 'none'}",
            )
        return variants[name].metrics
    if named:
        raise SpecError(f"#{findings.number} has no variants.", hint=f"remove {named}")
    if findings.run is None:
        raise SpecError(
            f"#{findings.number} is a {findings.kind} without a detailed run.",
            hint=f"pgdyno show {findings.number} prints it",
        )
    return {
        "tps": findings.run.tps,
        "mean": findings.run.latency.mean,
        **findings.run.latency.percentiles,
    }


def _pairs(
    a: dict[str, Estimate], b: dict[str, Estimate]
) -> Iterator[tuple[str, tuple[Estimate, Estimate]]]:
    for name in a:
        if name in b:
            yield name, (a[name], b[name])


def _rows(a: dict[str, Estimate], b: dict[str, Estimate]) -> Iterator[tuple[str, str, str, str]]:
    for name, (first, other) in _pairs(a, b):
        ratio = ratio_between(first, other)
        change = "" if ratio is None else f" | {change_text(ratio, without=', no interval')}"
        texts = [estimate_text(estimate, with_unit=True) for estimate in (first, other)]
        yield name, texts[0], texts[1], change


def _drift(store: Store, a: ExperimentFolder, b: ExperimentFolder) -> dict[str, Any]:
    """Return the drift of the first load until the second result, from results in the store."""
    seen = references(store, a, b)
    numbers = ", ".join(f"#{reference.number}" for reference in seen)
    document: dict[str, Any] = {
        "numbers": [reference.number for reference in seen],
        "tps_ratio": None,
    }
    if len(seen) < 2:
        text = "not known: the load of the first result was not measured again before the second"
    else:
        ratio = seen[-1].tps / seen[0].tps
        least, most = (
            min(reference.tps for reference in seen),
            max(reference.tps for reference in seen),
        )
        document["tps_ratio"] = ratio
        text = (
            f"the same load was measured {len(seen)} times ({numbers}): tps "
            f"{(ratio - 1) * 100:+.1f} % from first to last, {percent(most / least - 1)} "
            "between lowest and highest"
        )
    return {**document, "text": text}


def _loads_differing(
    first: tuple[ExperimentFolder, ExperimentFindings],
    other: tuple[ExperimentFolder, ExperimentFindings],
) -> Iterator[tuple[str, str, str]]:
    """Yield what differs between two loads: name, first value, second value."""
    for part in ("dataset", "workload"):
        asked: list[dict[str, Any]] = []
        for folder, findings in (first, other):
            known = dict(_question(folder)[part] or {})
            if part == "workload" and findings.run is not None:
                known["clients"] = findings.run.clients  # A sweep finds its number.
            asked.append(known)
        for name in sorted({*asked[0], *asked[1]}):
            if asked[0].get(name) != asked[1].get(name):
                values = (json.dumps(known.get(name, "-")) for known in asked)
                x, y = (value.replace('"', "") for value in values)
                yield f"load, {name}", x, y


def _differing(a: ExperimentFindings, b: ExperimentFindings) -> list[tuple[str, str, str]]:
    """Return the facts and settings that differ: name, first value, second value."""
    return [
        (name, first.get(name, "-"), other.get(name, "-"))
        for first, other in ((_facts(a), _facts(b)),)
        for name in sorted({*first, *other})
        if first.get(name) != other.get(name)
    ]


def _facts(findings: ExperimentFindings) -> dict[str, Any]:
    settings = {name: value for name, value, _ in findings.facts.settings}
    rows = {name: value for name, value in findings.facts.rows if name not in _NEVER_EQUAL}
    return {**rows, **settings, "target": findings.facts.target}


def _caveat(
    a: ExperimentFolder,
    b: ExperimentFolder,
    first: dict[str, Estimate],
    other: dict[str, Estimate],
    *,
    are_loads_equal: bool,
) -> str:
    apart = duration_text(abs(b.began_ns - a.began_ns))
    said = "" if are_loads_equal else 'The loads differ: see the line "differs". '
    ratios = [ratio_between(*pair) for _, pair in _pairs(first, other)]
    if any(ratio is not None and ratio.scope == "within_run" for ratio in ratios):
        said += "The intervals are those within the runs. "
    return (
        f"{said}Measured {apart} apart: the difference includes everything else that changed in "
        "between, and no interval covers that. For a verdict, use pgdyno compare"
    )


@dataclass(frozen=True, slots=True)
class Reference:
    """One result of the same load on the same server, and its throughput."""

    number: int
    began_ns: int
    tps: float


def references(store: Store, first: ExperimentFolder, second: ExperimentFolder) -> list[Reference]:
    """Return the results with the load of the first, from the first to the second, in time order.

    The first result is included. If a result has variants, its reference counts.
    """
    asked = _question(first)
    begins = sorted((first.began_ns, second.began_ns))
    references = []
    for listed in store.list():
        folder = ExperimentFolder(listed.folder)
        if not folder.is_experiment or not begins[0] <= listed.began_ns <= begins[1]:
            continue
        tps = _tps(folder.analysis() or {})
        if tps is not None and _question(folder) == asked:
            references.append(Reference(listed.number, listed.began_ns, tps))
    return sorted(references, key=lambda reference: reference.began_ns)


def _question(folder: ExperimentFolder) -> dict[str, Any]:
    """Return the experiment without name and design: server, data, load, the first variant."""
    spec = folder.asked()
    kept = {name: spec.get(name) for name in ("server", "dataset", "workload")}
    workload = dict(kept["workload"] or {})
    # A longer run of the same load measures the same, and so do runs in another order.
    for name in ("duration", "seed", "order_seed"):
        workload.pop(name, None)
    variants = spec.get("variant") or [{}]
    first = {name: value for name, value in variants[0].items() if name not in ("name", "price")}
    return {**kept, "workload": workload, "variant": first}


def _tps(document: Mapping[str, Any]) -> float | None:
    return next(_values(document), None)


def _values(document: Mapping[str, Any]) -> Iterator[float]:
    if isinstance(own := document.get("tps"), Mapping):
        yield float(own["value"])
    for variant in document.get("variants", ()):
        if isinstance(tps := variant.get("metrics", {}).get("tps"), Mapping):
            yield float(tps["value"])
