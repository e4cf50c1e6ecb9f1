"""Sums counts over groups of processes that start and end while they are observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope, counter, key

# The counts of one process since it began; the first count never falls while it lives.
Counts = tuple[int, ...]


class UsageReader(Protocol):
    """Reads the counts of single-threaded processes of one host."""

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        ...

    def forget(self, pid: int) -> None:
        """Release everything kept for a process."""
        ...


@dataclass(slots=True)
class Process:
    """A process, and its counts at the last sample; none yet if it is new."""

    group: str
    counts: Counts = ()


class GroupTotal(NamedTuple):
    """One group: how many processes live, and the counts of the living and the ended."""

    process_count: int
    counts: Counts


class Accounts:
    """Keeps the counts of processes by group.

    The last counts of a process that ended stay in its group's total: totals only grow. Limits:
    what a process did after its last sample is lost.
    """

    def __init__(self, reader: UsageReader, width: int) -> None:
        """Args: width, the number of counts that the reader returns."""
        self._reader = reader
        self._nothing: Counts = (0,) * width
        self.processes: dict[int, Process] = {}
        self._ended: dict[str, Counts] = {}

    def unknown(self, pids: list[int]) -> list[int]:
        """Return the pids that have no group yet."""
        return [pid for pid in pids if pid not in self.processes]

    def assign(self, pid: int, group: str) -> None:
        """Begin to account for a process. A former process with the same pid has ended."""
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
                # The process has ended; perhaps its pid now belongs to another process.
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
        """Release everything kept for all processes."""
        for pid in self.processes:
            self._reader.forget(pid)

    def _end(self, pid: int) -> None:
        process = self.processes.pop(pid)
        if process.counts:
            self._ended[process.group] = _sum([self._ended[process.group], process.counts])
        self._reader.forget(pid)


def _sum(counts: list[Counts]) -> Counts:
    return tuple(map(sum, zip(*counts, strict=True)))


# Reading this number of processes takes 0.25 to 0.5 ms; each of 250 busy processes is read every
# ten seconds.
AT_A_TIME = 25
_WIDTH = 5


class UsageCollector:
    """Samples CPU time by mode, page faults and waits for disks of the server's processes."""

    name: ClassVar[str] = "process_usage"
    scope: ClassVar[Scope] = "processes"
    meaning: ClassVar[str] = "CPU time by mode, page faults and disk waits of processes by kind"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "'load' = backends of this run's load, else as in pg_stat_activity"),
        counter("cpu_user_ns", "ns", "CPU time in user mode; in steps of a clock tick"),
        counter("cpu_system_ns", "ns", "CPU time in the kernel; in steps of a clock tick"),
        counter("minor_faults", "faults", "pages mapped that were in memory"),
        counter("major_faults", "faults", "pages that had to be read"),
        counter("io_delay_ns", "ns", "waiting for a disk; 0 without delay accounting"),
    )

    def __init__(self, processes: Callable[[], Mapping[int, Process]], usage: UsageReader) -> None:
        """Args: processes, a function that returns all processes of the server with their times."""
        self._processes = processes
        self._reader = _SomeOfThoseThatRan(usage)
        self._accounts = Accounts(self._reader, _WIDTH)

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a group."""
        processes = self._processes()
        for pid, process in processes.items():
            known = self._accounts.processes.get(pid)
            if known is None or known.group != process.group:
                self._accounts.assign(pid, process.group)
        self._reader.choose(processes)
        names = [column.name for column in self.columns]
        return [
            dict(zip(names, (group, *total.counts), strict=True))
            for group, total in sorted(self._accounts.update(list(processes)).items())
        ]

    def close(self) -> None:
        """Close the files kept open."""
        self._accounts.close()


class _SomeOfThoseThatRan:
    """Reads a few processes that ran since their last reading, the longest unread first.

    The others keep their last counts: a process that did not run has the same counts as before. The
    first time all are read, because earlier work of old sessions does not belong to this run.
    """

    def __init__(self, usage: UsageReader) -> None:
        self._usage = usage
        # Times and counts by pid, in the order of reading.
        self._seen: dict[int, tuple[Counts, Counts]] = {}
        self._chosen: dict[int, Counts] = {}

    def choose(self, processes: Mapping[int, Process]) -> None:
        """Choose the processes to read now."""
        waiting = [pid for pid in processes if pid not in self._seen]
        waiting += [
            pid
            for pid, (times, _) in self._seen.items()
            if pid in processes and processes[pid].counts != times
        ]
        some = waiting[:AT_A_TIME] if self._seen else waiting
        self._chosen = {pid: processes[pid].counts for pid in some}

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        times = self._chosen.get(pid)
        if times is None:
            return self._seen[pid][1] if pid in self._seen else (0,) * _WIDTH
        self._seen.pop(pid, None)
        counts = self._usage.read(pid)
        if counts is not None:
            self._seen[pid] = times, counts
        return counts

    def forget(self, pid: int) -> None:
        """Keep nothing of a process any longer."""
        self._seen.pop(pid, None)
        self._usage.forget(pid)
