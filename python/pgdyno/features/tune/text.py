"""The answer of a tuning as text: every value that was tried, and what to apply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.findings import Changed, SettingEffect, Tried, TuneFindings
from pgdyno.features.tune.statements import NEEDS_WORDS, alter_system, conf_fragment, effect_text
from pgdyno.quantities import counted
from pgdyno.report import numbers
from pgdyno.report.blocks import LabelledLine, blocks_of
from pgdyno.report.compare_documents import proof_body
from pgdyno.report.own import own_of_cells
from pgdyno.report.text_page import TextPage, joined
from pgdyno.report.words import loss_words
from pgdyno.spec.designs import METRIC_WORDS

_TRIED_MAX = 8
_CHANGED_MAX = 3
_DOUBTS_MAX = 3


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
        lines.append("apply")
        # Not wrapped, so that the lines can be copied.
        lines += [f"  {line}" for line in alter_system(tuned, is_short=True).splitlines()]
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


def _rows(findings: ExperimentFindings) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of every row."""
    tuned = found_of(findings)
    yield "answer", findings.sentence
    for place, trial in enumerate(tuned.tried[:_TRIED_MAX]):
        yield "" if place else "tried", trial_text(tuned, trial)
    if (more := len(tuned.tried) - _TRIED_MAX) > 0:
        yield "", f"and {more} more on the page and in --json"
    yield from _of_settings(tuned)
    if because := because_of(findings):
        yield "why", because
    for changed in tuned.changed[:_CHANGED_MAX]:
        yield "changed", changed_text(changed)
    yield "target", findings.facts.target
    if (own := own_of_cells(findings)) is not None:
        # Its tables are on the page.
        yield from ((line.label, line.said) for line in blocks_of(own.blocks, LabelledLine))
    if tuned.budget is not None:
        yield "time", tuned.budget.sentence()
    if findings.repeated:
        yield "repeated", findings.repeated_words
    for doubt in findings.doubts[:_DOUBTS_MAX]:
        yield "NOT VALID" if doubt.verdict == "not_valid" else "doubt", doubt.message
    if (more := len(findings.doubts) - _DOUBTS_MAX) > 0:
        yield "", f"and {counted(more, 'doubt')} more on the page"


def _of_settings(tuned: TuneFindings) -> Iterator[tuple[str, str]]:
    """Yield what the proposed settings cost and need."""
    if tuned.needs_restart:
        yield "restart", f"needed for {', '.join(tuned.needs_restart)}"
    for setting in tuned.weakens_durability:
        loss = loss_words([setting.name], setting.new, tuned.losses)
        yield "RISK", f"{setting.name} = {setting.new}: {setting.price} {loss}"
    for setting in tuned.settings:
        yield "setting", _setting(tuned, setting)
        if setting.price and setting not in tuned.weakens_durability:
            yield "", setting.price


def trial_text(tuned: TuneFindings, trial: Tried) -> str:
    """Return "work_mem=64MB  better: tps +31 % (20 to 44) against yours, 5 pairs"."""
    said = f"{trial.name}  {trial.verdict_words}"
    if trial.ratio is not None and not trial.failure:
        change = f"{METRIC_WORDS[tuned.metric]} {change_text(trial.ratio)}"
        said += f": {change} against {trial.against}, {counted(trial.pair_count, 'pair')}"
    return f"{said}; {trial.doubt}" if trial.doubt else said


def _setting(tuned: TuneFindings, setting: SettingEffect) -> str:
    effect, needs = effect_text(tuned, setting), NEEDS_WORDS[setting.needs]
    return f"{setting.name}  {setting.old} -> {setting.new}  {effect}  {needs}"
