"""The answer of a tuning as text: what was proved, each setting with its effect, what to apply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.report.text_page import TextPage, joined
from pgdyno.tune.findings import SettingEffect, TuneFindings, alter_system, conf_fragment

_FAILURES_MAX = 3


def tune_text(findings: ExperimentFindings, width: int) -> str:
    """Return the whole text in lines of at most `width` columns."""
    page = TextPage(width)
    return joined(line for label, said in _rows(findings) for line in page.row(label, said))


def tune_body(findings: ExperimentFindings) -> dict[str, Any]:
    """Return what `pgdyno.tune/1` adds to what every document has."""
    found = _found(findings)
    return {**found.as_document(), "conf": conf_fragment(found), "apply": alter_system(found)}


def _rows(findings: ExperimentFindings) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of every row."""
    found = _found(findings)
    yield "answer", findings.sentence
    yield "target", findings.facts.target
    for one in found.settings:
        yield "setting", _setting(found, one)
        if one.price:
            yield "", one.price
    if found.idle:
        yield "no effect", f"{', '.join(found.idle)}: unchanged, because no effect is certain"
    for one in found.weakens_durability:
        yield "RISK", f"{one.name} = {one.new}: {one.price} The loss was not measured."
    yield "tried", f"{found.trial_count} candidates; {found.reason or 'interrupted'}"
    for name, why in found.failures[:_FAILURES_MAX]:
        yield "failed", f"{name}: {why}"
    if found.settings and found.verdict in ("better", "unproved"):
        for line in alter_system(found).splitlines():
            yield "apply" if found.verdict == "better" else "candidate", line
    for doubt in findings.doubts:
        yield "doubt", doubt.message
    yield "saved", f"#{findings.number}   pgdyno report {findings.number}"


def _setting(found: TuneFindings, one: SettingEffect) -> str:
    effect = "not measured alone"
    if one.ratio is not None:
        effect = f"{found.metric} {change_text(one.ratio)}"
    elif len(found.settings) == 1 and found.proved is not None:
        effect = f"{found.metric} {change_text(found.proved)}"
    return f"{one.name}  {one.old} -> {one.new}  {effect}  {one.needs}"


def _found(findings: ExperimentFindings) -> TuneFindings:
    assert isinstance(findings.own, TuneFindings), "only a tuning has this answer"
    return findings.own
