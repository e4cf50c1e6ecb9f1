"""The time that the server planned statements, where the server counts it."""

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
    ids = {query_id for place in places for query_id in place.query_ids}
    ended = numbers.counts.completed + numbers.counts.failed
    planned_ns = 0.0
    for growth in counters_of(stored, "statements"):
        if int(growth.key["query_id"]) in ids:
            planned_ns += grown(growth, "plan_time_ns", *numbers.span_ns) or 0.0
    return planned_ns / ended / 1e6 if planned_ns and ended else None
