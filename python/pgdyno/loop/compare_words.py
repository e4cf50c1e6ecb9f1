"""Comparisons in words: the outlook while they run, the verdict and its reason at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pgdyno.analysis.compare import Comparison
from pgdyno.analysis.compare_findings import PlanChange
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.where import Part
from pgdyno.analysis.where_difference import Difference
from pgdyno.plan.compare import Standing, standings
from pgdyno.plan.history import History, rounds
from pgdyno.spec.experiment import CompareDesign, Experiment
from pgdyno.spec.units import duration_text

METRIC_WORDS = {
    "tps": "tps",
    "p50": "p50",
    "p99": "p99",
    "mean": "mean latency",
    "cpu_per_tx": "server CPU a transaction",
    "wal_per_tx": "WAL a transaction",
    "duration": "duration",
}
_PARTS_NAMED = 3
_NAMED_RATIO_MIN = 0.1


def outlook_words(experiment: Experiment, history: History, excluded: frozenset[int]) -> str:
    """Return how a comparison stands after a whole round: "B ahead by 2.0 % +- 1.4 (tps), ..."."""
    counted = rounds(history)
    if not isinstance(experiment.design, CompareDesign) or not counted:
        return ""
    found = standings(experiment, history, excluded)
    sizes = {standing.ratios.size for standing in found if not standing.is_settled}
    last = counted[-1].run.round
    if sizes and last not in sizes:
        return ""  # in the middle of a round
    words = [_standing_words(experiment, standing) for standing in found]
    return f"round {last}: " + "; ".join(word for word in words if word)


def _standing_words(experiment: Experiment, standing: Standing) -> str:
    found = standing.comparison
    if found is None:
        return ""
    name = experiment.variant(standing.variant).name
    metric = METRIC_WORDS[experiment.metric()]
    change = f"{name} {metric} {change_text(found.ratio)}"
    if standing.is_settled:
        return f"{change}, decided"
    if standing.left_ns is None:
        return f"{change}, cannot tell yet"
    if not standing.is_within_budget:
        needed = duration_text(standing.left_ns)
        return f"{change}, would need {needed}, more than the budget leaves"
    return f"{change}, decided in about {duration_text(standing.left_ns)}"


def change_text(ratio: Estimate) -> str:
    """Return a ratio as a change: "+37.1 % (35.0 to 39.4)", "-8 % (-11 to +2)".

    The ends carry a plus sign only where the other has a minus. Without an interval:
    "+3 % (no interval yet)".
    """
    value = (ratio.value - 1) * 100
    if ratio.low is None or ratio.high is None:
        return f"{_signed(value, 1)} % (no interval yet)"
    low, high = (ratio.low - 1) * 100, (ratio.high - 1) * 100
    width = high - low
    digits = 0 if width >= 20 else 1 if width >= 0.4 else 2
    ends = f"{_signed(low, digits)} to {_signed(high, digits)}"
    return f"{_signed(value, digits)} % ({ends.replace('+', '') if low >= 0 else ends})"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+,.{digits}f}"
    return text[1:] if float(text.replace(",", "")) == 0 else text


def verdict_sentence(
    variant: str,
    reference: str,
    metric: str,
    found: Comparison,
    *,
    others: Mapping[str, Comparison],
    because: str,
    effort: str,
    left_ns: int | None,
    can_hold: bool,
) -> str:
    """Return the verdict first, then the numbers, then why, then what it took.

    Args: others, further metrics to name; effort, such as "12 rounds, 24 runs, 31 min".
    """
    word = METRIC_WORDS[metric]
    numbers = f"{word} {change_text(found.ratio)}"
    numbers += "".join(
        f", {METRIC_WORDS[name]} {change_text(one.ratio)}" for name, one in others.items()
    )
    margin = f"{100 * found.margin_ratio:.2g} %"
    verdicts = {
        "faster": f"{variant} is faster than {reference}",
        "slower": f"{variant} is slower than {reference}",
        "lower": f"{variant}: {word} lower than {reference}",
        "higher": f"{variant}: {word} higher than {reference}",
        "no difference": f"{variant} and {reference} differ by no more than {margin}",
        "cannot tell": f"cannot tell yet whether {variant} and {reference} differ",
    }
    parts = [f"{verdicts[found.verdict]}: {numbers}"]
    if not can_hold:
        parts.append(f"{variant} cannot hold the rate")
    if because:
        parts.append(because)
    if found.verdict == "cannot tell" and left_ns:
        parts.append(f"about {duration_text(left_ns)} more")
    return "; ".join([*parts, effort]) + "."


def because_words(difference: Difference | None, plans: tuple[PlanChange, ...]) -> str:
    """Return why: changed plans first, then the parts whose change is sure, the largest first.

    A part counts when its interval between runs excludes 0, it goes the way the latency goes, and
    it is a tenth of it: what explains less is no reason.
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
    listed = "".join(f", {part.name} by {_ms(part.ms.value)}" for part in others)
    return (
        f"because {largest.name} {went} by {_ms(largest.ms.value)}{listed} ms a transaction"
        f" ({_ms(total)} ms {less} in all)"
    )


def _is_sure(part: Part) -> bool:
    low, high = part.ms.low, part.ms.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _ms(value: float) -> str:
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{size:.{digits}f}"
