"""Appends rows to the files of a run: many threads collect rows in memory, one thread writes them.

After the disk refused once, nothing more is written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from pgdyno.errors import StoreError
from pgdyno.redaction import may_have_secrets, redacted, without_secrets
from pgdyno.store import files


class LineFiles:
    """Files of whole lines in one folder.

    After the disk refused once, nothing more is written, and every later append raises StoreError.
    A file with a hole would look like a pause of the server.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptors: dict[str, int] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self._waiting_lock = threading.Lock()
        self._writing_lock = threading.Lock()
        self._failure: StoreError | None = None
        self._is_closed = False

    def append(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows to the file `name`. Raises: StoreError if an earlier write failed."""
        lines = _lines(rows)
        if lines:
            self._append(name, lines)

    def append_text(self, name: str, text: str) -> None:
        """Add text without secrets to the file `name`. The text must end with a line break."""
        self._append(name, redacted(text).encode())

    def _append(self, name: str, lines: bytes) -> None:
        self.raise_failure()
        if self._is_closed:
            # The rows come from a thread that hung when the run ended.
            raise StoreError(f"{self._folder} is closed: rows for {name} came too late.")
        with self._waiting_lock:
            self._waiting.setdefault(name, []).append(lines)

    def flush(self) -> None:
        """Give all rows to the operating system. An error is kept for `raise_failure`."""
        with self._writing_lock:
            with self._waiting_lock:
                waiting, self._waiting = self._waiting, {}
            if self._failure is not None:
                return
            for name, parts in waiting.items():
                try:
                    self._write(name, b"".join(parts))
                except OSError as error:
                    kept = f"The results until then are kept in {self._folder}."
                    self._failure = files.refused(self._folder / name, error, kept=kept)
                    return

    def raise_failure(self) -> None:
        """Raise the first error of a write, if there was one."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close every file. Later appends raise StoreError."""
        with self._writing_lock:
            self._is_closed = True
            while self._descriptors:
                os.close(self._descriptors.popitem()[1])

    def _write(self, name: str, content: bytes) -> None:
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self._folder / name, flags, files.FILE_MODE)
            self._descriptors[name] = descriptor
        size_before = os.fstat(descriptor).st_size
        try:
            files.write_all(descriptor, content)
        except OSError:
            # A part of a line may have been written: cut the file back to whole lines. Readers skip
            # half a line where this is refused, as on an object store.
            with suppress(OSError):
                os.ftruncate(descriptor, size_before)
            raise


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return one JSON line without secrets for each row.

    Rows come many times a second, and the module json would take ten times as long.
    Raises: ValueError for infinity and NaN, which the store does not accept.
    """
    rows = list(rows)
    lines = b"".join(to_json(row, inf_nan_mode="constants") + b"\n" for row in rows)
    if may_have_secrets(lines):
        clean = map(without_secrets, rows)
        lines = b"".join(to_json(row, inf_nan_mode="constants") + b"\n" for row in clean)
    if b"NaN" in lines or b"Infinity" in lines:
        for line in lines.splitlines():
            json.loads(line, parse_constant=_refuse)  # Subtle: a text may contain the word.
    return lines


def _refuse(constant: str) -> None:
    raise ValueError(f"a store must not contain {constant}")
