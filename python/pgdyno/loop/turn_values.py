"""The metrics of each turn of a load in which variants took turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pgdyno.measure.turns import TURNS
from pgdyno.plan.history import TurnValues
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.stored_run import StoredRun

# A turn without any transaction is slow, not unknown.
_LEAST_COUNT = 0.5


def turns_of(planned: PlannedRun, stored: StoredRun) -> tuple[TurnValues, ...]:
    """Return the planned turns of a run with what was measured, in order; none without turns."""
    if not planned.turns:
        return ()
    noted = (stored.document(TURNS) or {}).get("turns", [])
    intervals = stored.intervals()
    scripts = stored.hello.get("scripts", ())
    waited_for = [n for n, shape in enumerate(scripts) if not shape.get("is_background")]
    counts = intervals["completed_by_script"]
    completed = (counts[:, waited_for] if scripts else counts).sum(axis=1)
    ended_ns = np.asarray(intervals["time_ns"])
    made = [TurnValues(_metrics(turn, ended_ns, completed), turn["refused"]) for turn in noted]
    # A turn that did not begin has no value.
    return (*made, *(TurnValues({}, "") for _ in planned.turns[len(made) :]))


def _metrics(turn: dict[str, Any], ended_ns: Any, completed: Any) -> dict[str, float]:
    return {} if turn["refused"] or not turn["from_ns"] else dict(_known(turn, ended_ns, completed))


def _known(turn: dict[str, Any], ended_ns: Any, completed: Any) -> Iterator[tuple[str, float]]:
    within = (ended_ns > turn["from_ns"]) & (ended_ns <= turn["to_ns"])
    count, seconds = float(completed[within].sum()), (turn["to_ns"] - turn["from_ns"]) / 1e9
    if seconds <= 0:
        return
    yield "tps", max(count, _LEAST_COUNT) / seconds
    if turn.get("wal_bytes") and count:
        yield "wal_per_tx", turn["wal_bytes"] / count
