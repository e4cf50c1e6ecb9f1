"""The answer of an experiment with variants as blocks: verdicts, changes, where time differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from pgdyno import quantities
from pgdyno.analysis.compare import Verdict
from pgdyno.analysis.compare_findings import (
    OF_NOISE,
    CompareFindings,
    ContrastFindings,
    VariantFindings,
)
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.loop.history import UNITS
from pgdyno.programs.registry import own_metrics
from pgdyno.quantities import signed
from pgdyno.report import in_short, numbers
from pgdyno.report.about_blocks import about_blocks, first_lines, head_of, point_table
from pgdyno.report.block_charts import (
    ChartList,
    ForestBlock,
    RowList,
    SentenceBlock,
    TableRow,
    figure_text,
    number_text,
)
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tone,
)
from pgdyno.report.cell_table import cell_table, level_table
from pgdyno.report.compare_charts import change_table, round_charts, time_bars
from pgdyno.report.compare_tables import (
    device_table,
    scaling_table,
    statement_lines,
    statement_table,
)
from pgdyno.report.forest import forest_of, metric_name, note_on_means, place_of
from pgdyno.report.own import own_of_cells
from pgdyno.report.words import loss_words

_PAIRS_SHOWN = 40
_SETTINGS_SHOWN = 12
_ROWS_ON_FIRST_SCREEN = 8
_ROWS_BESIDE_MIN = 3
TONES: dict[Verdict, Tone] = {"faster": "good", "lower": "good", "slower": "bad", "higher": "bad"}
PlaceOf = Callable[[ContrastFindings], str]


def compare_blocks(findings: ExperimentFindings) -> BlockAnswer:
    """Return the answer; every form of it is drawn from these blocks."""
    compared = findings.compare
    assert compared is not None, "only an experiment with variants has this answer"
    return BlockAnswer(
        head_of(findings),
        (
            *_short(findings, compared),
            *filter(None, (level_table(compared),)),
            *_sentences(findings, compared),
            _forest(findings, compared),
            *_lines(findings, compared),
            *compare_sections(findings),
            *about_blocks(findings),
        ),
    )


def compare_sections(
    findings: ExperimentFindings, place_of_contrast: PlaceOf | None = None
) -> Iterator[BlockSection]:
    """Yield the sections of the runs of several variants.

    Args: place_of_contrast, where the JSON document has a contrast, None: with its variant.
    """
    compared = findings.compare
    assert compared is not None, "only an experiment with variants has these sections"
    place = place_of_contrast or (lambda contrast: place_of(compared, contrast.variant))
    if not any(variant.runs or variant.cannot_start for variant in compared.variants):
        return  # A tuning without a proof has nothing to show here.
    if charts := round_charts(compared):
        lead = (
            "One point per run, in time order. If all variants move together, the machine drifts."
        )
        yield BlockSection("Every round", "rounds", "Every round", lead, (ChartList(charts),))
    if (bars := time_bars(compared)) is not None:
        lead = (
            "Mean latency of one transaction of each variant, on one scale; the mean over its runs"
        )
        lead += " whose time could be split."
        split = TableRow(tuple(_change_tables(compared, place)))
        title = "Where the time goes"
        yield BlockSection(title, "where", title, lead, (bars, split))
    yield BlockSection("Variants", "variants", "Variants", "", tuple(_variants(compared)))
    if (table := scaling_table(compared)) is not None:
        yield BlockSection("Scaling out", "scaling", "Scaling out", "", (table,))
    if (table := device_table(compared)) is not None:
        yield BlockSection("What the devices did", "devices", "Devices", "", (table,))
    if (own := own_of_cells(findings)) is not None:
        yield own
    if tables := tuple(
        statement_table(contrast) for contrast in compared.contrasts if contrast.statements
    ):
        yield BlockSection("Statements", "statements", "Statements", "", tables)
    differing = tuple(_differences(compared))
    yield BlockSection("Differences", "differs", "What differs", "", differing)


def _short(findings: ExperimentFindings, compared: CompareFindings) -> Iterator[Block]:
    """Yield the answer for readers who do not know the words, with what it must not be used for."""
    if findings.runs_valid and (words := in_short.of_compare(compared)):
        bad = findings.runs_total - findings.runs_valid
        of = quantities.counted(findings.runs_total, "run")
        marked = f" NOT VALID: {bad} of {of}, see below." if bad else ""
        yield in_short.sentence(f"{words}{marked}")


def _sentences(findings: ExperimentFindings, compared: CompareFindings) -> Iterator[Block]:
    """Yield a sentence for each contrast, or the one sentence, and what could not start."""
    is_valid = findings.runs_valid > 0
    for contrast in compared.contrasts:
        tone = TONES.get(contrast.deciding.verdict, "plain") if is_valid else "bad"
        names = (contrast.variant, contrast.reference)
        verdict = verdict_of(contrast.sentence, names)
        yield SentenceBlock("verdict", contrast.sentence, verdict, tone)
    if not compared.contrasts:
        yield SentenceBlock("verdict", findings.sentence, verdict_of(findings.sentence))
    for variant in compared.variants:
        if variant.cannot_start:
            name = f"{variant.name}: "
            yield SentenceBlock("left out", f"{name}{variant.cannot_start}", name, "bad")


def verdict_of(sentence: str, names: tuple[str, ...] = ()) -> str:
    """Return the verdict up to its colon; "" if no numbers follow. A name may have a colon, too."""
    begins = [sentence.find(name) + len(name) for name in names if name in sentence]
    head, colon, _ = sentence[max(begins, default=0) :].partition(": ")
    return f"{sentence[: max(begins, default=0)]}{head}{colon}" if colon else ""


def _forest(findings: ExperimentFindings, compared: CompareFindings) -> ForestBlock:
    """Return the forest plot, next to it the largest changes, in about as many lines as it has."""
    count = max(len(compared.contrasts) + len(compared.steps), 1)
    forest = forest_of(compared, lambda contrast: tuple(_below(contrast, compared)))
    row_max = max(_ROWS_ON_FIRST_SCREEN // count, 2)
    line_count = sum(1 + len(group.on_page(row_max)) for group in forest.groups)
    known = [
        table
        for contrast in compared.contrasts
        if (
            table := change_table(
                contrast, place_of(compared, contrast.variant), f"Where {contrast.variant} differs"
            )
        )
    ]
    shown = known[: max(line_count // (_ROWS_BESIDE_MIN + 1), 1)]
    row_count = max((line_count - len(shown) + 1) // max(len(shown), 1), _ROWS_BESIDE_MIN)
    tables = (
        replace(
            table,
            columns=table.columns[:3],
            rows=tuple(row[:3] for row in table.rows[:row_count]),
            note="ms per transaction",
        )
        for table in shown
    )
    return ForestBlock(forest, row_max, findings.runs_valid > 0, tuple(tables))


def _below(
    contrast: ContrastFindings, compared: CompareFindings
) -> Iterator[LabelledLine | TableBlock]:
    """Yield what the text says below the changes of a contrast."""
    changes = [(pair.ratio - 1) * 100 for pair in contrast.pairs]
    pairs = [signed(change, 0 if abs(change) >= 100 else 1) for change in changes]
    if pairs:
        shown = pairs[-_PAIRS_SHOWN:]
        head = f"the last {len(shown)}, " if len(shown) < len(pairs) else ""
        yield LabelledLine("  by round", f"{head}%: {' '.join(shown)}")
    if note := note_on_means(contrast, compared):
        yield LabelledLine("  means", note)
    if contrast.of_noise:
        names = ", ".join(metric_name(name) for name in contrast.of_noise)
        yield LabelledLine("  noise", f"{names}: not compared, because {OF_NOISE}")
    if contrast.why_not_split:
        yield LabelledLine("  time", f"not split into parts: {contrast.why_not_split}.")
    if (table := change_table(contrast, "")) is not None:
        yield table
    for change in contrast.plan_changes:
        said = f"{change.script}:{change.line}: {change.was} -> {change.became}"
        yield LabelledLine("  plan", said)
    yield from statement_lines(contrast)


def _lines(findings: ExperimentFindings, compared: CompareFindings) -> Iterator[LabelledLine]:
    """Yield the lines of the first screen. The text has the details of some of them."""
    yield from _pooled(compared)
    yield from first_lines(findings, _weakened(compared))
    valid = quantities.counted(findings.runs_total, "run")
    said = f"{quantities.counted(compared.rounds, 'round')}, {findings.runs_valid} of {valid} valid"
    yield LabelledLine("rounds", said, level="full")
    if compared.confounds:
        count = quantities.counted(len(compared.confounds), "confound")
        yield LabelledLine("confounds", f"{count}: {compared.confounds[0]}", "doubt", "full")
    yield LabelledLine("stopped", compared.stopped_by)


def _pooled(compared: CompareFindings) -> Iterator[LabelledLine]:
    """Yield what each variant costs the server and its pooler, if one of them has a pooler."""
    known = [(variant, variant.served) for variant in compared.variants if variant.served]
    if not any(served.pooler_cpu for _, served in known):
        return
    for variant, served in known:
        cpu = variant.metrics.get("cpu_per_tx")
        parts = ((cpu, "server"), (served.pooler_cpu, "pooler"), (served.whole_cpu, "both"))
        said = [
            f"{numbers.estimate_text(value, with_unit=True)} {where}"
            for value, where in parts
            if value
        ]
        sessions = served.session_count_max
        count = "" if sessions is None else f"{quantities.counted(sessions, 'server session')}; "
        words = f"CPU a transaction: {', '.join(said)}" if said else ""
        if served.failed.value:
            words += f"; {numbers.value_text(served.failed)} failed a run"
        yield LabelledLine("costs", f"{variant.name}: {count}{words}")
        if served.pooler_words:
            yield LabelledLine("  pooler", served.pooler_words, level="full")
    sizes = [
        f"{variant.name} {quantities.format_bytes(served.session_count_max * served.session_bytes)}"
        for variant, served in known
        if served.session_count_max and served.session_bytes
    ]
    if sizes:
        yield LabelledLine("memory", f"of the server's sessions: {', '.join(sizes)}")


def _weakened(compared: CompareFindings) -> str:
    """Return which variants may lose commits, and what crashes took; "" if none."""
    by_risk: dict[tuple[object, ...], list[VariantFindings]] = {}
    for variant in compared.variants:
        if variant.weakened:
            by_risk.setdefault((variant.weakened, variant.losses), []).append(variant)
    return "; ".join(
        f"{', '.join(own.name for own in alike)}: a crash may lose acknowledged commits"
        f" ({', '.join(alike[0].weakened)} weakened)."
        f" {loss_words(alike[0].weakened, losses=alike[0].losses)}"
        for alike in by_risk.values()
    )


def _change_tables(compared: CompareFindings, place: PlaceOf) -> Iterator[TableBlock]:
    """Yield where each difference is; the text has it below the changes of the contrast."""
    for contrast in compared.contrasts:
        if contrast.why_not_split:
            name = f"{contrast.variant} against {contrast.reference}"
            below = f"The difference is not split into parts, because {contrast.why_not_split}."
            yield TableBlock(name, (), (), below=below)
        elif (table := change_table(contrast, place(contrast))) is not None:
            yield replace(table, short_row_count=0)


def _variants(compared: CompareFindings) -> Iterator[Block]:
    """Yield the variants: what they change, and what was measured."""
    measured = [variant for variant in compared.variants if variant.runs]
    if measured and compared.grid is None:
        said = (_variant_lines(compared, variant) for variant in measured)
        yield RowList("variants", tuple(chain.from_iterable(said)))
    metrics = tuple(dict.fromkeys((compared.metric, "tps", "p99")))
    prices = [variant.cost for variant in compared.variants if variant.cost is not None]
    units = ("" if UNITS[name] == name else UNITS[name] for name in metrics)
    means = [
        f"{contrast.variant} against {contrast.reference}: {note}."
        for contrast in compared.contrasts
        if (note := note_on_means(contrast, compared))
    ]
    listed = [variant for variant in compared.variants if variant.runs or variant.cannot_start]
    rows = [tuple(_variant_row(compared, variant, metrics, bool(prices))) for variant in listed]
    tones: dict[tuple[int, int], Tone] = {
        (place, 1 if variant.cannot_start else len(rows[0]) - 1): "bad"
        for place, variant in enumerate(listed)
        if variant.cannot_start or variant.weakened
    }
    yield TableBlock(
        "Changes and measured metrics",
        (
            TableColumn("variant"),
            TableColumn("changes", is_name=True, is_wide=True, style="mono"),
            TableColumn("runs"),
            *(
                TableColumn(metric_name(name), unit, is_name=True)
                for name, unit in zip(metrics, units, strict=True)
            ),
            *(TableColumn(price.unit, is_name=True) for price in prices[:1]),
            TableColumn("durability", is_name=True),
        ),
        tuple(rows),
        below=" ".join(means),
        tones=tones,
    )
    crashed = [(variant.name, loss) for variant in compared.variants for loss in variant.losses]
    if crashed:
        yield TableBlock(
            "What crashes took with these settings",
            (TableColumn("variant"), TableColumn("crashes", is_name=True, is_wide=True)),
            tuple((name, loss.sentence()) for name, loss in crashed),
            tones={
                (place, 1): "bad"
                for place, (_, loss) in enumerate(crashed)
                if loss.lost or loss.corrupt_count or loss.blind
            },
        )
    if (table := cell_table(compared)) is not None:
        yield table


def _variant_row(
    compared: CompareFindings, variant: VariantFindings, metrics: tuple[str, ...], is_priced: bool
) -> Iterator[str]:
    at = place_of(compared, variant.name)
    yield variant.name
    if variant.cannot_start:
        yield f"cannot start: {variant.cannot_start}"
        yield from [""] * (2 + len(metrics) + is_priced)
        return
    yield ", ".join(f"{name} = {value}" for name, value in variant.changes) or "nothing"
    valid = f" ({variant.runs_valid} valid)" if variant.runs_valid < variant.runs else ""
    yield figure_text(f"{variant.runs}{valid}", f"{at}.runs")
    for name in metrics:
        more = "cannot hold the rate" if variant.holds_rate is False and name == metrics[0] else ""
        yield (
            number_text(compared.shown(variant, name), f"{at}.metrics.{name}", more)
            if name in variant.metrics
            else ""
        )
    if is_priced:
        yield "–" if variant.cost is None else number_text(variant.cost, f"{at}.cost")
    yield f"{', '.join(variant.weakened)} weakened" if variant.weakened else "as usual"


def _variant_lines(
    compared: CompareFindings, variant: VariantFindings
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a variant in the text: its metrics, its changes, what crashes took."""
    names = dict.fromkeys((compared.metric, "tps", "p99"))
    said = []
    for name in names:
        if name in variant.metrics:
            value = numbers.estimate_text(compared.shown(variant, name), with_unit=True)
            is_named = name in ("tps", *own_metrics())
            said.append(value if is_named else f"{metric_name(name)} {value}")
    if variant.cost is not None:
        said.append(numbers.estimate_text(variant.cost, with_unit=True))
    yield variant.name, ", ".join([*said, quantities.counted(variant.runs, "run")])
    changes = ", ".join(f"{name} = {value}" for name, value in variant.changes)
    if variant.holds_rate is False:
        changes += "; cannot hold the rate"
    if changes:
        yield "", changes
    yield from (("", loss.sentence()) for loss in variant.losses)


def _differences(compared: CompareFindings) -> Iterator[Block]:
    """Yield what differs besides the metrics: steps, effects, settings, plans, confounds, state."""
    yield from (LabelledLine("confound", confound) for confound in compared.confounds)
    yield from (LabelledLine("state", state) for state in compared.state)
    yield TableRow((_settings_table(compared), _plans_table(compared)))
    for title, points in (
        ("Effects that this design cannot separate", compared.confounds),
        ("State before the runs", compared.state),
    ):
        if points:
            yield point_table(title, points)
    if compared.effects:
        yield _effect_table(compared)


def _settings_table(compared: CompareFindings) -> TableBlock:
    return TableBlock(
        "Settings that differ, as read back from the servers",
        (
            TableColumn("setting", style="mono"),
            *(
                TableColumn(variant.name, is_name=True, style="mono")
                for variant in compared.variants
            ),
        ),
        tuple(
            (name, *(value or "not read" for value in values)) for name, values in compared.settings
        ),
        below="" if compared.settings else "none",
        short_row_count=min(len(compared.settings), _SETTINGS_SHOWN),
        heading="settings that differ",
    )


def _plans_table(compared: CompareFindings) -> TableBlock:
    rows = tuple(
        (f"{change.script}:{change.line}", f"{change.was} became {change.became}", change.text)
        for contrast in compared.contrasts
        for change in contrast.plan_changes
    )
    return TableBlock(
        "Plans that differ",
        (
            TableColumn("line"),
            TableColumn("plan", is_name=True, is_wide=True),
            TableColumn("statement", is_name=True, is_wide=True, style="note"),
        ),
        rows,
        below="" if rows else "none: every statement has the same plan in all variants",
    )


def _effect_table(compared: CompareFindings) -> TableBlock:
    return TableBlock(
        f"Effects on {metric_name(compared.metric)}",
        (
            TableColumn("effect"),
            TableColumn("change", is_name=True),
            TableColumn("p (Holm)"),
            TableColumn("not separated from", is_name=True, is_wide=True),
        ),
        tuple(
            (
                effect.name,
                figure_text(change_text(effect.ratio), f"effects.{place}.ratio"),
                figure_text(f"{effect.p_adjusted_ratio:.2g}", f"effects.{place}.p_adjusted"),
                ", ".join(effect.aliased_with) or "–",
            )
            for place, effect in enumerate(compared.effects)
        ),
        # The plot above has the changes; what cannot be separated is only here.
        short_row_count=len(compared.effects) * any(e.aliased_with for e in compared.effects),
        heading="effects, with the probability of chance",
    )
