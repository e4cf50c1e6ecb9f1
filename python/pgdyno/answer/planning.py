"""The time that the server planned and compiled statements, where the server counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_statements import StatementPlace
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.store.stored_run import StoredRun


def with_planning(
    where: WhereTheTimeGoes,
    stored: StoredRun,
    numbers: LoadNumbers,
    places: Sequence[StatementPlace],
) -> WhereTheTimeGoes:
    """Return the split with the times of planning and JIT, which never exceed the server's time.

    What pg_stat_statements counts may be more: JIT begins before the count of an execution, and
    with the extended protocol the server counts its time without Parse and Bind.
    """
    planning, compiling = (
        planning_ms(stored, numbers, places),
        compiling_ms(stored, numbers, places),
    )
    # A difference of two measured times is below 0 by chance, if the server did hardly anything.
    whole_ms = max(where.server_ms or 0.0, 0.0)
    counted_ms = (planning or 0.0) + (compiling or 0.0)
    ratio = whole_ms / counted_ms if counted_ms > whole_ms else 1.0
    return replace(
        where,
        planning_ms=None if planning is None else planning * ratio,
        compiling_ms=None if compiling is None else compiling * ratio,
        planned_too_long_ms=counted_ms if ratio < 1 else 0.0,
    )


def planning_ms(
    stored: StoredRun, numbers: LoadNumbers, places: Sequence[StatementPlace]
) -> float | None:
    """Return how long the server planned the scripts' statements, in ms of a mean transaction.

    The count is that of pg_stat_statements, which counts planning with `track_planning` only.
    Returns: None if it is not known: the extension was not observed, or it counted no planning.
    """
    return _counted_ms(stored, numbers, places, "plan_time_ns") or None


def compiling_ms(
    stored: StoredRun, numbers: LoadNumbers, places: Sequence[StatementPlace]
) -> float | None:
    """Return how long the server compiled the statements (JIT), in ms of a mean transaction.

    The count is that of pg_stat_statements 1.10 (PostgreSQL 15) and later.
    Returns: None if it is not known, because the extension was not observed or is older.
    """
    return _counted_ms(stored, numbers, places, "jit_time_ns")


def _counted_ms(
    stored: StoredRun, numbers: LoadNumbers, places: Sequence[StatementPlace], counter: str
) -> float | None:
    """Return the mean growth of a counter of the scripts' statements; None without a count.

    The extension is read every 10 s, so its counts are of a longer time than the measured phase.
    Therefore the time of a call is taken from its own calls, and the calls of a transaction are
    those that the engine counted.
    """
    ended = numbers.counts.completed + numbers.counts.failed
    calls = {
        query_id: sum(place.calls for place in places if query_id in place.query_ids)
        for query_id in {query_id for place in places for query_id in place.query_ids}
    }
    known = []
    for growth in counters_of(stored, "statements"):
        called, spent_ns = (growth.by_column.get(name) for name in ("calls", counter))
        if (query_id := int(growth.key["query_id"])) not in calls or spent_ns is None:
            continue
        if called is not None and called.sum() > 0 and not np.isnan(spent_ns).all():
            each_ns = float(np.nansum(spent_ns)) / float(called.sum())
            known.append(each_ns * calls[query_id])
    return sum(known) / ended / 1e6 if known and ended else None
