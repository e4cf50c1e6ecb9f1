"""The answer in one sentence for readers who do not know the words of the field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pgdyno.analysis.compare import Verdict
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings, VariantFindings
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import CurveFindings
from pgdyno.analysis.losses import Loss
from pgdyno.analysis.rounding import change_text, range_words, value_words
from pgdyno.programs.registry import own_metrics
from pgdyno.report.block_charts import SentenceBlock
from pgdyno.settings.rule import MAJORS, rule_of

# From this ratio on, and below its inverse, "1.5 times as many" is easier than "50 % more".
_TIMES_MIN = 1.5
_NAMED_MAX = 4
_AMOUNTS = {
    "tps": "transactions a second",
    **{name: metric.words for name, metric in own_metrics().items()},
}
_TIMES = {
    "p50": "the typical answer time",
    "p99": "the time of the slowest 1 % of answers",
    "mean": "the mean answer time",
    "cpu_per_tx": "the CPU time of a transaction",
    "wal_per_tx": "the WAL of a transaction",
    "duration": "the duration",
}
_DAMAGING = frozenset({"fsync", "full_page_writes"})


def sentence(words: str) -> SentenceBlock:
    """Return the sentence as the first of the answer."""
    return SentenceBlock("in short", words)


def of_compare(compared: CompareFindings) -> str:
    """Return what each variant changes; "" without a comparison."""
    contrasts, metric = compared.contrasts, compared.metric
    said = list(_of_effects(compared))
    unknown = [of for of in contrasts if not _is_known(of)]
    known = [of for of in contrasts if of not in unknown]
    said += [_of_contrast(metric, contrast) for contrast in known[:_NAMED_MAX]]
    if (more := len(known) - _NAMED_MAX) > 0:
        said.append(f"{more} more comparisons are below")
    if len(unknown) == 1:
        said.append(_of_contrast(metric, unknown[0]))
    elif unknown:
        names = [f"{_quoted(of.variant)} than {_quoted(of.reference)}" for of in unknown]
        listed = ", or ".join(names[:_NAMED_MAX]).replace(" than ", " is better than ", 1)
        cells = "for single cells, " if compared.effects else ""
        said.append(f"{cells}it is not known whether {listed}")
    if not said:
        return ""
    words = "; ".join(said)
    subject = _subject(compared)
    words = words if subject else f"{words[0].upper()}{words[1:]}"
    return f"{subject}{words}{price(compared.variants)}."


def _of_effects(compared: CompareFindings) -> Iterator[str]:
    """Yield what each value of the factor that is varied changes over all cells, if certain."""
    grid = compared.grid
    if grid is None or not grid.names:
        return
    first = next(level for row in grid.names.values() for level in row)
    for effect in compared.effects:
        [factor, level] = effect.terms[0]
        if len(effect.terms) == 1 and factor == grid.varied and effect.is_sure:
            names = (f"{factor}={level}", f"{factor}={first}")
            words = _change(compared.metric, _verdict(effect.ratio), effect.ratio, *names)
            yield f"on average over {grid.others or 'all cells'}, {words}"


def _is_known(of: ContrastFindings) -> bool:
    """Return whether the deciding metric, p50 or p99 is decided."""
    others = (of.comparisons[name].verdict for name in ("p50", "p99") if name in of.comparisons)
    return any(verdict != "cannot tell" for verdict in (of.deciding.verdict, *others))


def _of_contrast(metric: str, of: ContrastFindings) -> str:
    """Return the change of the deciding metric; if it is not known, also those that are."""
    words = _change(metric, of.deciding.verdict, of.deciding.ratio, of.variant, of.reference)
    if of.deciding.verdict != "cannot tell":
        return words
    sure = [
        _change(name, other.verdict, other.ratio, of.variant, of.reference)
        for name, other in of.comparisons.items()
        if name in ("p50", "p99") and other.verdict in ("lower", "higher")
    ]
    return ", but ".join([words, *([" and ".join(sure)] if sure else [])])


def _subject(compared: CompareFindings) -> str:
    """Return "synchronous_commit: ", the setting that the names of the variants do not say."""
    changed = {name for variant in compared.variants for name, _ in variant.changes}
    if len(changed) != 1 or any(
        variant.name.startswith((*changed,)) for variant in compared.variants
    ):
        return ""
    [name] = changed
    return f"{name}: " if rule_of(name, MAJORS[-1]) is not None else ""


def of_curves(curves: Sequence[CurveFindings]) -> str:
    """Return the highest throughput of each curve, and what a variant changes; "" without one.

    Of many scripts the answer says it as shortly.
    """
    if len(curves) > 2 and all(of.speed_up is None for of in curves):
        return ""
    said = [
        _change("tps", _verdict(of.speed_up.mean), of.speed_up.mean, of.script, curves[0].script)
        for of in curves[1:_NAMED_MAX]
        if of.speed_up is not None
    ]
    for of in curves[: 1 if said else _NAMED_MAX]:
        peak, knee = of.curve.peak, of.curve.knee
        word = f"with {of.script} " if len(curves) > 1 else ""
        words = f"{word}the server did at most {value_words(peak.tps)} transactions a second"
        words += f"{range_words(peak.tps)}, with {of.load_words(peak.clients)} at the same time"
        if peak.is_at_edge:
            words += "; it may do more, because no higher load was tried"
        elif knee.clients < peak.clients:
            words += f"; above {of.load_words(knee.clients)}, answers mostly take longer"
        said.append(words)
    words = "; ".join(said)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _verdict(ratio: Estimate) -> Verdict:
    is_sure = (ratio.low or 0) > 1 or (ratio.high is not None and ratio.high < 1)
    return "faster" if is_sure else "cannot tell"


def gained(metric: str, ratio: Estimate, settings: Iterable[str]) -> str:
    """Return what proposed settings bring: "with a = 1 ... as with your settings"."""
    words = _change(metric, "faster", ratio, " and ".join(settings), "your settings")
    return f"{words[0].upper()}{words[1:]}"


def price(variants: Sequence[VariantFindings]) -> str:
    """Return what a crash takes with the settings of these variants; "" if they are durable."""
    weak = [variant for variant in variants if variant.weakened]
    if not weak:
        return ""
    names = ", ".join(_quoted(variant.name) for variant in weak)
    return f"; with {names}, {crash_words({n for v in weak for n in v.weakened}, weak[0].losses)}"


def crash_words(weakened: set[str], losses: Sequence[Loss] = ()) -> str:
    """Return what a crash takes: as measured, or as the manual says."""
    if losses:
        return "; ".join(loss.sentence() for loss in losses)
    if weakened & _DAMAGING:
        return "a crash can damage the whole database"
    return "a crash can lose the commits of the last 0.6 s (3 x wal_writer_delay, if not changed)"


def _quoted(name: str) -> str:
    """Return a name that has a comma in quotes, so that it is seen where the name ends."""
    return f'"{name}"' if "," in name else name


def _change(metric: str, verdict: Verdict, ratio: Estimate, variant: str, reference: str) -> str:
    """Return "with off the server did 3.1 times (2.8 to 3.4) as many transactions a second ..."."""
    variant, reference = _quoted(variant), _quoted(reference)
    amount, time, value = _AMOUNTS.get(metric), _TIMES.get(metric, metric), ratio.value
    subject = f"the number of {amount}" if amount else time
    if verdict == "no difference":
        return f"{subject} is the same with {variant} and {reference}, as far as it matters"
    if verdict == "cannot tell" or ratio.low is None or ratio.high is None:
        words = f"it is not known whether {variant} is better than {reference}"
        is_known = ratio.low is not None and ratio.high is not None
        return f"{words}: {subject} changed by {change_text(ratio)}" if is_known else words
    did = f"with {variant} the server did" if amount else f"with {variant}, {time} was"
    if value >= _TIMES_MIN or value <= 1 / _TIMES_MIN:
        size = f"{did} {value_words(ratio)} times{range_words(ratio)}"
        return (
            f"{size} as many {amount} as with {reference}"
            if amount
            else f"{size} that with {reference}"
        )
    is_more = value > 1
    grown = (
        ratio
        if is_more
        else replace(ratio, value=2 - value, low=2 - ratio.high, high=2 - ratio.low)
    )
    more = "more" if is_more else "fewer" if amount else "less"
    named = f"{more} {amount}" if amount else more
    return f"{did} {change_text(grown).removeprefix('+')} {named} than with {reference}"
