"""Reads, writes and flushes by block device: /proc/diskstats.

`observe.rates` computes rates from these counters: requests and bytes per second, the mean time of
a read, a write and a flush (time / requests), the mean queue (queue_time / wall time).
Source: the kernel's Documentation/admin-guide/iostats.rst. Limits: since Linux 5.0 `busy_ns`
lacks time of long concurrent requests, and it says little about devices that work in parallel.
The kernel counts no flushes for partitions; `DiskCollector` leaves partitions out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope, counter, gauge, key
from pgdyno.observe.host.files import HostCollector, HostFiles, text_or_nothing

SECTOR_BYTES = 512
_MS_NS = 1_000_000
_WITH_DISCARDS, _WITH_FLUSHES = 15, 17


def parse(text: str) -> list[Row]:
    """Return one row for each device that was used since boot, partitions included."""
    rows: list[Row] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14 or not any(word != "0" for word in words[3:]):
            continue
        f = [0, *(int(word) for word in words[3:])]  # As the kernel's documentation counts: from 1.
        rows.append(
            {
                "device": words[2],
                "reads": f[1],
                "reads_merged": f[2],
                "read_bytes": f[3] * SECTOR_BYTES,
                "read_time_ns": f[4] * _MS_NS,
                "writes": f[5],
                "writes_merged": f[6],
                "write_bytes": f[7] * SECTOR_BYTES,
                "write_time_ns": f[8] * _MS_NS,
                "in_flight": f[9],
                "busy_ns": f[10] * _MS_NS,
                "queue_time_ns": f[11] * _MS_NS,
                "discards": f[12] if len(f) > _WITH_DISCARDS else None,
                "discard_bytes": f[14] * SECTOR_BYTES if len(f) > _WITH_DISCARDS else None,
                "flushes": f[16] if len(f) > _WITH_FLUSHES else None,
                "flush_time_ns": f[17] * _MS_NS if len(f) > _WITH_FLUSHES else None,
            }
        )
    return rows


class DiskCollector(HostCollector):
    """Samples whole devices; partitions are parts of them."""

    name: ClassVar[str] = "disk"
    meaning: ClassVar[str] = "Reads, writes and flushes by block device"
    columns: ClassVar[tuple[Column, ...]] = (
        key("device", "as in /sys/block"),
        counter("reads", "requests", "reads completed"),
        counter("reads_merged", "requests", "reads joined to another before they were sent"),
        counter("read_bytes", "bytes", "read"),
        counter("read_time_ns", "ns", "sum over all reads"),
        counter("writes", "requests", "writes completed"),
        counter("writes_merged", "requests", "writes joined to another before they were sent"),
        counter("write_bytes", "bytes", "written"),
        counter("write_time_ns", "ns", "sum over all writes"),
        gauge("in_flight", "requests", "being served at this instant"),
        counter("busy_ns", "ns", "time with at least one request"),
        counter("queue_time_ns", "ns", "time weighted by requests"),
        counter("discards", "requests", "discards completed (4.18)", is_nullable=True),
        counter("discard_bytes", "bytes", "discarded (4.18)", is_nullable=True),
        counter("flushes", "requests", "cache flushes completed (5.5)", is_nullable=True),
        counter(
            "flush_time_ns",
            "ns",
            "sum over all flushes: the cost of commits (5.5)",
            is_nullable=True,
        ),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each whole device."""
        rows = parse(self._files.text("/proc/diskstats"))
        # The name cciss/c0d0 is written cciss!c0d0 in /sys.
        whole = {path.rpartition("/")[2] for path in self._files.matching("/sys/block/*")}
        return [row for row in rows if str(row["device"]).replace("/", "!") in whole]


@dataclass(frozen=True, slots=True)
class Space:
    """One file system: its size, and the free space for programs without special privileges."""

    total_bytes: int
    available_bytes: int
    total_files: int | None = None
    available_files: int | None = None


class SpaceCollector:
    """Samples file systems every 10 seconds."""

    name: ClassVar[str] = "space"
    scope: ClassVar[Scope] = "host"
    meaning: ClassVar[str] = "Free space of the file systems that hold the data and the results"
    interval_ns: ClassVar[int] = 10 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("place", "use of the folder, such as 'data', 'wal', 'store'"),
        gauge("total_bytes", "bytes", "size of the file system"),
        gauge("available_bytes", "bytes", "free for programs without special privileges"),
        gauge(
            "total_files",
            "files",
            "inodes; NULL: no limit, or not reported by the other host",
            is_nullable=True,
        ),
        gauge("available_files", "files", "inodes that are free", is_nullable=True),
    )

    def __init__(self, read: Callable[[], Mapping[str, Space]]) -> None:
        self._read = read

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each folder that exists."""
        return [{"place": place, **asdict(space)} for place, space in self._read().items()]


def spaces_here(folders: Mapping[str, Path]) -> dict[str, Space]:
    """Return the space of the file system of each folder; a missing folder is left out."""
    spaces: dict[str, Space] = {}
    for place, folder in folders.items():
        try:
            seen = os.statvfs(folder)
        except FileNotFoundError:
            continue
        has_inodes = bool(seen.f_files)
        spaces[place] = Space(
            seen.f_blocks * seen.f_frsize,
            seen.f_bavail * seen.f_frsize,
            seen.f_files if has_inodes else None,
            seen.f_favail if has_inodes else None,
        )
    return spaces


def spaces_received(files: HostFiles) -> dict[str, Space]:
    """Return the space that another host sent as lines of `df -Pk` and `df -Pi`, by place."""
    spaces: dict[str, Space] = {}
    for path in files.matching("/df/*"):
        place = path.removeprefix("/df/")
        size, inodes = _df(files, path), _df(files, f"/inodes/{place}")
        if size is not None:
            # A file system without a limit of inodes reports 0 in both columns.
            counted = inodes if inodes is not None and inodes[0] else (None, None)
            spaces[place] = Space(size[0] * 1024, size[1] * 1024, *counted)
    return spaces


def _df(files: HostFiles, path: str) -> tuple[int, int] | None:
    """Return the total and the free amount in a line of `df -P`."""
    words = text_or_nothing(files, path).split()
    if len(words) < 6 or not (words[1].isdigit() and words[3].isdigit()):
        return None
    return int(words[1]), int(words[3])
