"""How the server's processes used their CPU time, and what their memory cost them, by kind.

Apart from `backends`, and rarer: the kernel needs three times as long for /proc/<pid>/stat as for
schedstat, 5 us of each process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.processes.accounts import Accounts, Counts, Process, Reader


class UsageCollector:
    """Samples CPU time by mode, page faults and waits for disks of the server's processes."""

    name: ClassVar[str] = "process_usage"
    meaning: ClassVar[str] = "CPU time by mode, page faults and disk waits of processes by kind"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "'load' = backends of this run's load, else as in pg_stat_activity"),
        counter("cpu_user_ns", "ns", "CPU time in user mode; in steps of a clock tick"),
        counter("cpu_system_ns", "ns", "CPU time in the kernel; in steps of a clock tick"),
        counter("minor_faults", "faults", "pages mapped that were in memory"),
        counter("major_faults", "faults", "pages that had to be read"),
        counter("io_delay_ns", "ns", "waiting for a disk; 0 without delay accounting"),
    )

    def __init__(self, processes: Callable[[], Mapping[int, Process]], usage: Reader) -> None:
        """Args: processes, gives every process of the server with its `backends` times."""
        self._processes = processes
        self._reader = _OfThoseThatRan(processes, usage)
        self._accounts = Accounts(self._reader, width=5)

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a group."""
        processes = self._processes()
        for pid, process in processes.items():
            known = self._accounts.processes.get(pid)
            if known is None or known.group != process.group:
                self._accounts.assign(pid, process.group)
        names = [column.name for column in self.columns]
        return [
            dict(zip(names, (group, *total.counts), strict=True))
            for group, total in sorted(self._accounts.update(list(processes)).items())
        ]

    def close(self) -> None:
        """Close the files kept open."""
        self._accounts.close()


class _OfThoseThatRan:
    """Reads only processes that were given a core since: nothing else of the others has changed."""

    def __init__(self, processes: Callable[[], Mapping[int, Process]], usage: Reader) -> None:
        self._processes, self._usage = processes, usage
        self._seen: dict[int, tuple[Counts, Counts]] = {}

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        times = self._processes()[pid].counts
        seen = self._seen.get(pid)
        if seen is not None and seen[0] == times:
            return seen[1]
        counts = self._usage.read(pid)
        if counts is not None:
            self._seen[pid] = times, counts
        return counts

    def forget(self, pid: int) -> None:
        """Keep nothing of a process any longer."""
        self._seen.pop(pid, None)
        self._usage.forget(pid)
