"""Reads a stored run: documents as dictionaries, tables as numpy arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pgdyno.errors import StoreError
from pgdyno.store import files, parquet
from pgdyno.store.files import FORMAT_VERSION, PARTIAL_SUFFIX
from pgdyno.store.parquet import Arrays
from pgdyno.store.schema import HISTOGRAMS, INTERVALS, Table, table

Document = dict[str, Any]
IntArray = npt.NDArray[np.signedinteger[Any]]  # 32 bits; 64 in older results.

STATEMENTS = "statements.json"
_FOLDER_NAME = re.compile(r"(?P<number>\d{4,})(?P<partial>\.partial)?")


class StoredHistogram(NamedTuple):
    """The distribution of one interval. `buckets` are ascending, `counts` are above 0."""

    time_ns: int
    interval_ns: int
    buckets: IntArray
    counts: IntArray
    sum_ns: int
    min_ns: int
    max_ns: int
    phase: str


class StoredRun:
    """The folder of a complete run, `runs/0007`; of an incomplete one with `open_partial`."""

    def __init__(self, folder: Path, shelf: Shelf | None = None) -> None:
        """Open a run. Args: shelf, reads the tables of several runs together; None: one by one."""
        match = _FOLDER_NAME.fullmatch(folder.name)
        if match is None or not folder.is_dir():
            raise StoreError(
                f"{folder} is not a run: a run is a folder such as runs/0001.",
                hint="`pgdyno list` shows the results that exist",
            )
        self.folder = folder
        self._shelf = shelf
        self._documents: dict[str, Document] = {}
        self.number = int(match["number"])
        self.is_complete = match["partial"] is None
        if self.is_complete and self.identity.get("format") != FORMAT_VERSION:
            raise StoreError(
                f"{folder} has format {self.identity.get('format')!r}, "
                f"this pgdyno reads {FORMAT_VERSION}.",
                hint="read it with the pgdyno that wrote it, or a newer one",
            )

    @classmethod
    def open_partial(cls, folder: Path) -> StoredRun:
        """Return an incomplete run for reading. It must not be analysed as a complete run."""
        name = folder.name.removesuffix(PARTIAL_SUFFIX) + PARTIAL_SUFFIX
        return cls(folder.with_name(name))

    @cached_property
    def identity(self) -> Document:
        """Return format, number and label; no label if the lab was killed before writing it."""
        return self._document("run.json")

    @property
    def label(self) -> str:
        """Return the planner's name for this run."""
        return str(self.identity.get("label", ""))

    @cached_property
    def job(self) -> Document:
        """Return the engine's job, without its password."""
        return self._document("job.json")

    @cached_property
    def summary(self) -> Document:
        """Return the engine's last record; empty if an incomplete run ended before it.

        The distributions of single statements are in `statements`.
        """
        return self._document("summary.json")

    @property
    def summary_text(self) -> bytes:
        """Return the bytes of the engine's last record. Raises: StoreError if it is missing."""
        path = self.folder / "summary.json"
        try:
            return files.read_bytes(path)
        except OSError as error:
            raise files.refused(path, error) from error

    @cached_property
    def statements(self) -> list[Document]:
        """Return the distributions of single statements over the measured phase."""
        if not (self.folder / STATEMENTS).exists():  # Older results have them in the summary.
            every = self.summary.get("distributions", ())
            return [
                distribution for distribution in every if distribution["measured"] == "statement"
            ]
        return list(files.read_json(self.folder / STATEMENTS))

    @cached_property
    def events(self) -> list[Document]:
        """Return the records that are neither summary nor rows of a table, in their order."""
        return list(files.read_lines(self.folder / "events.jsonl"))

    @cached_property
    def hello(self) -> Document:
        """Return the engine's first record; empty if it never came."""
        return next((event for event in self.events if event.get("record") == "hello"), {})

    @property
    def phases(self) -> list[Document]:
        """Return the phase records: phase, event (begin or end), time_ns."""
        return self._events_of("phase")

    @property
    def warnings(self) -> list[Document]:
        """Return the warnings of engine and lab: time_ns, kind, message, hint, perhaps source."""
        return [_with_source(warning) for warning in self._events_of("warning")]

    @property
    def errors(self) -> list[Document]:
        """Return the engine's error records."""
        return self._events_of("error")

    def document(self, name: str) -> Document | None:
        """Return a document of the run, such as `server.json`, or None if it has none."""
        if name not in self._documents:
            if not (self.folder / name).exists():
                return None
            self._documents[name] = self._document(name)
        return self._documents[name]

    @property
    def server_json(self) -> Document:
        """What `measure/after_load.py` wrote about the server; empty without the file.

        Keys: reset (`server.reset.Reset`), totals (counter -> growth, such as "wal.bytes"),
        statement_counters (statements: query id -> counter -> growth), plans (script -> line ->
        plan), query_ids (script -> line -> ids), statement_texts (query id -> text), source (what a
        mirror keeps of its source), consistency (the check of the data), restarted_ns, and those of
        `BeforeAfter.document`. In results of older versions keys are missing; a value may be None.
        """
        return self.document("server.json") or {}

    def measured_span_ns(self) -> tuple[int, int]:
        """Return begin and end of the measured phase, Unix time in ns.

        If an incomplete run has no end of this phase, the last interval ends it.
        Raises: StoreError if the run ended before this phase began.
        """
        for span in self.summary.get("phases", []):
            if span["phase"] == "measure":
                return int(span["began_ns"]), int(span["ended_ns"])
        began, ended = 0, 0
        for phase in self.phases:
            if phase["phase"] == "measure" and phase["event"] == "begin":
                began = int(phase["time_ns"])
            elif phase["phase"] == "measure" and began:
                ended = int(phase["time_ns"])
        if not began:
            raise StoreError(
                f"Run {self.number} in {self.folder.parent.parent} ended before the measured time.",
                hint="see its events.jsonl and engine.log",
            )
        if not ended:
            times = self.intervals()["time_ns"]
            ended = max(began, int(times[-1])) if len(times) else began
        return began, ended

    def intervals(self) -> Arrays:
        """Return the load in each interval; `completed_by_script` has shape (rows, scripts)."""
        arrays = self._arrays(INTERVALS)
        lengths = arrays.pop("completed_by_script#length")
        flat = arrays["completed_by_script"]
        if (lengths != lengths[:1]).any():
            raise StoreError(
                f"{self.folder} has intervals with different numbers of scripts.",
                hint="this pgdyno cannot read the files of that engine",
            )
        columns = int(lengths[0]) if len(lengths) else 0
        arrays["completed_by_script"] = flat.reshape(len(lengths), columns)
        return arrays

    def histograms(
        self, measured: str, script: int | None = None, statement: int | None = None
    ) -> list[StoredHistogram]:
        """Return one distribution for each interval, in time order.

        Args: measured, the kind of duration; script, its index, None for all scripts; statement,
        its index in the script, None for the whole transaction.
        """
        if not re.fullmatch(r"[a-z_]+", measured):
            raise AssertionError(f"no such duration: {measured!r}")
        source = self._source(HISTOGRAMS)
        where = (
            f"measured = '{measured}' AND script = {-1 if script is None else int(script)}"
            f" AND statement = {-1 if statement is None else int(statement)}"
        )
        arrays = parquet.read_arrays(source, HISTOGRAMS, where, is_flat=False)
        rows = zip(*(arrays[name].tolist() for name in StoredHistogram._fields), strict=True)
        return [StoredHistogram._make(row) for row in rows]

    def waits(self) -> Arrays:
        """Return the samples of sessions by state and wait event."""
        return self._arrays(table("waits"))

    def telemetry(self, name: str) -> Arrays | None:
        """Return the raw samples of one collector, or None if it did not run."""
        asked = table(name)
        return self._arrays(asked) if self._source(asked).exists() else None

    def collectors(self) -> list[str]:
        """Return the names of the collectors that left samples."""
        return sorted(path.stem for path in (self.folder / "telemetry").glob(f"*{self._suffix}"))

    @property
    def _suffix(self) -> str:
        return ".parquet" if self.is_complete else ".jsonl"

    def _source(self, wanted: Table) -> Path:
        return self.folder / f"{wanted.path}{self._suffix}"

    def _arrays(self, wanted: Table) -> Arrays:
        if self._shelf is not None and self.is_complete:
            return self._shelf.arrays(self.folder, wanted)
        return parquet.read_arrays(self._source(wanted), wanted)

    def _document(self, name: str) -> Document:
        path = self.folder / name
        if not self.is_complete and not path.exists():
            return {}
        document = files.read_json(path)
        if not isinstance(document, Mapping):
            raise StoreError(f"{path} is damaged.", hint="`pgdyno list` shows the intact results")
        return dict(document)

    def _events_of(self, kind: str) -> list[Document]:
        return [event for event in self.events if event.get("record") == kind]


# The only place that reads a reason from prose. Results of older versions have no `source`;
# the table is needed as long as they can be opened. This is how these collectors began a reason.
_OLD_REASONS = {"No temperature can be read here": "temperature", "Energy": "energy"}


def _with_source(warning: Document) -> Document:
    """Return a warning of a missing measurement with the `source` that it concerns."""
    if "source" in warning or warning.get("kind") != "not_measurable":
        return warning
    message = str(warning["message"])
    sources = (source for words, source in _OLD_REASONS.items() if message.startswith(words))
    return {**warning, "source": next(sources, "")}


# Bytes of Parquet that are read ahead. In memory they are about ten times as large.
_AHEAD_BYTES = 4 << 20


class Shelf:
    """Reads a table of a run together with the same table of the next runs.

    An analysis reads the runs in order, so the next calls find their tables in memory. Complete
    runs never change, so tables in memory stay correct.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        """Read nothing yet. Args: folders, of complete runs, in the order of reading."""
        self._folders = list(folders)
        self._place = {folder: place for place, folder in enumerate(self._folders)}
        self._chunks: dict[str, dict[Path, Arrays]] = {}

    def arrays(self, folder: Path, table: Table) -> Arrays:
        """Return the columns of a run's table, as `parquet.read_arrays` does."""
        chunk = self._chunks.get(table.name, {})
        if folder not in chunk:
            chunk = self._chunks[table.name] = _read(self._from(folder, table), table)
        return dict(chunk[folder])

    def _from(self, folder: Path, table: Table) -> list[Path]:
        """Return this run's file and the next ones, up to `_AHEAD_BYTES`."""
        sources: list[Path] = []
        size = 0
        for other in self._folders[self._place[folder] :]:
            source = other / f"{table.path}.parquet"
            size += source.stat().st_size if source.exists() else 0
            if sources and size > _AHEAD_BYTES:
                break
            sources.append(source)
        return sources


def _read(sources: Sequence[Path], table: Table) -> dict[Path, Arrays]:
    depth = table.path.count("/")
    present = [source for source in sources if source.exists()]
    tables = dict(zip(present, parquet.read_many(present, table), strict=True)) if present else {}
    return {
        source.parents[depth]: tables.get(source) or parquet.read_arrays(source, table)
        for source in sources
    }
