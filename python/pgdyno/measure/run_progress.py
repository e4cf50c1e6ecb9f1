"""The progress of a run or a load: records of the engine become moments that a caller shows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from pgdyno.engine.records import (
    Connecting,
    HistogramRecord,
    Interval,
    Phase,
    Pieces,
    Record,
    ScriptShape,
    Summary,
    TimeDistribution,
    Warning_,
    WarningKind,
)
from pgdyno.engine.records import Progress as LoadProgress
from pgdyno.programs.registry import program_of
from pgdyno.quantities import percent
from pgdyno.spec.base import SECOND_NS
from pgdyno.spec.condition import Condition
from pgdyno.spec.planned import PlannedRun


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a run at one moment. `total_ns` 0 = not known.

    `position`: such as "run 4 of 20". `wanted_count`: number of connections that the phase makes, 0
    in other phases; `made_count` of them exist. `own`: the metric of the program, and its unit.
    """

    label: str
    phase: str
    elapsed_ns: int = 0
    total_ns: int = 0
    tps: float | None = None
    p99_ms: float | None = None
    failed_count: int = 0
    position: str = ""
    eta_ns: int = 0
    rows_per_second: float | None = None
    mb_per_second: float | None = None
    made_count: int = 0
    wanted_count: int = 0
    made_per_second: float | None = None
    own: tuple[float, str] | None = None


class RunProgress:
    """Receives the progress. This class is silent; the command line's prints."""

    def said(self, text: str) -> None:
        """Take note of a step that was reached, in one line."""

    def moved(self, moment: Moment) -> None:
        """Take note of the present state; called many times a second."""

    def ended(self) -> None:
        """Take note that the run or the load has ended."""

    def doing(self, words: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Take note of the work of the block, such as "vacuum before the run"."""
        return nullcontext()


_WINDOW_INTERVALS = 10
_PHASE_WORDS = {
    "connect": "connecting",
    "prepare": "preparing",
    "warm": "warming up",
    "measure": "measuring",
    "drain": "draining",
    "create": "creating tables",
    "load": "loading",
    "vacuum": "vacuuming",
    "index": "building keys",
    "foreign_keys": "checking foreign keys",
}


class RunWatch:
    """Turns records into moments: phase, elapsed, tps over the last second, p99, failures.

    Args: shapes, the scripts of the run as the engine has them.
    """

    def __init__(
        self,
        planned: PlannedRun,
        label: str,
        progress: RunProgress,
        *,
        position: str,
        shapes: Sequence[ScriptShape],
    ) -> None:
        self._types = [shape.name for shape in shapes]
        program = program_of([shape.program for shape in shapes])
        self._metric = next(iter(program.metrics), None)
        self._progress = progress
        self._label = label
        self._position = position
        self._lengths_ns = {"warm": planned.warm_ns, "measure": planned.measure_ns}
        if planned.transactions_per_client is not None:
            self._lengths_ns["measure"] = 0
        self._phase = "connect"
        self._phase_began_ns = 0
        self._recent: deque[Interval] = deque(maxlen=_WINDOW_INTERVALS)
        self._connecting: deque[Connecting] = deque(maxlen=_WINDOW_INTERVALS)
        self._p99_ms: float | None = None
        self._failed_count = 0

    def see(self, record: Record) -> None:
        """Take one record, and report a new moment to the progress."""
        if isinstance(record, Phase) and record.event == "begin":
            self._phase, self._phase_began_ns = record.phase, record.time_ns
            if record.phase == "measure":
                self._failed_count = 0
        elif isinstance(record, Connecting):
            self._connecting.append(record)
            self._progress.moved(self._moment(record.time_ns))
        elif isinstance(record, HistogramRecord):
            if record.measured == "latency" and record.script is None:
                self._p99_ms = percentile_ms(record, 99.0)
        elif isinstance(record, Interval):
            self._recent.append(record)
            self._failed_count += record.counts.failed
            self._progress.moved(self._moment(record.time_ns))
        elif isinstance(record, Summary):
            self._progress.moved(self._whole(record))

    def _moment(self, now_ns: int) -> Moment:
        if self._phase == "connect" and self._connecting:
            return self._connection_moment(now_ns)
        seconds = sum(interval.interval_ns for interval in self._recent) / 1e9
        completed = sum(interval.counts.completed for interval in self._recent)
        return Moment(
            label=self._label,
            phase=_PHASE_WORDS[self._phase],
            elapsed_ns=max(0, now_ns - self._phase_began_ns),
            total_ns=self._lengths_ns.get(self._phase, 0),
            tps=completed / seconds if seconds else None,
            p99_ms=self._p99_ms,
            failed_count=self._failed_count,
            position=self._position,
            own=self._own([interval.completed_by_script for interval in self._recent], seconds),
        )

    def _own(self, completed: Sequence[Sequence[int]], seconds: float) -> tuple[float, str] | None:
        """Return the metric of the program, from the completed transactions by script."""
        if self._metric is None or not seconds or not completed:
            return None
        sums = [sum(by_script) for by_script in zip(*completed, strict=True)]
        value = self._metric.measure(dict(zip(self._types, sums, strict=True)), seconds)
        return None if value is None else (value, self._metric.words)

    def _connection_moment(self, now_ns: int) -> Moment:
        """Return how many connections are made, how fast, and how long the others will take."""
        first, last = self._connecting[0], self._connecting[-1]
        # One record tells what was made since the phase began.
        since_ns = self._phase_began_ns if first is last else first.time_ns
        before = 0 if first is last else first.made_count
        seconds = (last.time_ns - since_ns) / 1e9
        rate = (last.made_count - before) / seconds if seconds > 0 else 0.0
        missing = last.wanted_count - last.made_count
        return Moment(
            label=self._label,
            phase=_PHASE_WORDS["connect"],
            elapsed_ns=max(0, now_ns - self._phase_began_ns),
            position=self._position,
            eta_ns=round(missing / rate * SECOND_NS) if rate > 0 else 0,
            made_count=last.made_count,
            wanted_count=last.wanted_count,
            made_per_second=rate if rate > 0 else None,
        )

    def _whole(self, summary: Summary) -> Moment:
        """Return the measured phase as a whole: the last message about a run."""
        span = summary.span("measure")
        seconds = (span.ended_ns - span.began_ns) / 1e9 if span is not None else 0.0
        latency = summary.distribution("latency")
        return Moment(
            label=self._label,
            phase="measured" if summary.ending == "completed" else summary.ending,
            elapsed_ns=round(seconds * 1e9),
            total_ns=self._lengths_ns["measure"],
            tps=summary.counts.completed / seconds if seconds else None,
            p99_ms=None if latency is None or latency.count == 0 else percentile_ms(latency, 99.0),
            failed_count=summary.counts.failed,
            position=self._position,
            own=self._own([[s.counts.completed for s in summary.scripts]], seconds),
        )


class LoadWatch:
    """Turns the records of loading a dataset into moments: share, rows/s, MB/s, time left.

    Args: row_bytes, what the tables grow by with each row. MB/s is the growth of the tables; on the
    wire an account has a tenth of that.
    """

    def __init__(self, label: str, progress: RunProgress, *, row_bytes: float) -> None:
        self._progress = progress
        self._label = label
        self._row_bytes = row_bytes
        self._phase = "create"
        self._tables: dict[str, LoadProgress] = {}
        # Of the last seconds: when, and how many rows were loaded then.
        self._recent: deque[tuple[int, int]] = deque(maxlen=_WINDOW_INTERVALS)
        self.is_unfinished = False

    @property
    def has_begun(self) -> bool:
        """Return whether anything was made: the server may refuse the first table."""
        return self.is_unfinished or self._phase not in ("connect", "create")

    def see(self, record: Record) -> None:
        """Take one record, and report a new moment to the progress."""
        if isinstance(record, Phase) and record.event == "begin":
            self._phase = record.phase
            if record.phase == "load":
                self._recent.append((record.time_ns, self._rows("rows_done")))
            self._progress.moved(Moment(self._label, _PHASE_WORDS[record.phase]))
        elif isinstance(record, LoadProgress):
            self._tables[record.table] = record
            self._progress.moved(self._moment(record.time_ns))
        elif isinstance(record, Pieces) and record.phase == self._phase:
            share = f"{percent(record.done_count / record.total_count)}"
            self._progress.moved(Moment(self._label, f"{_PHASE_WORDS[record.phase]} {share}"))
        elif isinstance(record, Warning_):
            self.is_unfinished |= record.kind == WarningKind.DATASET_UNFINISHED
            said = f"{record.message}; {record.hint}" if record.hint else record.message
            self._progress.said(said)

    def _rows(self, which: Literal["rows_done", "rows_total"]) -> int:
        return sum(getattr(table, which) for table in self._tables.values())

    def _moment(self, now_ns: int) -> Moment:
        if self._phase not in ("create", "load"):
            return Moment(self._label, _PHASE_WORDS[self._phase])
        done, total = self._rows("rows_done"), self._rows("rows_total")
        share = f" {percent(done / total)}" if total else ""
        rows_per_second = None
        if self._recent and now_ns > self._recent[0][0]:
            then_ns, then_done = self._recent[0]
            rows_per_second = (done - then_done) / ((now_ns - then_ns) / 1e9)
            # The records of one second come one a table; a second is one step of the window.
            if now_ns - self._recent[-1][0] > SECOND_NS // 2:
                self._recent.append((now_ns, done))
        is_moving = bool(rows_per_second)
        return Moment(
            label=self._label,
            phase=_PHASE_WORDS[self._phase] + share,
            rows_per_second=rows_per_second if is_moving else None,
            mb_per_second=(rows_per_second or 0) * self._row_bytes / 1e6 if is_moving else None,
            eta_ns=round((total - done) / rows_per_second * 1e9) if rows_per_second else 0,
        )


def percentile_ms(record: TimeDistribution, percent: float) -> float:
    """Return the upper edge of the bucket that holds a percentile, in ms."""
    rank = math.ceil(record.count * percent / 100)
    seen = 0
    for bucket, count in record.buckets:
        seen += count
        if seen >= rank:
            return _upper_edge_ns(bucket) / 1e6
    return record.max_ns / 1e6


def _upper_edge_ns(bucket: int) -> int:
    if bucket < 2048:
        return (bucket + 1) << 6
    exponent = bucket // 1024 - 1
    return (bucket - 1024 * exponent + 1) << exponent << 6


_PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


class Brake:
    """Sees the records of one run; `why` says which condition was met, "" while none is."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        self._spent_ns = 0
        self._completed_count = 0
        self.why = ""

    def see(self, record: Record) -> bool:
        """Take one record in; return True once, when the run is to be ended."""
        if self.why or not self._conditions:
            return False
        for name, value in self._values(record).items():
            for condition in self._conditions:
                if condition.name == name and condition.is_met(value):
                    unit = "tps" if name == "tps" else "ms"
                    self.why = f"{condition.text} ({name} was {value:,.4g} {unit} for a second)"
                    return True
        return False

    def _values(self, record: Record) -> dict[str, float]:
        """Return what this record tells of the last second, by name."""
        if isinstance(record, HistogramRecord):
            if record.measured != "latency" or record.script is not None or not record.count:
                return {}
            percentiles = {
                name: percentile_ms(record, percent) for name, percent in _PERCENTS.items()
            }
            return {**percentiles, "mean": record.sum_ns / record.count / 1e6}
        if not isinstance(record, Interval) or record.phase not in ("warm", "measure"):
            return {}
        self._spent_ns += record.interval_ns
        self._completed_count += record.counts.completed
        if self._spent_ns < SECOND_NS:
            return {}
        tps = self._completed_count * 1e9 / self._spent_ns
        self._spent_ns = self._completed_count = 0
        return {"tps": tps}
