"""Counts summed over groups of processes that come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

# What is counted of one process since it began; the first never falls while it lives.
Counts = tuple[int, ...]


class Reader(Protocol):
    """Reads the counts of single-threaded processes of one host."""

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        ...

    def forget(self, pid: int) -> None:
        """Keep nothing of a process any longer."""
        ...


@dataclass(slots=True)
class Process:
    """A process, and its counts as they were last seen; none yet when it is new."""

    group: str
    counts: Counts = ()


class GroupTotal(NamedTuple):
    """One group: how many processes live, and the counts of the living and the ended."""

    process_count: int
    counts: Counts


class Accounts:
    """Keeps the counts of processes by group.

    Those of a process that ended stay in its group's total, as they were when it was last seen:
    totals only grow. Limits: what a process did after its last sample is lost.
    """

    def __init__(self, reader: Reader, width: int) -> None:
        """Args: width, how many counts the reader gives."""
        self._reader = reader
        self._nothing: Counts = (0,) * width
        self.processes: dict[int, Process] = {}
        self._ended: dict[str, Counts] = {}

    def unknown(self, pids: list[int]) -> list[int]:
        """Return those that have no group yet."""
        return [pid for pid in pids if pid not in self.processes]

    def assign(self, pid: int, group: str) -> None:
        """Begin to account a process; one that had this number before has ended."""
        if pid in self.processes:
            self._end(pid)
        self.processes[pid] = Process(group)
        self._ended.setdefault(group, self._nothing)

    def update(self, living: list[int]) -> dict[str, GroupTotal]:
        """Read the counts of every living process; return the totals by group."""
        alive, read = set(living), self._reader.read
        counts_of: dict[str, list[Counts]] = {group: [] for group in self._ended}
        ended = []
        for pid, process in self.processes.items():
            seen = read(pid) if pid in alive else None
            if seen is None or (process.counts and seen[0] < process.counts[0]):
                # Gone since the list was made; or its number belongs to another process by now.
                ended.append(pid)
            else:
                process.counts = seen
                counts_of[process.group].append(seen)
        for pid in ended:
            self._end(pid)
        return {
            group: GroupTotal(len(counts), _sum([self._ended[group], *counts]))
            for group, counts in counts_of.items()
        }

    def close(self) -> None:
        """Keep nothing of any process."""
        for pid in self.processes:
            self._reader.forget(pid)

    def _end(self, pid: int) -> None:
        process = self.processes.pop(pid)
        if process.counts:
            self._ended[process.group] = _sum([self._ended[process.group], process.counts])
        self._reader.forget(pid)


def _sum(counts: list[Counts]) -> Counts:
    return tuple(map(sum, zip(*counts, strict=True)))
