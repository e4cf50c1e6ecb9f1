"""One run while it lasts: rows appended as JSON lines, made into Parquet when the run is over.

Rows go to the operating system each second, from a separate thread, so that a slow disk never
delays the reader of the engine. A killed lab loses at most that second, of waits half a second
more, for which their sampler holds them. Nothing is synced to the disk before the end: a crash of
the lab does not need it, and a flush in every few seconds would be load on the very disk that is
being measured.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pgdyno.errors import StoreError, masked_text
from pgdyno.store import files, parquet
from pgdyno.store.line_files import LineFiles
from pgdyno.store.schema import FORMAT_VERSION, table
from pgdyno.store.stored_run import STATEMENTS, StoredRun

FLUSH_INTERVAL_S = 1.0

_TABLE_OF_RECORD = {"interval": "intervals", "histogram": "histograms"}
_EVENTS = "events.jsonl"


class RunWriter:
    """Writes `runs/0007.partial`, and turns it into `runs/0007` in `finish`.

    Safe to use from several threads. Left without `finish` (an error, a signal) the folder stays
    readable, and is listed as incomplete.
    """

    def __init__(self, folder: Path, number: int, label: str, job: Mapping[str, Any]) -> None:
        self.folder = folder
        self.number = number
        self._has_summary = False
        self._lines = LineFiles(folder)
        self._stopping = threading.Event()
        try:
            (folder / "telemetry").mkdir(mode=files.FOLDER_MODE, parents=True)
        except FileExistsError as error:
            raise StoreError(
                f"Run {number} has already begun: {folder}.",
                hint="use the number of next_run_number()",
            ) from error
        except OSError as error:
            raise files.refused(folder, error) from error
        identity = {"format": FORMAT_VERSION, "number": number, "label": label}
        files.write_json(folder / "run.json", identity)
        files.write_json(folder / "job.json", job)
        parquet.cursor()  # Imports DuckDB now, rather than while or after the load is measured.
        self._flusher = threading.Thread(target=self._flush_regularly, name="store", daemon=True)
        self._flusher.start()

    def add_record(self, record: Mapping[str, Any]) -> None:
        """Keep one record of the engine, as it was read: the object of one line.

        Raises: StoreError when an earlier row could not be written; says what is kept.
        """
        kind = record.get("record")
        if kind == "summary":
            self._write_summary(record)
            self._has_summary = True
        elif isinstance(kind, str) and kind in _TABLE_OF_RECORD:
            self._lines.append(f"{_TABLE_OF_RECORD[kind]}.jsonl", [record])
        else:
            self._lines.append(_EVENTS, [record])

    def add_samples(self, collector: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep rows of one collector; their keys are the columns of its table in the schema."""
        self._lines.append(f"{table(collector).path}.jsonl", rows)

    def add_waits(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep rows of the wait sampler."""
        self.add_samples("waits", rows)

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        """Keep a warning of the lab, in addition to the engine's: time_ns, kind, message, hint."""
        self._lines.append(_EVENTS, [{"record": "warning", **notice}])

    def add_engine_log(self, text: str) -> None:
        """Keep what the engine said on standard error, passwords masked."""
        self._lines.append_text("engine.log", masked_text(text))

    def write_json(self, name: str, document: Any) -> None:
        """Write one document of the run, such as `server.json`."""
        files.write_json(self.folder / name, document)

    def flush(self) -> None:
        """Hand every row to the operating system now."""
        self._lines.flush()
        self._lines.raise_failure()

    def finish(self) -> StoredRun:
        """Make the folder complete: Parquet, on the disk, under its final name; return it.

        Raises: StoreError when the engine gave no summary, or the disk refuses; the folder then
        stays as it is, readable and incomplete.
        """
        self.close()
        self._lines.raise_failure()
        if not self._has_summary:
            raise StoreError(
                f"Run {self.number} has no summary: the engine did not end normally.",
                hint=f"the results until then are kept in {self.folder}",
            )
        converted = [(rows, self._make_parquet(rows)) for rows in self._row_files()]
        final = self.folder.with_suffix("")
        try:
            kept = {path for path in self.folder.rglob("*") if path.is_file()}
            for path in kept - {rows for rows, _ in converted}:
                files.sync(path)
            files.sync_folder(self.folder / "telemetry")
            files.sync_folder(self.folder)
            self.folder.rename(final)
            files.sync_folder(final.parent)
            # Subtle: rows go only now. Killed before this line, both forms are there; a reader
            # takes the Parquet of a complete folder and the rows of a partial one.
            for rows, _ in converted:
                (final / rows.relative_to(self.folder)).unlink()
        except OSError as error:
            raise files.refused(self.folder, error, kept="Its rows are kept.") from error
        return StoredRun(final)

    def close(self) -> None:
        """Stop writing; what came in is handed to the operating system. Never raises."""
        self._stopping.set()
        if self._flusher.is_alive():
            self._flusher.join()
        self._lines.flush()
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write_summary(self, record: Mapping[str, Any]) -> None:
        """Keep the summary; the distributions of single statements apart.

        They are nine tenths of it, and an analysis of hundreds of runs needs none of them.
        """
        every = record.get("distributions", ())
        of_statements = [
            distribution for distribution in every if distribution["measured"] == "statement"
        ]
        if of_statements:
            files.write_compact_json(self.folder / STATEMENTS, of_statements)
            rest = [
                distribution for distribution in every if distribution["measured"] != "statement"
            ]
            record = {**record, "distributions": rest}
        files.write_compact_json(self.folder / "summary.json", record)

    def _flush_regularly(self) -> None:
        while not self._stopping.wait(FLUSH_INTERVAL_S):
            self._lines.flush()

    def _row_files(self) -> list[Path]:
        paths = [*self.folder.glob("*.jsonl"), *self.folder.glob("telemetry/*.jsonl")]
        return sorted(path for path in paths if path.name != _EVENTS)

    def _make_parquet(self, rows: Path) -> Path:
        made = rows.with_suffix(".parquet")
        parquet.write_parquet(rows, table(rows.stem), made)
        made.chmod(files.FILE_MODE)
        return made
