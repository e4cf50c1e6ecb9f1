"""Memory of the server's processes: of a few of each kind, when the load is there, then rarely.

Adding up the pages of one process that maps 2 GB of shared memory takes the kernel 18 ms, so at
most eight are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.processes.backends import LOAD, OBSERVER

_PROCESSES_MAX = 8
_OF_A_KIND_MAX = 2
_AGAIN_NS = 60 * SECOND_NS


class FootprintCollector:
    """Samples resident and proportional memory of processes by kind, mean of those looked at."""

    name: ClassVar[str] = "footprint"
    meaning: ClassVar[str] = "Memory of the server's processes by kind, a few of each looked at"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "'load' = backends of this run's load, else as in pg_stat_activity"),
        gauge("processes", "processes", "looked at"),
        gauge("resident_bytes", "bytes", "of one, shared memory it touched included"),
        gauge("proportional_bytes", "bytes", "of one, shared pages divided by their users"),
        gauge("private_bytes", "bytes", "of one, its alone"),
    )

    def __init__(self, groups: Callable[[], Mapping[int, str]], proc: Path = Path("/proc")) -> None:
        """Args: groups, gives the kind of every process of the server by its number."""
        self._groups, self._proc = groups, proc
        self._last_ns = 0
        self._saw_load = False

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row a kind: at first, when the load was first seen, and once a minute.

        Raises: NotMeasurable where the kernel does not say, or not to us.
        """
        groups = self._groups()
        has_load = LOAD in groups.values()
        is_due = now_ns - self._last_ns >= _AGAIN_NS or (has_load and not self._saw_load)
        if not groups or not is_due:
            return []
        self._last_ns, self._saw_load = now_ns, self._saw_load or has_load
        seen: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for pid, group in _chosen(groups):
            try:
                text = (self._proc / str(pid) / "smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # Ended since.
            except PermissionError:
                raise NotMeasurable(
                    "The memory of the server's processes is for their own user to see."
                ) from None
            seen[group].append(parse(text))
        return [_row(group, sizes) for group, sizes in sorted(seen.items())]


def _row(group: str, sizes: list[tuple[int, int, int]]) -> Row:
    row: Row = {"backend_type": group, "processes": len(sizes)}
    for place, name in enumerate(_SIZES):
        row[name] = sum(one[place] for one in sizes) // len(sizes)
    return row


_SIZES = ("resident_bytes", "proportional_bytes", "private_bytes")


def parse(text: str) -> tuple[int, int, int]:
    """Return resident, proportional and private bytes of a file smaps_rollup."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            found[name] = int(words[0]) * 1024
    private = found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)
    return found.get("Rss", 0), found.get("Pss", 0), private


def _chosen(groups: Mapping[int, str]) -> list[tuple[int, str]]:
    """Return a few processes of each kind, the load's first."""
    by_group: dict[str, list[int]] = defaultdict(list)
    for pid, group in groups.items():
        if group != OBSERVER:
            by_group[group].append(pid)
    ranked = sorted(by_group, key=lambda group: (group != LOAD, -len(by_group[group]), group))
    chosen = [(pid, group) for group in ranked for pid in by_group[group][:_OF_A_KIND_MAX]]
    return chosen[:_PROCESSES_MAX]
