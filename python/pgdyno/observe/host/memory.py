"""Memory of the host: /proc/meminfo and /proc/vmstat."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import Column, Row, counter, gauge
from pgdyno.observe.host.files import HostCollector
from pgdyno.observe.processes.proc_files import PAGE_BYTES

# Column, its key in meminfo, its meaning.
_MEMORY_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("total_bytes", "MemTotal", "memory the kernel manages"),
    ("free_bytes", "MemFree", "used for nothing"),
    ("available_bytes", "MemAvailable", "available to programs without swapping"),
    ("buffers_bytes", "Buffers", "cached blocks of devices"),
    ("cached_bytes", "Cached", "cached pages of files, shared memory included"),
    ("shared_bytes", "Shmem", "shared memory and tmpfs"),
    ("anonymous_bytes", "AnonPages", "private memory of programs"),
    ("page_tables_bytes", "PageTables", "page tables; large with many backends and no huge pages"),
    ("dirty_bytes", "Dirty", "waiting to be written to disk"),
    ("writeback_bytes", "Writeback", "being written to disk"),
    ("committed_bytes", "Committed_AS", "promised to programs"),
    ("commit_limit_bytes", "CommitLimit", "limit of these promises with overcommit_memory = 2"),
    ("swap_total_bytes", "SwapTotal", "swap space"),
    ("swap_free_bytes", "SwapFree", "swap space not used"),
)


def parse_memory(text: str) -> Row:
    """Return sizes in bytes; None for sizes that this kernel does not report."""
    bytes_by_field: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words:
            bytes_by_field[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    row: Row = {column: bytes_by_field.get(field) for column, field, _ in _MEMORY_FIELDS}
    page_bytes = bytes_by_field.get("Hugepagesize", 0)
    row["huge_pages_total_bytes"] = bytes_by_field.get("HugePages_Total", 0) * page_bytes
    row["huge_pages_free_bytes"] = bytes_by_field.get("HugePages_Free", 0) * page_bytes
    return row


class MemoryCollector(HostCollector):
    """Samples /proc/meminfo."""

    name: ClassVar[str] = "memory"
    meaning: ClassVar[str] = "Memory of the host, dirty pages and swap"
    columns: ClassVar[tuple[Column, ...]] = (
        *(gauge(name, "bytes", meaning, is_nullable=True) for name, _, meaning in _MEMORY_FIELDS),
        gauge("huge_pages_total_bytes", "bytes", "set aside as explicit huge pages"),
        gauge("huge_pages_free_bytes", "bytes", "of these: not used"),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        return [parse_memory(self._files.text("/proc/meminfo"))]


_KIB = 1024
# Column, unit, keys of vmstat that are added up, factor, meaning. pgpgin and pgpgout count KiB.
_PAGING_FIELDS: tuple[tuple[str, str, tuple[str, ...], int, str], ...] = (
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
        "examined because memory was short",
    ),
    ("stolen_pages", "pages", ("pgsteal_kswapd", "pgsteal_direct"), 1, "of these: taken back"),
    ("direct_scans", "pages", ("pgscan_direct",), 1, "of these: by programs that had to wait"),
    ("oom_kills", "processes", ("oom_kill",), 1, "killed because memory was exhausted (4.13)"),
)
_KEYS = {key for _, _, keys, _, _ in _PAGING_FIELDS for key in keys}


def parse_paging(text: str) -> Row:
    """Return the counters; None for what this kernel does not count."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name in _KEYS and value.strip().isdigit():
            counts[name] = int(value)
    row: Row = {}
    for column, _, keys, factor, _ in _PAGING_FIELDS:
        known = [counts[key] for key in keys if key in counts]
        row[column] = sum(known) * factor if known else None
    return row


class PagingCollector(HostCollector):
    """Samples /proc/vmstat."""

    name: ClassVar[str] = "paging"
    meaning: ClassVar[str] = "Pages read, written, swapped and reclaimed, and page faults"
    columns: ClassVar[tuple[Column, ...]] = tuple(
        counter(name, unit, meaning, is_nullable=True)
        for name, unit, _, _, meaning in _PAGING_FIELDS
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        return [parse_paging(self._files.text("/proc/vmstat"))]
