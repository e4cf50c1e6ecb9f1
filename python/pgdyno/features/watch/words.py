"""Words for the numbers of a watch, which several blocks of its answer share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pgdyno.analysis.at_work import SIGHTINGS_MIN
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.quantities import counted, fixed, percent, plain_decimals
from pgdyno.report.numbers import estimate_text, value_text

# Samples further away than this from the server's count are printed next to it.
_APART_RATIO = 0.05
# The number of a tile below this is as good as none.
_LEAST = 0.05

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
    return (estimate_text(mean) if mean.has_interval else value_text(mean)) + how_words(sessions)


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
    return f" This number is from samples, because {why}." if why else ""


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
    return _seen_words(part, share.scaled(100, "%")) if share.has_interval else percent(share.value)


def call_words(statement: Document) -> str:
    """Return "4.9 (4.5 to 5.3)", "under 0.07" if there are few sightings, or "0.3; 6 not ended"."""
    per_call, unfinished = call_ms(statement), statement.get("unfinished_calls", 0)
    words = "not timed" if per_call is None else _seen_words(statement, replace(per_call, unit=""))
    if unfinished:
        words = f"{words}; " * (per_call is not None) + f"{unfinished} not ended"
    return words


def _seen_words(part: Document, estimate: Estimate) -> str:
    if not is_seen_enough(part) and estimate.high is not None:
        # One digit, rounded up because it is an upper end.
        decimals = max(plain_decimals(estimate.high, 1), 0)
        upper = math.ceil(estimate.high * 10**decimals) / 10**decimals
        return f"under {fixed(upper, decimals)} {estimate.unit}".rstrip()
    if estimate.has_interval:
        return estimate_text(estimate, with_unit=True)
    return value_text(estimate)


def wait_words(statement: Document) -> str:
    """Return "Lock:transactionid (57 %)", or "seen 3 times" if these are too few."""
    if not is_seen_enough(statement):
        return f"seen {counted(statement['sightings'], 'time')}"
    worst = statement["waits"][0]
    return f"{worst['wait_event']} ({percent(worst['share_ratio'])})"


def cost_words(cost: Document | None) -> str:
    """Return "pgdyno uses 0.4 % of a core here, 0.6 % of a server core"; "" if not known."""
    if cost is None:
        return ""
    here, there = cost["lab_cores"], cost["server_cores"]
    server = f", {percent(there)} of a server core" if there is not None else ""
    return f"pgdyno uses {percent(here)} of a core here{server}"


def number_text(value: float | None) -> str:
    """Return a number of a tile with at most one decimal: "1,902", "22.7", "under 0.1"."""
    if value is None:
        return "not measured"
    if 0 < value < _LEAST:
        return "under 0.1"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")


def by_waiters(document: Document) -> str:
    """Return ", 0 of them by the 6 sessions that wait for a lock".

    "" if nobody was stuck, or if nobody else works either.
    """
    stuck = [
        finding["evidence"]
        for finding in document.get("findings", ())
        if finding["kind"].startswith("lock queue") and not finding["is_over"]
    ]
    count = sum(queue.get("waiting", 0) for queue in stuck)
    is_idle = round(document["tps"] or 0.0) == 0
    if not count or is_idle or any(queue.get("completed", 0) for queue in stuck):
        return ""
    return f", 0 of them by the {count} sessions that wait for a lock"
