"""Free space of the file systems that hold the data and the results."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, gauge, key


class SpaceCollector:
    """Samples file systems every 10 seconds."""

    name: ClassVar[str] = "space"
    meaning: ClassVar[str] = "Free space of the file systems that hold the data and the results"
    interval_ns: ClassVar[int] = 10 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("place", "what lies there, such as 'data', 'wal', 'store'"),
        gauge("total_bytes", "bytes", "size of the file system"),
        gauge("available_bytes", "bytes", "free for programs without special rights"),
    )

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = dict(folders)

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a folder that exists."""
        rows: list[Row] = []
        for place, folder in self._folders.items():
            try:
                found = os.statvfs(folder)
            except FileNotFoundError:
                continue
            rows.append(
                {
                    "place": place,
                    "total_bytes": found.f_blocks * found.f_frsize,
                    "available_bytes": found.f_bavail * found.f_frsize,
                }
            )
        return rows
