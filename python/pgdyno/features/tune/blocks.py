"""The answer of a tuning as blocks: the proved gain, every value that was tried, what to apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.arms import MARGIN_RATIO
from pgdyno.features.tune.findings import Tried, TuneFindings
from pgdyno.features.tune.statements import (
    NEEDS_WORDS,
    alter_system,
    conf_text,
    restart_words,
)
from pgdyno.features.tune.trial import BASE
from pgdyno.quantities import counted
from pgdyno.report import forest, in_short
from pgdyno.report.about_blocks import about_blocks, first_lines, head_of
from pgdyno.report.block_charts import (
    CodeBlock,
    ForestBlock,
    RowList,
    SentenceBlock,
    TableRow,
    figure_text,
)
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    Level,
    TableBlock,
    TableColumn,
    Tone,
)
from pgdyno.report.compare_blocks import compare_sections, verdict_of
from pgdyno.report.compare_documents import proof_body
from pgdyno.report.numbers import estimate_text
from pgdyno.report.own import own_of_cells
from pgdyno.report.words import loss_words
from pgdyno.spec.designs import METRIC_WORDS

_TRIED_MAX = 8
_CHANGED_MAX = 3
# More values than this to apply are listed, without their reasons.
_APPLIED_MAX = 3


def tune_blocks(findings: ExperimentFindings) -> BlockAnswer:
    """Return the answer; every form of it is drawn from these blocks."""
    return BlockAnswer(head_of(findings), tuple(_blocks(findings, found_of(findings))))


def found_of(findings: ExperimentFindings) -> TuneFindings:
    """Return the findings that only a tuning has."""
    assert isinstance(findings.own, TuneFindings), "only a tuning has this answer"
    return findings.own


def tune_body(findings: ExperimentFindings) -> dict[str, Any]:
    """Return the additional keys of `pgdyno.tune/1`."""
    tuned, compared = found_of(findings), findings.compare
    return {
        **tuned.as_document(),
        **({} if compared is None else proof_body(compared)),
        "needs_restart": list(tuned.needs_restart),
        "because": because_of(findings) or None,
        "conf": conf_of(tuned),
        "apply": alter_system(tuned.to_apply()),
    }


def because_of(findings: ExperimentFindings) -> str:
    """Return why the proved settings are better, "" without a proof."""
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    return contrasts[0].because if contrasts else ""


def _blocks(findings: ExperimentFindings, tuned: TuneFindings) -> Iterator[Block]:
    tone: Tone = "good" if tuned.verdict == "better" else "plain"
    verdict = verdict_of(findings.sentence)
    if findings.runs_valid:
        yield in_short.sentence(_in_short(tuned))
    yield SentenceBlock("answer", findings.sentence, verdict, tone)
    if step := tuned.next_step():
        yield LabelledLine("next", step)
    for setting in tuned.weakens_durability:
        risk = f"{setting.name} = {setting.new}: "
        loss = loss_words([setting.name], setting.new, tuned.losses)
        yield SentenceBlock("RISK", f"{risk}{setting.price} {loss}", risk, "bad")
    if rows := tuple(_effects(tuned)):
        name = f"Change of {forest.metric_name(tuned.metric)}"
        scale = forest.scale_of((row.ratio for row in rows), margin_ratio=MARGIN_RATIO)
        drawn = forest.Forest((forest.ForestGroup(name, rows),), scale)
        yield ForestBlock(drawn, len(rows), is_valid=True, is_in_text=False)
    yield from first_lines(findings)
    valid = f"{findings.runs_valid} of {counted(findings.runs_total, 'run')} valid"
    stopped = tuned.reason or "every value was decided"
    yield LabelledLine("stopped", f"{stopped}; {valid}", level="full")
    if because := because_of(findings):
        yield LabelledLine("why", because)
    if tuned.budget is not None:
        yield LabelledLine("time", tuned.budget.sentence())
    yield from _apply(tuned)
    yield from _tried(tuned)
    yield from _changed(tuned)
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    place = "contrasts.{}".format
    if not contrasts and (own := own_of_cells(findings)) is not None:
        # Without a proof there is no second variant to compare with yours.
        yield own
    sections = compare_sections(findings, lambda of: place(contrasts.index(of)))
    for section in sections if contrasts else ():
        # The text has the proposed settings, so it has no list of variants, and nothing that
        # differs.
        kept = (_in_full(block) for block in section.blocks if not isinstance(block, RowList))
        yield replace(section, blocks=tuple(kept))
    yield from about_blocks(findings)


def _in_short(tuned: TuneFindings) -> str:
    """Return the answer for readers who do not know the words of the field."""
    if tuned.gain is not None:
        settings = [f"{setting.name} = {setting.new}" for setting in tuned.settings]
        words = in_short.gained(tuned.metric, tuned.gain, settings)
        weak = {setting.name for setting in tuned.weakens_durability}
        return f"{words}{f'; {in_short.crash_words(weak, tuned.losses)}' if weak else ''}."
    if tuned.verdict == "no better":
        return "Keep your settings: nothing that was measured is worth a change."
    if tuned.formula:
        return (
            "No value is proved better than yours yet. The usual values for this machine, from"
            " formulas, are below; nothing here proves them."
        )
    return "Keep your settings for now: no other value is proved better yet."


def _in_full(block: Block) -> Block:
    """Return a block whose tables the short text leaves out."""
    if not isinstance(block, TableRow):
        return block
    return TableRow(tuple(replace(table, short_row_count=0) for table in block.tables))


def _effects(tuned: TuneFindings) -> Iterator[forest.ForestRow]:
    """Yield the rows of the plot: the gain, then every value that was compared."""
    if tuned.gain is not None:
        yield forest.ForestRow("proposed, against your settings", tuned.gain, "", "proved")
    for place, trial in enumerate(tuned.tried):
        ratio = trial.ratio
        # An interval of noise reaches over the whole plot, and its point looks exact.
        if ratio is not None and ratio.has_interval and not (ratio.is_of_noise or trial.failure):
            is_against_yours = trial.against == BASE
            name = trial.name if is_against_yours else f"{trial.name}, against {trial.against}"
            yield forest.ForestRow(name, ratio, "", f"tried.{place}.ratio")


def _tried(tuned: TuneFindings) -> Iterator[BlockSection]:
    lines = list(_tried_lines(tuned))
    has_doubts = any(trial.doubt for trial in tuned.tried)
    doubts = (TableColumn("doubt", is_name=True, is_wide=True),) * has_doubts
    columns = (
        TableColumn("value", style="mono"),
        TableColumn("verdict", is_name=True),
        TableColumn(forest.metric_name(tuned.metric), is_name=True),
        TableColumn("against", is_name=True),
        TableColumn("pairs"),
        *doubts,
    )
    rows = (
        (
            trial.name,
            trial.verdict_words,
            figure_text(change_text(trial.ratio), f"tried.{place}.ratio") if trial.ratio else "",
            trial.against,
            figure_text(str(trial.pair_count), f"tried.{place}.pair_count"),
            *((trial.doubt,) * has_doubts),
        )
        for place, trial in enumerate(tuned.tried)
    )
    lead = (
        "Each value ran in pairs against the settings in its row. All intervals hold together with"
        " 95 %."
    )
    title = "Values that were tried"
    if tuned.tried:
        table = TableBlock(title, columns, tuple(rows))
        yield BlockSection(title, "tried", "Tried", lead, (*lines, table))


def _tried_lines(tuned: TuneFindings) -> Iterator[LabelledLine]:
    """Yield a line for each value that ran; in the short text, one line if none is proved."""
    ran = [trial for trial in tuned.tried if trial.decision != "not tried"]
    level: Level = "short" if tuned.gain is not None or len(ran) == 1 else "full"
    left = [trial.name for trial in tuned.tried if trial.decision == "not tried"]
    if level == "full":
        listed = [f"{t.name} {change_text(t.ratio)}" if t.ratio else t.name for t in ran]
        not_yet = f"; not tried: {', '.join(left)}" if left else ""
        yield LabelledLine("tried", f"{'; '.join(listed[:_TRIED_MAX])}{not_yet}")
    label = "tried" if level == "short" else "value"
    yield from (LabelledLine(label, trial_text(tuned, t), level=level) for t in ran[:_TRIED_MAX])
    if (more := len(ran) - _TRIED_MAX) > 0:
        yield LabelledLine(label, f"and {more} more on the page and in --json", level=level)
    if left and level == "short":
        yield LabelledLine("tried", f"not tried: {', '.join(left)}")
    for name, why in tuned.left_out.items():
        yield LabelledLine("left out", f"{name}: {why}")


def trial_text(tuned: TuneFindings, trial: Tried) -> str:
    """Return "work_mem=64MB  better: tps +31 % (20 to 44) against yours, 5 pairs"."""
    said = f"{trial.name}  {trial.verdict_words}"
    if trial.ratio is not None and not trial.failure:
        change = f"{METRIC_WORDS[tuned.metric]} {change_text(trial.ratio)}"
        said += f": {change} against {trial.against}, {counted(trial.pair_count, 'pair')}"
    return f"{said}; {trial.doubt}" if trial.doubt else said


def _apply(tuned: TuneFindings) -> Iterator[BlockSection]:
    """Yield the values to apply, each with its reason, and how to apply and to undo them."""
    if not (values := tuned.to_apply()):
        return
    facts = f" for {tuned.formula_of}" if tuned.formula_of else ""
    code = alter_system(values)
    kind = "proved" if tuned.settings else f"from formulas{facts}, not proved"
    listed = ", ".join(f"{value.name} = {value.value}" for value in values)
    lines = [LabelledLine("apply", f"{kind} (as a file: --conf FILE): {listed}")]
    short = ""
    if len(values) <= _APPLIED_MAX:
        said = (
            f"{v.name} = {v.value}, was {v.old}: {v.why}; {NEEDS_WORDS[v.needs]}" for v in values
        )
        lines = [LabelledLine("apply", words) for words in said]
        comments, undo = code.rpartition("\n")[::2]
        short = "\n".join([*(c for c in comments.splitlines() if not c.startswith("--")), undo])
    if restart := restart_words(values):
        lines.append(LabelledLine("restart", restart, "doubt"))
    titles = (
        ("setting", "mono"),
        ("was", None),
        ("becomes", None),
        ("reason", None),
        ("needs", None),
    )
    columns = tuple(
        TableColumn(title, style="mono") if style else TableColumn(title, is_name=True)
        for title, style in titles
    )
    rows = tuple(
        (value.name, value.old, value.value, value.why, NEEDS_WORDS[value.needs])
        for value in values
    )
    lead = (
        "As statements, and as lines of postgresql.conf. Each has the old value and the undo."
        " A value from a formula fits this machine and this data; only what is measured is proved."
    )
    yield BlockSection(
        "Values to apply",
        "apply",
        "Apply",
        lead,
        (
            *lines,
            TableBlock("Settings", columns, rows),
            CodeBlock("statements", code, short=short),
            CodeBlock("postgresql.conf", conf_of(tuned), "ini"),
        ),
    )


def conf_of(tuned: TuneFindings) -> str:
    """Return the values to apply as a file of postgresql.conf."""
    facts = f"The formulas are for {tuned.formula_of}." if tuned.formula else ""
    return conf_text([f"pgdyno tune: {tuned.sentence()}", facts], tuned.to_apply())


def _changed(tuned: TuneFindings) -> Iterator[BlockSection]:
    named = [
        (
            change.name,
            estimate_text(change.before, with_unit=True),
            estimate_text(change.after, with_unit=True),
        )
        for change in tuned.changed
    ]
    lines = [
        LabelledLine("changed", f"{name}: {before} -> {after}")
        for name, before, after in named[:_CHANGED_MAX]
    ]
    rows = tuple(
        (
            name,
            figure_text(before, f"counters.{place}.before"),
            figure_text(after, f"counters.{place}.after"),
        )
        for place, (name, before, after) in enumerate(named)
    )
    if rows:
        titles = ("counter", "your settings", "new settings")
        table = TableBlock("Counters", tuple(map(TableColumn, titles)), rows)
        lead, title = "Means over the rounds that measured both.", "What changed on the server"
        yield BlockSection(title, "changed", "What changed", lead, (*lines, table))
