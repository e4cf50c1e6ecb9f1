"""A watch read again: its document, or what can be added up from the samples a killed lab left."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgdyno.run.watch_document import Document, Watched, document_of, utc
from pgdyno.run.watch_statements import Calls
from pgdyno.run.watch_tally import OWN_STATEMENTS, Row, Tally
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun


def document_again(folder: ExperimentFolder) -> Document:
    """Return the document of a watch, made again from the samples if it never came to one."""
    analysis = folder.analysis()
    if analysis is not None:
        return analysis
    runs = [*folder.runs(), *folder.incomplete()]
    job = next((run.job for run in runs if run.job), {})
    tally = Tally(int(job.get("interval_ns", 1_000_000_000)))
    for run in runs:
        sources = [_samples(run, collector) for collector in OWN_STATEMENTS]
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
        cost=None,
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
        rows = [{name: values[row] for name, values in lists.items()} for row in range(start, end)]
        yield lists["time_ns"][start], collector, rows
