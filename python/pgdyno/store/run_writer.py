"""Writes one run while it lasts: rows are appended as JSON lines, and become Parquet at the end.

A separate thread gives the rows to the operating system each second, so a slow disk never delays
the reader of the engine's records. If the lab is killed, the rows of the last second are lost, and
samples of waits of another half second. Nothing is synced to the disk before the end: a crash of
the lab does not need it, and syncs would be load on the disk under test.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pgdyno.errors import StoreError
from pgdyno.store import files, parquet
from pgdyno.store.files import FORMAT_VERSION
from pgdyno.store.line_files import LineFiles
from pgdyno.store.schema import table
from pgdyno.store.stored_run import STATEMENTS, StoredRun

FLUSH_INTERVAL_S = 1.0

_TABLE_OF_RECORD = {"interval": "intervals", "histogram": "histograms"}
_EVENTS = "events.jsonl"


class RunWriter:
    """Writes the folder `runs/0007.partial`, which `finish` completes and renames to `runs/0007`.

    Several threads may use it. If `finish` is never called (an error, a signal), the folder stays
    readable and is listed as incomplete.
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
        parquet.cursor()  # Import DuckDB now and not while the load is measured.
        self._flusher = threading.Thread(target=self._flush_regularly, name="store", daemon=True)
        self._flusher.start()

    def add_record(self, record: Mapping[str, Any]) -> None:
        """Keep one record of the engine.

        Raises: StoreError if an earlier row could not be written; the message says what is kept.
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
        """Keep rows of one collector, with the columns of its table as keys."""
        self._lines.append(f"{table(collector).path}.jsonl", rows)

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        """Keep a warning of the lab, in addition to the engine's: time_ns, kind, message, hint."""
        self._lines.append(_EVENTS, [{"record": "warning", **notice}])

    def add_engine_log(self, text: str) -> None:
        """Keep the engine's standard error."""
        self._lines.append_text("engine.log", text)

    def write_json(self, name: str, document: Any) -> None:
        """Write one document of the run, such as `server.json`, without secrets."""
        files.write_json(self.folder / name, document)

    def flush(self) -> None:
        """Give every row to the operating system now. Raises: StoreError if a write failed."""
        self._lines.flush()
        self._lines.raise_failure()

    def finish(self) -> StoredRun:
        """Convert the rows to Parquet, sync them, rename the folder, and return the complete run.

        Raises: StoreError if the engine sent no summary, or a file cannot be written. The folder
        then stays readable and incomplete.
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
            # Subtle: the JSON lines are removed last. If the lab is killed before, both forms
            # exist; readers use Parquet in a complete folder and JSON lines in a partial one.
            for rows, _ in converted:
                (final / rows.relative_to(self.folder)).unlink()
        except OSError as error:
            raise files.refused(self.folder, error, kept="Its rows are kept.") from error
        return StoredRun(final)

    def close(self) -> None:
        """Give all rows to the operating system and stop writing. Never raises."""
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
        """Keep the summary, and the distributions of single statements in a separate file.

        These are nine tenths of the summary, and an analysis of hundreds of runs does not read
        them.
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
        files.give_mode(made, files.FILE_MODE)
        return made
