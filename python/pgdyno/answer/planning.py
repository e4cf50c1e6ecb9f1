"""The time that the server planned and compiled statements, where the server counts it."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.analysis.where_statements import Place
from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.store.stored_run import StoredRun


def planning_ms(stored: StoredRun, numbers: LoadNumbers, places: Sequence[Place]) -> float | None:
    """Return how long the server planned the scripts' statements, in ms of a mean transaction.

    The count is that of pg_stat_statements, which counts planning with `track_planning` only.
    Returns: None if it is not known: the extension was not observed, or it counted no planning.
    """
    return _counted_ms(stored, numbers, places, "plan_time_ns") or None


def compiling_ms(stored: StoredRun, numbers: LoadNumbers, places: Sequence[Place]) -> float | None:
    """Return how long the server compiled the statements (JIT), in ms of a mean transaction.

    The count is that of pg_stat_statements 1.10 (PostgreSQL 15) and later.
    Returns: None if it is not known, because the extension was not observed or is older.
    """
    return _counted_ms(stored, numbers, places, "jit_time_ns")


def _counted_ms(
    stored: StoredRun, numbers: LoadNumbers, places: Sequence[Place], counter: str
) -> float | None:
    """Return the growth of a counter of the scripts' statements; None without a count."""
    ids = {query_id for place in places for query_id in place.query_ids}
    ended = numbers.counts.completed + numbers.counts.failed
    growths = [
        grown(growth, counter, *numbers.span_ns)
        for growth in counters_of(stored, "statements")
        if int(growth.key["query_id"]) in ids
    ]
    known = [ns for ns in growths if ns is not None]
    return sum(known) / ended / 1e6 if known and ended else None
