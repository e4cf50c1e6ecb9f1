"""The answer of a tuning as text: the proof, each setting with its effect, what to apply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.findings import Changed, SettingEffect, TuneFindings
from pgdyno.features.tune.statements import NEEDS_WORDS, alter_system, conf_fragment, effect_text
from pgdyno.quantities import counted
from pgdyno.report import numbers
from pgdyno.report.compare_documents import proof_body
from pgdyno.report.run_text import lines_of_cells
from pgdyno.report.text_page import TextPage, joined
from pgdyno.report.words import loss_words

_FAILURES_MAX = 3


def found_of(findings: ExperimentFindings) -> TuneFindings:
    """Return the findings that only a tuning has."""
    assert isinstance(findings.own, TuneFindings), "only a tuning has this answer"
    return findings.own


def tune_text(findings: ExperimentFindings, width: int) -> str:
    """Return the whole text in lines of at most `width` columns."""
    page = TextPage(width)
    tuned = found_of(findings)
    lines = [line for label, said in _rows(findings) for line in page.row(label, said)]
    if tuned.settings:
        lines.append("apply" if tuned.verdict == "better" else "candidate, not proved")
        # Not wrapped, so that the lines can be copied.
        lines += [f"  {line}" for line in alter_system(tuned).splitlines()]
    lines += lines_of_cells(page, findings)
    lines += page.row("saved", f"#{findings.number}   pgdyno report {findings.number}")
    return joined(lines)


def tune_body(findings: ExperimentFindings) -> dict[str, Any]:
    """Return the additional keys of `pgdyno.tune/1`."""
    tuned, compared = found_of(findings), findings.compare
    return {
        **tuned.as_document(),
        **({} if compared is None else proof_body(compared)),
        "needs_restart": list(tuned.needs_restart),
        "because": because_of(findings) or None,
        "conf": conf_fragment(tuned),
        "apply": alter_system(tuned),
    }


def because_of(findings: ExperimentFindings) -> str:
    """Return why the proved settings are better, "" without a proof."""
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    return contrasts[0].because if contrasts else ""


def changed_text(change: Changed) -> str:
    """Return "WAL per transaction: 2,210 bytes (2,100 to 2,330) -> 640 bytes (610 to 670)"."""
    before, after = (
        numbers.estimate_text(value, with_unit=True) for value in (change.before, change.after)
    )
    return f"{change.name}: {before} -> {after}"


def curse_text(tuned: TuneFindings) -> str:
    """Return the gain in the search and the gain in the proof; "" without a proof."""
    points = tuned.optimism_points
    if points is None or tuned.promised is None or tuned.proved is None:
        return ""
    said = "too high" if points > 0 else "too low"
    return (
        f"the search promised {change_text(tuned.promised)}, fresh runs showed"
        f" {change_text(tuned.proved)}: the promise was {abs(points):,.1f} points {said}"
    )


def _rows(findings: ExperimentFindings) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of every row."""
    tuned = found_of(findings)
    yield "answer", findings.sentence
    yield "target", findings.facts.target
    if tuned.needs_restart:
        yield "restart", f"needed for {', '.join(tuned.needs_restart)}"
    for setting in tuned.weakens_durability:
        loss = loss_words([setting.name], setting.new, tuned.losses)
        yield "RISK", f"{setting.name} = {setting.new}: {setting.price} {loss}"
    for setting in tuned.settings:
        yield "setting", _setting(tuned, setting)
        if setting.price and setting not in tuned.weakens_durability:
            yield "", setting.price
    if tuned.idle:
        yield "no effect", f"{', '.join(tuned.idle)}: unchanged, because no effect is certain"
    if curse := curse_text(tuned):
        yield "promise", curse
    if because := because_of(findings):
        yield "why", because
    for changed in tuned.changed:
        yield "changed", changed_text(changed)
    for server in tuned.servers:
        yield f"server {server.number}", f"{server.target}: {server.sentence(tuned.metric)}"
    for difference in tuned.server_differences:
        yield "servers", difference
    tried = counted(tuned.trial_count, "candidate")
    yield "tried", f"{tried}; {tuned.reason or 'interrupted'}"
    if tuned.budget is not None:
        yield "time", tuned.budget.sentence()
    for name, why in tuned.failures[:_FAILURES_MAX]:
        yield "failed", f"{name}: {why}"
    for doubt in findings.doubts:
        yield "NOT VALID" if doubt.verdict == "not_valid" else "doubt", doubt.message


def _setting(tuned: TuneFindings, setting: SettingEffect) -> str:
    effect, needs = effect_text(tuned, setting), NEEDS_WORDS[setting.needs]
    return f"{setting.name}  {setting.old} -> {setting.new}  {effect}  {needs}"
