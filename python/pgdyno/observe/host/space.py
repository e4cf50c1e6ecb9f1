"""Free space of the file systems that hold the data and the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.host.files import HostFiles, text_or_nothing


@dataclass(frozen=True, slots=True)
class Space:
    """One file system: its size, and what is free for programs without special rights."""

    total_bytes: int
    available_bytes: int
    total_files: int | None = None
    available_files: int | None = None


class SpaceCollector:
    """Samples file systems every 10 seconds."""

    name: ClassVar[str] = "space"
    meaning: ClassVar[str] = "Free space of the file systems that hold the data and the results"
    interval_ns: ClassVar[int] = 10 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("place", "what lies there, such as 'data', 'wal', 'store'"),
        gauge("total_bytes", "bytes", "size of the file system"),
        gauge("available_bytes", "bytes", "free for programs without special rights"),
        gauge(
            "total_files",
            "files",
            "inodes; NULL: no limit, or not told from afar",
            is_nullable=True,
        ),
        gauge("available_files", "files", "inodes that are free", is_nullable=True),
    )

    def __init__(self, read: Callable[[], Mapping[str, Space]]) -> None:
        self._read = read

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a folder that exists."""
        return [{"place": place, **asdict(space)} for place, space in self._read().items()]


def spaces_here(folders: Mapping[str, Path]) -> dict[str, Space]:
    """Return the space of the file systems below folders of this host, those that exist."""
    found: dict[str, Space] = {}
    for place, folder in folders.items():
        try:
            seen = os.statvfs(folder)
        except FileNotFoundError:
            continue
        found[place] = Space(
            *(seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize),
            *((seen.f_files, seen.f_favail) if seen.f_files else (None, None)),
        )
    return found


def spaces_received(files: HostFiles) -> dict[str, Space]:
    """Return the space another host told, of lines of `df -Pk` and `-Pi` by what lies there."""
    found: dict[str, Space] = {}
    for path in files.matching("/df/*"):
        place = path.removeprefix("/df/")
        size, inodes = _df(files, path), _df(files, f"/inodes/{place}")
        if size is not None:
            # A file system without a limit says that it has none of either.
            counted = inodes if inodes is not None and inodes[0] else (None, None)
            found[place] = Space(size[0] * 1024, size[1] * 1024, *counted)
    return found


def _df(files: HostFiles, path: str) -> tuple[int, int] | None:
    """Return the total and what is free, of a line of `df -P`."""
    words = text_or_nothing(files, path).split()
    if len(words) < 6 or not (words[1].isdigit() and words[3].isdigit()):
        return None
    return int(words[1]), int(words[3])
