"""Memory of the host: /proc/meminfo."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, gauge
from pgdyno.observe.host.files import HERE, HostFiles

# Column, its key in meminfo, its meaning.
_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("total_bytes", "MemTotal", "memory the kernel manages"),
    ("free_bytes", "MemFree", "used for nothing"),
    ("available_bytes", "MemAvailable", "what programs could get without swapping"),
    ("buffers_bytes", "Buffers", "cached blocks of devices"),
    ("cached_bytes", "Cached", "cached pages of files, shared memory included"),
    ("shared_bytes", "Shmem", "shared memory and tmpfs"),
    ("anonymous_bytes", "AnonPages", "private memory of programs"),
    ("page_tables_bytes", "PageTables", "page tables; large with many backends and no huge pages"),
    ("dirty_bytes", "Dirty", "waiting to be written to disk"),
    ("writeback_bytes", "Writeback", "being written to disk"),
    ("committed_bytes", "Committed_AS", "promised to programs"),
    ("commit_limit_bytes", "CommitLimit", "what may be promised with overcommit_memory = 2"),
    ("swap_total_bytes", "SwapTotal", "swap space"),
    ("swap_free_bytes", "SwapFree", "swap space not used"),
)


def parse(text: str) -> Row:
    """Return sizes in bytes; None for what this kernel does not tell."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words:
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    row: Row = {column: found.get(field) for column, field, _ in _FIELDS}
    page_bytes = found.get("Hugepagesize", 0)
    row["huge_pages_total_bytes"] = found.get("HugePages_Total", 0) * page_bytes
    row["huge_pages_free_bytes"] = found.get("HugePages_Free", 0) * page_bytes
    return row


class MemoryCollector:
    """Samples /proc/meminfo."""

    name: ClassVar[str] = "memory"
    meaning: ClassVar[str] = "Memory of the host, dirty pages and swap"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        *(gauge(name, "bytes", meaning, is_nullable=True) for name, _, meaning in _FIELDS),
        gauge("huge_pages_total_bytes", "bytes", "set aside as explicit huge pages"),
        gauge("huge_pages_free_bytes", "bytes", "of these: not used"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        return [parse(self._files.text("/proc/meminfo"))]
