"""Comparisons in words: the verdict and its reason, the answer in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analysis.compare import Comparison
from pgdyno.analysis.compare_findings import CompareFindings, Pair, PlanChange
from pgdyno.analysis.rounding import change_text
from pgdyno.analysis.where import LatencyPart
from pgdyno.analysis.where_difference import Difference
from pgdyno.quantities import counted, difference_ms, duration_text
from pgdyno.spec.designs import METRIC_WORDS, MORE_IS_BETTER

_PARTS_NAMED = 3
_NAMED_RATIO_MIN = 0.1
# An interval is wide if its upper end is this number of times its lower end.
_WIDE_RATIO = 1.25
_CHANGED_RATIO_MIN = 0.1
_AGREEING_MIN = 3


@dataclass(frozen=True, slots=True)
class RoundsEstimate:
    """How many rounds of a new comparison would probably decide, and how long they take."""

    rounds: int
    took_ns: int


def verdict_sentence(
    variant: str,
    reference: str,
    metric: str,
    comparison: Comparison,
    *,
    others: Mapping[str, Comparison],
    rounds: str,
    because: str,
    effort: str,
    left_ns: int | None,
    enough: RoundsEstimate | None,
    can_hold: bool,
) -> str:
    """Return the verdict, then the numbers, then the reason, then the effort.

    Args: others, further metrics to name; rounds, from `round_words`; enough, None if the
    experiment goes on or nobody knows; effort, such as "12 rounds, 24 runs, 31 min".
    """
    word = METRIC_WORDS[metric]
    is_open = comparison.verdict == "cannot tell"
    numbers = f"{'' if is_open else f'{word} '}{change_text(comparison.ratio)}"
    numbers += "".join(
        f", {METRIC_WORDS[name]} {_certainly(other) * is_open}{change_text(other.ratio)}"
        for name, other in others.items()
    )
    margin = f"{100 * comparison.margin_ratio:.2g} %"
    yet = "" if comparison.looks == "fixed" else " yet"
    verdicts = {
        "faster": f"{variant} is faster than {reference}",
        "slower": f"{variant} is slower than {reference}",
        "lower": f"{variant}: {word} lower than {reference}",
        "higher": f"{variant}: {word} higher than {reference}",
        "no difference": f"{variant} and {reference} differ by no more than {margin}",
        "cannot tell": f"cannot tell{yet} whether {variant} and {reference} differ in {word}",
    }
    parts = [f"{verdicts[comparison.verdict]}: {numbers}"]
    if rounds:
        parts.append(rounds)
    if not can_hold:
        parts.append(f"{variant} cannot hold the rate")
    if because:
        parts.append(because)
    if is_open and enough is not None:
        took = duration_text(enough.took_ns)
        again = f"start again with --rounds {enough.rounds}"
        parts.append(f"about {enough.rounds} rounds in {took} would decide ({again})")
    elif is_open and left_ns:
        parts.append(f"about {duration_text(left_ns)} more")
    return "; ".join([*parts, effort]) + "."


def _certainly(other: Comparison) -> str:
    """Return "certainly lower: " of another metric, or ""."""
    return f"certainly {other.verdict}: " * (other.verdict in ("lower", "higher"))


def round_words(pairs: Sequence[Pair], comparison: Comparison, metric: str) -> str:
    """Return whether few rounds agree with a direction, and why their interval is wide.

    Returns: "" if the interval is narrow: then it says enough.
    """
    ratio = comparison.ratio
    has_interval = ratio.low is not None and ratio.high is not None
    if ratio.low and ratio.high and ratio.high / ratio.low < _WIDE_RATIO:
        return ""
    parts = []
    least = min((pair.ratio for pair in pairs), key=lambda r: r if ratio.value > 1 else -r)
    agree = all((pair.ratio > 1) == (ratio.value > 1) for pair in pairs)
    if comparison.verdict == "cannot tell" and agree and len(pairs) >= _AGREEING_MIN:
        # Chance alone does this in a quarter of comparisons of three rounds. So it does not decide.
        direction = "higher" if ratio.value > 1 else "lower"
        parts.append(f"{METRIC_WORDS[metric]} was {direction} in all {len(pairs)} rounds")
    if comparison.verdict in ("faster", "slower", "lower", "higher") and agree:
        # Rounded down, so that it holds for each round.
        percent_least = math.floor(100 * abs(least - 1) + 1e-9)
        bound = f": at least {percent_least:,} % {comparison.verdict} in each"
        parts.append(f"all {len(pairs)} rounds agree{bound if percent_least else ''}")
    values = [pair.reference_value for pair in pairs]
    changed = max(values) / min(values) - 1
    if has_interval and changed >= _CHANGED_RATIO_MIN:
        speed = "this machine's speed" if metric in MORE_IS_BETTER else METRIC_WORDS[metric]
        parts.append(f"the interval is wide because {speed} changed by {100 * changed:,.0f} %")
    return "; ".join(parts)


def because_words(difference: Difference | None, plans: tuple[PlanChange, ...]) -> str:
    """Return the reasons: changed plans, or the significantly changed parts, the largest first.

    Args: plans, those that explain the difference. A part is a reason if its interval between runs
    excludes 0, it changed in the same direction as the latency, and its change is at least a tenth
    of the change of the latency.
    """
    if plans:
        first = plans[0]
        more = f", and {len(plans) - 1} more" if len(plans) > 1 else ""
        return (
            f"because {first.script}:{first.line} changed its plan: {first.was} -> {first.became}"
            f"{more}"
        )
    if difference is None:
        return ""
    total = difference.latency_ms.value
    sure = [part for part in difference.parts if _is_sure(part) and part.ms.value * total > 0]
    named = [part for part in sure if part.ms.value / total >= _NAMED_RATIO_MIN][:_PARTS_NAMED]
    if not named or math.isclose(total, 0, abs_tol=1e-9):
        return ""
    largest, *others = named
    went, less = ("fell", "less") if total < 0 else ("rose", "more")
    listed = "".join(f", {part.name} by {difference_ms(part.ms.value)}" for part in others)
    return (
        f"because {largest.name} {went} by {difference_ms(largest.ms.value)}{listed} ms per"
        " transaction "
        f"({difference_ms(total)} ms {less} in total)"
    )


def _is_sure(part: LatencyPart) -> bool:
    low, high = part.ms.low, part.ms.high
    return low is not None and high is not None and (low > 0 or high < 0)


def comparison_sentence(findings: CompareFindings) -> str:
    """Return the answer in sentences: contrasts, excluded variants, significant effects."""
    words = [contrast.sentence for contrast in findings.contrasts]
    if findings.effects:
        words.append(_effects_sentence(findings))
    words += [
        f"Variant {variant.name} cannot be measured: {variant.cannot_start.rstrip('.')}."
        for variant in findings.variants
        if variant.cannot_start
    ]
    return " ".join(words) or f"Nothing was compared: {findings.stopped_by}."


def _effects_sentence(findings: CompareFindings) -> str:
    sure = [effect for effect in findings.effects if effect.is_sure]
    if not sure:
        return (
            f"No factor has a certain effect on {METRIC_WORDS[findings.metric]} after "
            f"{counted(findings.rounds, 'round')}."
        )
    listed = [
        f"{effect.name} {change_text(effect.ratio)}"
        for effect in sorted(sure, key=lambda certain: certain.p_adjusted_ratio)
    ]
    rounds = counted(findings.rounds, "round")
    word = METRIC_WORDS[findings.metric]
    return f"Certain effects on {word}: {', '.join(listed)}; {rounds}."
