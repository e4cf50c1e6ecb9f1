"""Reads, writes and flushes by block device: /proc/diskstats.

Rates are made of these counters elsewhere: requests a second, bytes a second, time a read, a write
and a flush took (time / requests), mean queue (queue_time / wall time).
Source: the kernel's Documentation/admin-guide/iostats.rst. Limits: `busy_ns` misses time of long
concurrent requests since 5.0 and says little of devices that work in parallel; flushes are not
counted for partitions, which are left out.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.host.files import HERE, HostFiles

SECTOR_BYTES = 512
_MS_NS = 1_000_000
# The kernel prints times as 32-bit milliseconds.
_WRAPS_AT_NS = (1 << 32) * _MS_NS
_WITH_DISCARDS, _WITH_FLUSHES = 15, 17


def parse(text: str) -> list[Row]:
    """Return one row for each device that was ever used, partitions included."""
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


class DiskCollector:
    """Samples whole devices; partitions are parts of them."""

    name: ClassVar[str] = "disk"
    meaning: ClassVar[str] = "Reads, writes and flushes by block device"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("device", "as in /sys/block"),
        counter("reads", "requests", "reads completed"),
        counter("reads_merged", "requests", "reads joined to another before they were sent"),
        counter("read_bytes", "bytes", "read"),
        counter("read_time_ns", "ns", "sum over all reads", wraps_at=_WRAPS_AT_NS),
        counter("writes", "requests", "writes completed"),
        counter("writes_merged", "requests", "writes joined to another before they were sent"),
        counter("write_bytes", "bytes", "written"),
        counter("write_time_ns", "ns", "sum over all writes", wraps_at=_WRAPS_AT_NS),
        gauge("in_flight", "requests", "being served at this instant"),
        counter("busy_ns", "ns", "time with at least one request", wraps_at=_WRAPS_AT_NS),
        counter("queue_time_ns", "ns", "time weighted by requests", wraps_at=_WRAPS_AT_NS),
        counter("discards", "requests", "discards completed (4.18)", is_nullable=True),
        counter("discard_bytes", "bytes", "discarded (4.18)", is_nullable=True),
        counter("flushes", "requests", "cache flushes completed (5.5)", is_nullable=True),
        counter(
            "flush_time_ns",
            "ns",
            "sum over all flushes: the cost of commits (5.5)",
            is_nullable=True,
            wraps_at=_WRAPS_AT_NS,
        ),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a device."""
        rows = parse(self._files.text("/proc/diskstats"))
        # A name such as cciss/c0d0 stands as cciss!c0d0 in /sys.
        whole = {path.rpartition("/")[2] for path in self._files.matching("/sys/block/*")}
        return [row for row in rows if str(row["device"]).replace("/", "!") in whole]
