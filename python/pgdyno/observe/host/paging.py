"""Pages moved between memory, disk and swap, and the kernel's hunt for free ones: /proc/vmstat."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter
from pgdyno.observe.host.files import HERE, HostFiles
from pgdyno.observe.processes.proc_files import PAGE_BYTES

_KIB = 1024
# Column, unit, keys of vmstat that are added up, factor, meaning. pgpgin and pgpgout count KiB.
_FIELDS: tuple[tuple[str, str, tuple[str, ...], int, str], ...] = (
    ("paged_in_bytes", "bytes", ("pgpgin",), _KIB, "read from disks into memory"),
    ("paged_out_bytes", "bytes", ("pgpgout",), _KIB, "written from memory to disks"),
    ("swapped_in_bytes", "bytes", ("pswpin",), PAGE_BYTES, "read from swap"),
    ("swapped_out_bytes", "bytes", ("pswpout",), PAGE_BYTES, "written to swap"),
    ("faults", "faults", ("pgfault",), 1, "page faults, major ones included"),
    ("major_faults", "faults", ("pgmajfault",), 1, "page faults that waited for a disk"),
    (
        "scanned_pages",
        "pages",
        ("pgscan_kswapd", "pgscan_direct"),
        1,
        "looked at when memory ran short",
    ),
    ("stolen_pages", "pages", ("pgsteal_kswapd", "pgsteal_direct"), 1, "of these: taken back"),
    ("direct_scans", "pages", ("pgscan_direct",), 1, "of these: by programs that had to wait"),
    ("oom_kills", "processes", ("oom_kill",), 1, "killed for want of memory (4.13)"),
)
_KEYS = {key for _, _, keys, _, _ in _FIELDS for key in keys}


def parse(text: str) -> Row:
    """Return the counters; None for what this kernel does not count."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name in _KEYS and value.strip().isdigit():
            found[name] = int(value)
    row: Row = {}
    for column, _, keys, factor, _ in _FIELDS:
        known = [found[key] for key in keys if key in found]
        row[column] = sum(known) * factor if known else None
    return row


class PagingCollector:
    """Samples /proc/vmstat."""

    name: ClassVar[str] = "paging"
    meaning: ClassVar[str] = "Pages read, written, swapped and reclaimed, and page faults"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = tuple(
        counter(name, unit, meaning, is_nullable=True) for name, unit, _, _, meaning in _FIELDS
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        return [parse(self._files.text("/proc/vmstat"))]
