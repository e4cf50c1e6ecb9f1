"""Words for the text and the page of a watch, so that both print a number in the same way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pgdyno.analysis.at_work import SIGHTINGS_MIN
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.quantities import fixed, percent, plain_decimals
from pgdyno.report.numbers import interval_text, value_text

# Samples further away than this from the server's count are printed next to it.
_APART_RATIO = 0.05

Document = Mapping[str, Any]

WORKERS_COUNTED = "the server counts two transactions for each start of a parallel worker"


def estimate_in(
    document: Document, value: str, low: str = "low", high: str = "high", unit: str = ""
) -> Estimate | None:
    """Return the estimate of a document under these keys; None if the document has none.

    Results of older versions have no intervals.
    """
    number = document.get(value)
    if number is None:
        return None
    ends = document.get(low), document.get(high)
    if None in ends:
        return without_interval(number, unit)
    return Estimate(number, *ends, 2, unit, "within_run")


def sessions_words(sessions: Document) -> str:
    """Return "3.02 (2.95 to 3.09), counted by the server"."""
    mean = estimate_in(sessions, "mean")
    if mean is None:
        return "not visible to this role"
    words = value_text(mean)
    if mean.has_interval:
        words += f" ({interval_text(mean)})"
    return words + how_words(sessions)


def how_words(sessions: Document) -> str:
    """Return how the mean was made: ", counted by the server", and the mean from samples alone."""
    how = sessions.get("how")
    if how is None:
        return ""
    if how == "sampled":
        return ", sampled"
    alone = estimate_in(sessions, "sampled_mean", "sampled_low", "sampled_high")
    words = ", counted by the server"
    if alone is None or math.isclose(alone.value, sessions["mean"], rel_tol=_APART_RATIO):
        return words
    return f"{words} (samples alone: {value_text(alone)})"


def why_sampled_words(sessions: Document) -> str:
    """Return why samples are used instead of the server's count; "" if the count is used."""
    why = sessions.get("why_sampled")
    return f"{why}; the number from the samples is used" if why else ""


def peak_words(sessions: Document) -> str:
    """Return "at most 61 in 35,910 samples"."""
    if not sessions["samples"]:
        return "none were visible to this role"
    return f"at most {sessions['peak']} in {sessions['samples']:,} samples"


def call_ms(statement: Document) -> Estimate | None:
    """Return the time of one call of a statement, ms; None if calls were not counted."""
    keys = ("db_ms_per_call", "db_ms_per_call_low", "db_ms_per_call_high")
    # Results of older versions have only the time from pg_stat_statements, without an interval.
    return estimate_in(statement, *keys, unit="ms") or estimate_in(
        statement, "ms_per_call", "", "", unit="ms"
    )


def is_seen_enough(part: Document) -> bool:
    """Return whether there are enough sightings to show a value; with fewer, an upper end is shown.

    Results of older versions do not have the number of sightings; their values are shown.
    """
    return int(part.get("sightings", SIGHTINGS_MIN)) >= SIGHTINGS_MIN


def share_words(part: Document) -> str:
    """Return "41 % (38 to 44)", or "under 3 %" if there are few sightings."""
    share = estimate_in(part, "share_ratio", "share_low_ratio", "share_high_ratio")
    assert share is not None, "every part has a share"
    if not share.has_interval:
        return percent(share.value)
    whole = share.mapped(lambda ratio: 100 * ratio, "%")
    if not is_seen_enough(part) and whole.high is not None:
        return f"under {_upper(whole.high)} %"
    return f"{value_text(whole)} % ({interval_text(whole)})"


def call_words(statement: Document) -> str:
    """Return "4.9 (4.5 to 5.3)", or "under 0.07" if there are few sightings."""
    per_call = call_ms(statement)
    if per_call is None:
        return "not timed"
    if not is_seen_enough(statement) and per_call.high is not None:
        return f"under {_upper(per_call.high)}"
    return (
        f"{value_text(per_call)} ({interval_text(per_call)})"
        if per_call.has_interval
        else value_text(per_call)
    )


def _upper(value: float) -> str:
    """Return a number with one digit, rounded up because it is an upper end."""
    decimals = max(plain_decimals(value, 1), 0)
    return fixed(math.ceil(value * 10**decimals) / 10**decimals, decimals)


def half_width(estimate: Estimate) -> float | None:
    """Return the half-width of the interval, None without one."""
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / 2


def by_waiters(document: Document) -> str:
    """Return ", 0 of them by the 6 sessions that wait for a lock"; "" if nobody was stuck."""
    stuck = [
        finding["evidence"]
        for finding in document.get("findings", ())
        if finding["kind"].startswith("lock queue") and not finding["is_over"]
    ]
    count = sum(queue.get("waiting", 0) for queue in stuck)
    if not count or any(queue.get("completed", 0) for queue in stuck):
        return ""
    return f", 0 of them by the {count} sessions that wait for a lock"
