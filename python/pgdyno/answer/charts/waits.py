"""The chart of active sessions by what they wait for, of a run or of the segments of a watch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, coded
from pgdyno.analysis.findings import Panel
from pgdyno.answer.charts.drawing import series
from pgdyno.answer.time_split import events_seen
from pgdyno.store.parquet import Arrays

_SHOWN = 7


def waits_panel(
    parts: Iterable[tuple[Arrays, npt.NDArray[np.bool_]]],
    origin_ns: int,
    count: int,
    *,
    span_ns: int = 1_000_000_000,
    scale: float = 1.0,
) -> Panel | None:
    """Return means over `count` equal spans of time, the largest events first.

    Args: parts, samples of waits, and which of their rows count; scale, a factor of all means.
    Returns: None without a session that counts.
    """
    taken = np.zeros(count)
    by_event: defaultdict[str, FloatArray] = defaultdict(lambda: np.zeros(count))
    for waits, counted in parts:
        time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
        place = np.clip((time_ns - origin_ns) // span_ns, 0, count - 1)
        taken += np.bincount(place[np.unique(time_ns, return_index=True)[1]], minlength=count)
        events, event = coded(events_seen(waits)[counted].tolist())
        sessions = np.asarray(waits["count"], dtype=np.float64)[counted]
        for number, name in enumerate(events):
            rows = event == number
            by_event[name] += np.bincount(place[counted][rows], sessions[rows], count)
    if not by_event:
        return None
    ranked = sorted(by_event, key=lambda name: (-by_event[name].sum(), name))
    lines = {name or "CPU or not instrumented": by_event[name] for name in ranked[:_SHOWN]}
    if len(ranked) > _SHOWN:
        lines["other"] = np.sum([by_event[name] for name in ranked[_SHOWN:]], axis=0)
    with np.errstate(invalid="ignore"):
        drawn = tuple(series(name, scale * line / taken) for name, line in lines.items())
    axis = tuple(((np.arange(count) + 0.5) * span_ns / 1e9).round(3).tolist())
    title = "Active sessions by what they wait for"
    return Panel("waits", title, "sessions", axis, drawn, is_stacked=True)
