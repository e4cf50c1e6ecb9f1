"""Periods of stored watches: which samples belong to one, and its sums in batches of equal length.

A period is named RESULT, RESULT@14:00-14:10, or 14:00-14:10 of the result at hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray
from pgdyno.answer.time_split import events_seen
from pgdyno.errors import SpecError
from pgdyno.loop.counter_growth import growth_of
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.parquet import Arrays

# Few long batches: neighbouring seconds are alike, so that short ones would look too certain.
BATCHES_MAX = 10
_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?"
_NAMED = re.compile(rf"(?:(?P<result>.+)@)?(?P<begin>{_CLOCK})-(?P<end>{_CLOCK})")
# A longer step is a gap.
_STEP_RATIO = 3.0
# The end of a period that is a whole watch.
WHOLE_NS = 2**62

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Period:
    """A part of a watch; with `is_rest`, all of the watch but this part. Times are Unix ns."""

    folder: ExperimentFolder
    began_ns: int
    ended_ns: int
    name: str
    is_rest: bool = False

    def has(self, times_ns: Times) -> npt.NDArray[np.bool_]:
        """Return which moments are in the period."""
        inside = (times_ns >= self.began_ns) & (times_ns <= self.ended_ns)
        return ~inside if self.is_rest else inside

    @property
    def rest(self) -> Period:
        """Return everything of the same watch outside of this period."""
        name = f"the rest of #{self.folder.number}"
        return Period(self.folder, self.began_ns, self.ended_ns, name, is_rest=True)


@dataclass(frozen=True, slots=True)
class Batches:
    """Sums over batches. `of`: key -> one row a column, one number a batch."""

    seconds: FloatArray
    of: dict[tuple[str, ...], FloatArray]

    def get(self, key: tuple[str, ...], column: int) -> FloatArray:
        """Return the sums of a column; zeros for a key that is not in this period."""
        rows = self.of.get(key)
        return np.zeros(len(self.seconds)) if rows is None else rows[column]


def named_period(text: str, store: Store, at_hand: ExperimentFolder | None) -> Period:
    """Return the period that the user named.

    Args: at_hand, the result to which a period without a result belongs.
    Raises: SpecError, StoreError for a result that does not exist.
    """
    match = _NAMED.fullmatch(text.strip())
    result = text if match is None else match["result"]
    folder = store.find(result) if result else at_hand
    if folder is None:
        raise SpecError(
            f"{text} is a period, but no result is named to which it belongs.",
            hint="name it: RESULT@14:00-14:10; pgdyno list shows the results",
        )
    if folder.verb != "watch":
        raise SpecError(
            f"#{folder.number} is a {folder.verb}, not a watch.",
            hint="name the result of a watch; pgdyno list shows them",
        )
    if match is None:
        return Period(folder, 0, WHOLE_NS, f"#{folder.number}")
    began_ns = _moment(match["begin"], folder.began_ns)
    ended_ns = _moment(match["end"], began_ns)
    return Period(folder, began_ns, ended_ns, f"#{folder.number} {match['begin']}-{match['end']}")


def _moment(clock: str, after_ns: int) -> int:
    """Return the first moment with this local time that is not a minute before `after_ns`."""
    hour, minute, *second = (int(part) for part in clock.split(":"))
    after = datetime.fromtimestamp(after_ns / 1e9)
    try:
        moment = after.replace(
            hour=hour, minute=minute, second=second[0] if second else 0, microsecond=0
        )
    except ValueError:
        raise SpecError(
            f"{clock} is not a time of day.", hint="write hours and minutes, such as 14:05"
        ) from None
    if moment < after - timedelta(minutes=1):
        moment += timedelta(days=1)
    return int(moment.timestamp() * 1e9)


def growth(period: Period, table: str, keys: Sequence[str], columns: Sequence[str]) -> Batches:
    """Return the growth of counters in batches. Steps with a reset or over a gap are left out."""
    arrays = _joined(period, table)
    if arrays is None:
        return Batches(np.zeros(0), {})
    times = np.unique(arrays["time_ns"])
    place, seconds = _steps(times)
    rows_of: dict[tuple[str, ...], FloatArray] = {}
    for grown in growth_of(arrays, table):
        step = np.searchsorted(times, grown.time_ns) - 1
        kept = (place[step] >= 0) & (times[step] == grown.time_ns - grown.interval_ns)
        key = tuple(grown.key[name] for name in keys)
        sums = rows_of.setdefault(key, np.zeros((len(columns), len(seconds))))
        for row, column in enumerate(columns):
            values = np.nan_to_num(grown.by_column[column][kept])
            sums[row] += np.bincount(place[step][kept], values, len(seconds))
    return Batches(seconds, rows_of)


def sessions_at_work(period: Period) -> Batches:
    """Return the mean number of active sessions of clients by wait event, in batches."""
    arrays = _joined(period, "waits")
    if arrays is None:
        return Batches(np.zeros(0), {})
    times = np.unique(arrays["time_ns"])
    batch_count = min(BATCHES_MAX, len(times))
    batch = np.arange(len(times)) * batch_count // max(len(times), 1)
    samples = np.bincount(batch, minlength=batch_count).astype(np.float64)
    is_work = (arrays["backend_type"] == "client backend") & (arrays["state"] == "active")
    events, counts = events_seen(arrays), arrays["count"].astype(np.float64)
    place = batch[np.searchsorted(times, arrays["time_ns"])]
    means: dict[tuple[str, ...], FloatArray] = {}
    for event in set(events[is_work].tolist()):
        rows = is_work & (events == event)
        line = np.bincount(place[rows], weights=counts[rows], minlength=batch_count)
        means[(str(event),)] = (line / samples)[None, :]
    return Batches(samples, means)


def _joined(period: Period, table: str) -> Arrays | None:
    """Return the samples of a table in the period, of all segments; None if there are none."""
    parts = []
    for run in (*period.folder.runs(), *period.folder.incomplete()):
        arrays: Any = run.waits() if table == "waits" else run.telemetry(table)
        if arrays is not None and len(arrays["time_ns"]):
            inside = period.has(arrays["time_ns"])
            parts.append({name: values[inside] for name, values in arrays.items()})
    joined: Arrays = {
        name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())
    }
    return joined if joined and len(joined["time_ns"]) else None


def _steps(times: Times) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the batch of each step between two samples, -1 over a gap; and batches' seconds."""
    lengths = np.diff(times).astype(np.float64) / 1e9
    if not len(lengths):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    is_step = lengths <= _STEP_RATIO * np.median(lengths)
    batch_count = min(BATCHES_MAX, int(is_step.sum()))
    number = np.cumsum(is_step) - 1
    batch = number * batch_count // max(int(is_step.sum()), 1)
    place = np.where(is_step, batch, -1)
    seconds = np.bincount(batch[is_step], weights=lengths[is_step], minlength=batch_count)
    return place.astype(np.int64), seconds.astype(np.float64)
