"""Stores the samples of a watch in segments of ten minutes, and adds them up in one tally.

A segment is a run folder with Parquet files.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgdyno.clock import ClockPair
from pgdyno.features.doctor.check_facts import PeakActive
from pgdyno.features.watch.document import Document, Watched, document_of, utc
from pgdyno.features.watch.incident import evidence as incident
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.rules import findings_of
from pgdyno.features.watch.statements import Calls
from pgdyno.features.watch.tally import TAKEN, Row, Tally
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredRun

SEGMENT_NS = 600_000_000_000


class Segments:
    """A sink for samples that begins a new segment when the last one is long enough.

    The caller of `turn` closes a segment. So the observer's threads never wait until the Parquet
    files are made.
    """

    def __init__(
        self,
        folder: ExperimentFolder,
        job: Mapping[str, Any],
        *,
        clock: ClockPair,
        evidence: IncidentEvidence,
        segment_ns: int = SEGMENT_NS,
    ) -> None:
        self._folder, self._job, self._clock = folder, dict(job), clock
        self._evidence, self._segment_ns = evidence, segment_ns
        self._lock = threading.Lock()
        self._waiting: list[Mapping[str, Any]] = []
        self._began_ns = clock.now_ns()
        self._writer = self._begin()

    def add_samples(self, collector: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store rows, and add them to the sums."""
        with self._lock:
            self._writer.add_samples(collector, rows)
        self._evidence.tally.take(collector, rows)
        self._evidence.take(collector, rows)

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        """Store a notice, and keep it for the next call of `notices`."""
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

        Raises: StoreError if a write failed, now or earlier. The written rows are kept.
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
        """Close the last segment. Raises: StoreError; the segment then stays incomplete."""
        _finish(self._writer, self._began_ns, self._clock.now_ns())

    def abandon(self) -> None:
        """Stop writing. The last segment stays readable and is listed as incomplete."""
        self._writer.close()

    def _begin(self) -> RunWriter:
        number = self._folder.next_run_number()
        return self._folder.begin_run(number, f"segment {number}", self._job)


def _finish(writer: RunWriter, began_ns: int, ended_ns: int) -> None:
    writer.add_record(
        {"record": "summary", "kind": "watch", "began_ns": began_ns, "ended_ns": ended_ns}
    )
    writer.finish()


_SAME_SERVER = ("host", "port", "database")


def document_again(folder: ExperimentFolder) -> Document:
    """Return the document of a watch; if the watch was killed, make it from the samples."""
    analysis = folder.analysis()
    if analysis is not None:
        return analysis
    runs = [*folder.runs(), *folder.incomplete()]
    job = next((run.job for run in runs if run.job), {})
    tally = Tally(int(job.get("interval_ns", 1_000_000_000)))
    evidence = IncidentEvidence(tally)
    for run in runs:
        sources = [_samples(run, name) for name in sorted({*TAKEN, *incident.TAKEN})]
        for _, collector, rows in heapq.merge(*sources, key=lambda sample: sample[:2]):
            tally.take(collector, rows)
            evidence.take(collector, rows)
            if collector == "limits":
                findings_of(evidence)  # Notes since when each is seen, as the watch did.
    watched = Watched(
        tally=tally,
        asked_ns=int(job.get("duration_ns", 0)),
        lasted_ns=max(0, tally.ended_ns - tally.began_ns),
        began_utc=utc(folder.began_ns),
        is_complete=False,
        is_local=False,
        version="",
        cost_ns=None,
    )
    findings = findings_of(evidence)
    return document_of(
        watched,
        folder,
        before=Calls(),
        after=Calls(),
        findings=findings,
        evidence=evidence,
    )


def _samples(run: StoredRun, collector: str) -> Iterator[tuple[int, str, list[Row]]]:
    """Yield time, collector and rows of each sample, in order."""
    arrays = run.waits() if collector == "waits" else run.telemetry(collector)
    if arrays is None or not len(arrays["time_ns"]):
        return
    lists: dict[str, list[Any]] = {name: values.tolist() for name, values in arrays.items()}
    starts = np.flatnonzero(np.diff(arrays["time_ns"], prepend=-1))
    ends = [*starts[1:].tolist(), len(arrays["time_ns"])]
    for start, end in zip(starts.tolist(), ends, strict=True):
        rows: list[Row] = [
            {name: values[row] for name, values in lists.items()} for row in range(start, end)
        ]
        yield lists["time_ns"][start], collector, rows


def peak_seen(store: Store, target: Target) -> PeakActive | None:
    """Return the peak of sessions at work in the last watch of this server and database."""
    wanted = target.as_document()
    for listed in reversed(store.list()):
        if listed.verb != "watch":
            continue
        folder = ExperimentFolder(listed.folder)
        asked = folder.asked("watch").get("target", {})
        analysis = folder.analysis()
        if analysis is None or any(asked.get(key) != wanted[key] for key in _SAME_SERVER):
            continue
        sessions = analysis["sessions_at_work"]
        if sessions["samples"]:
            return PeakActive(int(sessions["peak"]), f"watch #{listed.number}")
    return None
