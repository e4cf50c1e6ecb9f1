"""Where the samples of a watch go: one segment of Parquet every ten minutes, one tally over all."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.clock import ClockPair
from pgdyno.measure.watch_tally import Tally
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter

SEGMENT_NS = 600_000_000_000


class Segments:
    """A sink that begins a new run folder, a segment, when the one before is long enough.

    A segment is closed by whoever calls `turn`, not by the observer's threads: they never wait for
    Parquet to be made.
    """

    def __init__(
        self,
        folder: ExperimentFolder,
        job: Mapping[str, Any],
        *,
        clock: ClockPair,
        tally: Tally,
        segment_ns: int = SEGMENT_NS,
    ) -> None:
        self._folder, self._job, self._clock = folder, dict(job), clock
        self._tally, self._segment_ns = tally, segment_ns
        self._lock = threading.Lock()
        self._waiting: list[Mapping[str, Any]] = []
        self._began_ns = clock.now_ns()
        self._writer = self._begin()

    def add_samples(self, collector: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows, and count them."""
        with self._lock:
            self._writer.add_samples(collector, rows)
        self._tally.take(collector, rows)

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        """Keep a notice, and hold it ready for `notices`."""
        with self._lock:
            self._writer.add_notice(notice)
            self._waiting.append(dict(notice))

    def notices(self) -> list[Mapping[str, Any]]:
        """Return the notices since the last call."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def turn(self) -> None:
        """Close the segment if it is long enough, and begin the next.

        Raises: StoreError when the disk refuses, now or earlier; what was written is kept.
        """
        now_ns = self._clock.now_ns()
        if now_ns - self._began_ns < self._segment_ns:
            self._writer.flush()
            return
        following = self._begin()
        with self._lock:
            finished, self._writer = self._writer, following
        began_ns, self._began_ns = self._began_ns, now_ns
        _finish(finished, began_ns, now_ns)

    def finish(self) -> None:
        """Close the last segment. Raises: StoreError; the segment is then kept as it is."""
        _finish(self._writer, self._began_ns, self._clock.now_ns())

    def abandon(self) -> None:
        """Stop writing; the last segment stays readable, and listed as incomplete."""
        self._writer.close()

    def _begin(self) -> RunWriter:
        number = self._folder.next_run_number()
        return self._folder.begin_run(number, f"segment {number}", self._job)


def _finish(writer: RunWriter, began_ns: int, ended_ns: int) -> None:
    writer.add_record(
        {"record": "summary", "kind": "watch", "began_ns": began_ns, "ended_ns": ended_ns}
    )
    writer.finish()
