"""CPU time summed over groups of processes that come and go."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pgdyno.observe.processes.proc_files import TICK_NS

# Files kept open are read in a third of the time; the rest are opened at each sample.
_OPEN_FILES_SHARE = 4


@dataclass(slots=True)
class CpuTime:
    """Totals since the processes began; the faults and the wait for disks beside the CPU time.

    `wait_ns` is runnable, waiting for a core; `slices` is how often they were given one.
    """

    user_ns: int = 0
    system_ns: int = 0
    run_ns: int = 0
    wait_ns: int = 0
    slices: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    io_delay_ns: int = 0

    def grow(self, before: CpuTime, now: CpuTime) -> None:
        """Add what a process used between two looks."""
        self.user_ns += now.user_ns - before.user_ns
        self.system_ns += now.system_ns - before.system_ns
        self.run_ns += now.run_ns - before.run_ns
        self.wait_ns += now.wait_ns - before.wait_ns
        self.slices += now.slices - before.slices
        self.minor_faults += now.minor_faults - before.minor_faults
        self.major_faults += now.major_faults - before.major_faults
        self.io_delay_ns += now.io_delay_ns - before.io_delay_ns


@dataclass(slots=True)
class _Process:
    """A single-threaded process and its last known times."""

    pid: int
    group: str
    last: CpuTime


@dataclass(slots=True)
class GroupTotal:
    """One group: how many processes live, and the CPU time of the living and the ended."""

    process_count: int = 0
    cpu: CpuTime = field(default_factory=CpuTime)


class Reader(Protocol):
    """Reads the times of single-threaded processes of one host."""

    def read(self, pid: int) -> CpuTime | None:
        """Return the times of a process, None when it is gone."""
        ...

    def forget(self, pid: int) -> None:
        """Keep nothing of a process any longer."""
        ...


class Accounts:
    """Keeps the times of single-threaded processes by group.

    The times of a process that ended stay in its group's total, as they were when it was last
    seen: totals only grow. Limits: what a process did after its last sample is lost.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._processes: dict[int, _Process] = {}
        self._totals: dict[str, GroupTotal] = {}

    def unknown(self, pids: list[int]) -> list[int]:
        """Return those that have no group yet."""
        return [pid for pid in pids if pid not in self._processes]

    def assign(self, pid: int, group: str) -> None:
        """Begin to account a process."""
        self._processes[pid] = _Process(pid, group, CpuTime())
        self._totals.setdefault(group, GroupTotal()).process_count += 1

    def update(self, living: list[int]) -> dict[str, GroupTotal]:
        """Read the times of every living process; return the totals by group."""
        alive = set(living)
        for pid in [pid for pid in self._processes if pid not in alive]:
            self._end(pid)
        for process in list(self._processes.values()):
            seen, last = self._reader.read(process.pid), process.last
            if seen is last:
                continue  # Most of many sessions are idle.
            if seen is None or seen.run_ns < last.run_ns:
                # Gone since the list was made; or its number belongs to another process by now.
                self._end(process.pid)
            else:
                self._totals[process.group].cpu.grow(last, seen)
                process.last = seen
        return self._totals

    def groups(self) -> dict[int, str]:
        """Return the group of every process accounted."""
        return {pid: process.group for pid, process in self._processes.items()}

    def close(self) -> None:
        """Forget every process."""
        for pid in self._processes:
            self._reader.forget(pid)

    def _end(self, pid: int) -> None:
        self._totals[self._processes.pop(pid).group].process_count -= 1
        self._reader.forget(pid)


class OpenFiles:
    """Reads processes of this host through files kept open, as many as may be."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._open_at_most = soft_limit // _OPEN_FILES_SHARE // 2
        self._files: dict[int, tuple[int, int] | None] = {}
        self._open_count = 0
        # What was read last, as it was and as it was understood.
        self._seen: dict[int, tuple[bytes, CpuTime]] = {}

    def read(self, pid: int) -> CpuTime | None:
        """Return the times of a process, None when it is gone."""
        if pid not in self._files:
            self._files[pid] = self._open(pid) if self._open_count < self._open_at_most else None
            self._open_count += self._files[pid] is not None
        files = self._files[pid]
        try:
            if files is None:
                folder = self._proc / str(pid)
                return cpu_time((folder / "stat").read_bytes(), (folder / "schedstat").read_bytes())
            schedstat = os.pread(files[1], 256, 0)
            seen = self._seen.get(pid)
            if seen is not None and seen[0] == schedstat:
                return seen[1]  # It was not given a core since: nothing else has changed.
            times = cpu_time(os.pread(files[0], 2048, 0), schedstat)
            self._seen[pid] = schedstat, times
            return times
        except (OSError, ValueError, IndexError):
            return None

    def forget(self, pid: int) -> None:
        """Close the files of a process."""
        files = self._files.pop(pid, None)
        self._seen.pop(pid, None)
        if files is not None:
            for descriptor in files:
                os.close(descriptor)
            self._open_count -= 1

    def _open(self, pid: int) -> tuple[int, int] | None:
        folder = self._proc / str(pid)
        opened: list[int] = []
        try:
            for name in ("stat", "schedstat"):
                opened.append(os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            return None
        return opened[0], opened[1]


def cpu_time(stat: bytes, schedstat: bytes) -> CpuTime:
    """Return the times of a process, of its files stat and schedstat.

    Only the fields that are wanted are made numbers: this is done for every process every second.
    """
    fields = stat[stat.rindex(b")") + 2 :].split(b" ", 40)
    run_ns, wait_ns, slices = schedstat.split()
    return CpuTime(
        *(int(fields[11]) * TICK_NS, int(fields[12]) * TICK_NS),
        *(int(run_ns), int(wait_ns), int(slices)),
        *(int(fields[7]), int(fields[9]), int(fields[39]) * TICK_NS),
    )
