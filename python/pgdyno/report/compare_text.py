"""A comparison as text: the verdict, the ratio of every metric, pairs, where the time differs."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno import quantities
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings, VariantFindings
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.programs.registry import own_metrics
from pgdyno.quantities import signed
from pgdyno.report import numbers
from pgdyno.report.cell_table import CellTable, cell_table, table_lines
from pgdyno.report.compare_charts import REST, difference_decimals, is_too_early
from pgdyno.report.forest import Scale, metric_name, note_on_means, scale_of
from pgdyno.report.further_tables import further_tables
from pgdyno.report.parts import words_of
from pgdyno.report.run_text import lines_of_cells, tail_lines
from pgdyno.report.statement_table import statement_note, statement_rows
from pgdyno.report.text_page import WIDTH, TextPage, joined
from pgdyno.report.words import loss_words

_LABEL_WIDTH = 12
_PARTS_SHOWN = 6
_FOREST_WIDTH, _FOREST_WIDTH_MIN = 41, 21
_PAIRS_SHOWN = 40
_SETTINGS_SHOWN = 12
RATIOS_SHOWN = ("tps", *own_metrics(), "p50", "p99", "cpu_per_tx", "wal_per_tx")


def compare_text(findings: ExperimentFindings, width: int = WIDTH) -> str:
    """Return the text of an experiment with variants, in lines of at most `width` characters."""
    compared = findings.compare
    assert compared is not None, "only an experiment with variants has this text"
    page = TextPage(width)
    lines: list[str] = [*page.row("target", findings.facts.target)]
    lines += _verdicts(page, findings, compared)
    lines += _variants(page, compared)
    lines += lines_of_cells(page, findings)
    lines += _table(page, "side by side", cell_table(compared))
    for contrast in compared.contrasts:
        lines += _contrast(page, contrast, compared)
    if compared.steps:
        lines += _steps(page, compared)
    lines += _effects(page, compared)
    for further in further_tables(compared):
        lines += _table(page, further.title.lower(), further.table)
    for name, values in compared.settings[:_SETTINGS_SHOWN]:
        values_text = " / ".join(value or "not read" for value in values)
        lines += page.row("setting", f"{name} differs: {values_text}")
    if (more := len(compared.settings) - _SETTINGS_SHOWN) > 0:
        lines += page.row("setting", f"{more} more differ: see the page or --json")
    for confound in compared.confounds:
        lines += page.row("confound", confound)
    for state in compared.state:
        lines += page.row("state", state)
    lines += page.row("stopped", compared.stopped_by)
    return joined([*lines, *tail_lines(page, findings)])


def _verdicts(
    page: TextPage, findings: ExperimentFindings, compared: CompareFindings
) -> Iterator[str]:
    if not compared.contrasts:
        yield from page.row("verdict", findings.sentence)
        return
    for contrast in compared.contrasts:
        yield from page.row("verdict", contrast.sentence)
    for variant in compared.variants:
        if variant.cannot_start:
            yield from page.row("left out", f"{variant.name}: {variant.cannot_start}")


def _variants(page: TextPage, compared: CompareFindings) -> Iterator[str]:
    measured = [variant for variant in compared.variants if variant.runs]
    if not measured:
        return
    width = max(len(variant.name) for variant in measured)
    yield "variants"
    for variant in measured:
        names = dict.fromkeys((compared.metric, "tps", "p99"))
        said = [_metric(compared, variant, name) for name in names if name in variant.metrics]
        if variant.cost is not None:
            said.append(numbers.estimate_text(variant.cost, with_unit=True))
        runs = quantities.counted(variant.runs, "run")
        yield from page.row(f"  {variant.name}", f"{', '.join(said)}, {runs}", indent=width + 4)
        changes = ", ".join(f"{name} = {value}" for name, value in variant.changes)
        if changes:
            yield from page.row("", f"{changes}{_warnings(variant)}", indent=width + 4)
        for loss in variant.losses:
            yield from page.row("", loss.sentence(), indent=width + 4)


def _table(page: TextPage, title: str, table: CellTable | None) -> Iterator[str]:
    if table is not None:
        yield title
        yield from table_lines(table, page.column_count)
        if table.note:
            yield from page.row("  ", table.note, indent=2)


def _metric(compared: CompareFindings, variant: VariantFindings, name: str) -> str:
    text = numbers.estimate_text(compared.shown(variant, name), with_unit=True)
    return text if name in ("tps", *own_metrics()) else f"{metric_name(name)} {text}"


def _warnings(variant: VariantFindings) -> str:
    if variant.holds_rate is False:
        return "; cannot hold the rate"
    if variant.weakened:
        names = ", ".join(variant.weakened)
        loss = "" if variant.losses else f" {loss_words(variant.weakened)}"
        return f"; a crash may lose acknowledged commits: {names} off.{loss}"
    return ""


def _contrast(
    page: TextPage, contrast: ContrastFindings, compared: CompareFindings
) -> Iterator[str]:
    shown = [
        n for n in dict.fromkeys((compared.metric, *RATIOS_SHOWN)) if n in contrast.comparisons
    ]
    ratios = {name: contrast.comparisons[name].ratio for name in shown}
    scale = scale_of(ratios.values(), margin_ratio=contrast.deciding.margin_ratio)
    has_interval = any(ratio.low is not None for ratio in ratios.values())
    note = "" if has_interval else " (no interval yet)"
    yield f"{contrast.variant} against {contrast.reference}{note}"
    width = max(len(metric_name(name)) for name in shown)
    texts = {
        name: change_text(ratio) if has_interval else change_text(ratio, without="")
        for name, ratio in ratios.items()
    }
    text_width = max(map(len, texts.values()))
    beside = width + text_width + 2 * len("  ") + len("  [] decides")
    cells = _forest_cells(page.column_count - beside)
    for name, ratio in ratios.items():
        mark = " decides" if name == compared.metric else ""
        yield (
            f"  {metric_name(name):{width}}  {texts[name]:{text_width}}  "
            f"[{_forest(ratio, scale, cells)}]{mark}"
        )
    yield f"  {'':{width}}  {'':{text_width}}  {_axis(scale, cells)}"
    yield from _pairs(page, contrast)
    if note := note_on_means(contrast, compared):
        yield from page.row("  means", note)
    yield from _difference(page, contrast)
    for change in contrast.plan_changes:
        yield from page.row(
            "  plan", f"{change.script}:{change.line}: {change.was} -> {change.became}"
        )
    yield from _statements(page, contrast)


def _statements(page: TextPage, contrast: ContrastFindings) -> Iterator[str]:
    """Yield the statements that got slower or faster, with both plans where they differ."""
    if not contrast.statements:
        return
    yield f"  {statement_note(contrast)}"
    for text, before_ms, change, calls, plan in statement_rows(contrast):
        yield f"    {text}"
        yield f"      {change}; {before_ms} ms before, {calls} calls"
        if plan != "the same":
            yield from page.row("      plan", plan, indent=12)


def _forest_cells(room: int) -> int:
    """Return the width of the forest plot: odd, so that "equal" has a cell in the middle."""
    width = max(_FOREST_WIDTH_MIN, min(_FOREST_WIDTH, room))
    return width - (width + 1) % 2


def _forest(ratio: Estimate, scale: Scale, width: int) -> str:
    """Return one line of the forest plot: the interval, its value, the mark of "equal"."""
    cells = [" "] * width
    middle = width // 2

    def place(value: float) -> int:
        return middle + round(scale.share(value) * middle)

    if ratio.low is not None and ratio.high is not None:
        for cell in range(place(ratio.low), place(ratio.high) + 1):
            cells[cell] = "-"
    cells[middle] = "|" if cells[middle] == " " else "+"
    cells[place(ratio.value)] = "o"
    return "".join(cells)


def _axis(scale: Scale, width: int) -> str:
    low, high = scale.label(scale.low_ratio), scale.label(scale.reach_ratio)
    half = (width + 2) // 2
    return f"{low:{half}}|{high:>{half}}"


def _pairs(page: TextPage, contrast: ContrastFindings) -> Iterator[str]:
    shown = contrast.pairs[-_PAIRS_SHOWN:]
    if not shown:
        return
    said = [signed((pair.ratio - 1) * 100, 1) for pair in shown]
    left_out = len(contrast.pairs) - len(shown)
    head = f"the last {len(shown)}, " if left_out else ""
    yield from page.row("  by round", f"{head}%: {' '.join(said)}")


def _difference(page: TextPage, contrast: ContrastFindings) -> Iterator[str]:
    difference = contrast.difference
    if contrast.why_not_split:
        yield from page.row("  time", f"not split into parts: {contrast.why_not_split}.")
    if difference is None:
        return
    total = difference.latency_ms
    parts = [part for part in difference.parts if abs(part.ms.value) >= 0.0005][:_PARTS_SHOWN]
    is_early = is_too_early(difference, parts)
    note = " (no interval yet)" if is_early else ""
    decimals = difference_decimals(total, parts, is_early=is_early)
    # A part that would be printed as 0 belongs to the rest.
    parts = [part for part in parts if round(part.ms.value, decimals)]
    yield f"  where the difference of {signed(total.value, decimals)} ms per transaction is{note}"
    rest = total.value - sum(part.ms.value for part in parts)
    for part in parts:
        words = words_of(part.name)
        name = f"  {part.name}" if ":" in part.name and part.name != words else ""
        ends = ""
        if not is_early and part.ms.low is not None and part.ms.high is not None:
            ends = f"({signed(part.ms.low, decimals)} to {signed(part.ms.high, decimals)})"
        line = f"    {signed(part.ms.value, decimals):>9}  {ends:22}  {words}"
        yield line + name if len(line + name) <= page.column_count else line
    yield f"    {signed(rest, decimals):>9}  {'':22}  {REST}"


def _steps(page: TextPage, compared: CompareFindings) -> Iterator[str]:
    yield "each pass compared with the pass before"
    width = max(len(step.variant) for step in compared.steps)
    for step in compared.steps:
        change = change_text(step.deciding.ratio)
        said = f"{metric_name(compared.metric)} {change}: {step.deciding.verdict}"
        yield from page.row(f"  {step.variant}", said, indent=width + 4)


def _effects(page: TextPage, compared: CompareFindings) -> Iterator[str]:
    if not compared.effects:
        return
    yield f"effects on {metric_name(compared.metric)}"
    width = max(len(effect.name) for effect in compared.effects)
    for effect in compared.effects:
        yield from page.row(f"  {effect.name}", _effect_text(effect), indent=width + 4)


def _effect_text(effect: Effect) -> str:
    sure = "certain" if effect.is_sure else "not certain"
    alias = (
        f"; cannot be separated from {', '.join(effect.aliased_with)}"
        if effect.aliased_with
        else ""
    )
    return f"{change_text(effect.ratio)}  {sure} (p {effect.p_adjusted_ratio:.2g}, Holm){alias}"
