"""A watch read again: its document, or what can be added up from the samples a killed lab left."""

from __future__ import annotations

import heapq
import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgdyno.doctor.facts import PeakActive
from pgdyno.measure.watch_document import Document, Watched, document_of, utc
from pgdyno.measure.watch_statements import Calls
from pgdyno.measure.watch_tally import TAKEN, Row, Tally
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun

_SAME_SERVER = ("host", "port", "database")


def document_again(folder: ExperimentFolder) -> Document:
    """Return the document of a watch, made again from the samples if it never came to one."""
    analysis = folder.analysis()
    if analysis is not None:
        return analysis
    runs = [*folder.runs(), *folder.incomplete()]
    job = next((run.job for run in runs if run.job), {})
    tally = Tally(int(job.get("interval_ns", 1_000_000_000)))
    for run in runs:
        sources = [_samples(run, collector) for collector in TAKEN]
        for _, collector, rows in heapq.merge(*sources, key=lambda sample: sample[:2]):
            tally.take(collector, rows)
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
    return document_of(watched, folder, before=Calls(), after=Calls())


def _samples(run: StoredRun, collector: str) -> Iterator[tuple[int, str, list[Row]]]:
    """Yield time, collector and rows of each instant, in order."""
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
    """Return the most sessions at work that the last watch of this server and database saw."""
    wanted = target.as_document()
    for listed in reversed(store.list()):
        if listed.verb != "watch":
            continue
        folder = ExperimentFolder(listed.folder)
        asked = tomllib.loads(folder.spec()).get("watch", {}).get("target", {})
        analysis = folder.analysis()
        if analysis is None or any(asked.get(key) != wanted[key] for key in _SAME_SERVER):
            continue
        sessions = analysis["sessions_at_work"]
        if sessions["samples"]:
            return PeakActive(int(sessions["peak"]), f"watch #{listed.number}")
    return None
