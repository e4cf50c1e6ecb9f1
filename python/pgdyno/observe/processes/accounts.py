"""CPU time summed over groups of processes that come and go."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pgdyno.observe.processes.proc_files import parse_schedstat, parse_stat

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

    def add(self, other: CpuTime) -> None:
        """Add the times of another process or group."""
        self.user_ns += other.user_ns
        self.system_ns += other.system_ns
        self.run_ns += other.run_ns
        self.wait_ns += other.wait_ns
        self.slices += other.slices
        self.minor_faults += other.minor_faults
        self.major_faults += other.major_faults
        self.io_delay_ns += other.io_delay_ns


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
        self._ended: dict[str, CpuTime] = {}

    def unknown(self, pids: list[int]) -> list[int]:
        """Return those that have no group yet."""
        return [pid for pid in pids if pid not in self._processes]

    def assign(self, pid: int, group: str) -> None:
        """Begin to account a process."""
        self._processes[pid] = _Process(pid, group, CpuTime())

    def update(self, living: list[int]) -> dict[str, GroupTotal]:
        """Read the times of every living process; return the totals by group."""
        alive = set(living)
        for pid in [pid for pid in self._processes if pid not in alive]:
            self._end(pid)
        for process in list(self._processes.values()):
            seen = self._reader.read(process.pid)
            if seen is None or seen.run_ns < process.last.run_ns:
                # Gone since the list was made; or its number belongs to another process by now.
                self._end(process.pid)
            else:
                process.last = seen
        totals: dict[str, GroupTotal] = {}
        for group, cpu in self._ended.items():
            totals.setdefault(group, GroupTotal()).cpu.add(cpu)
        for process in self._processes.values():
            total = totals.setdefault(process.group, GroupTotal())
            total.process_count += 1
            total.cpu.add(process.last)
        return totals

    def groups(self) -> dict[int, str]:
        """Return the group of every process accounted."""
        return {pid: process.group for pid, process in self._processes.items()}

    def close(self) -> None:
        """Forget every process."""
        for pid in self._processes:
            self._reader.forget(pid)

    def _end(self, pid: int) -> None:
        process = self._processes.pop(pid)
        self._reader.forget(pid)
        self._ended.setdefault(process.group, CpuTime()).add(process.last)


class OpenFiles:
    """Reads processes of this host through files kept open, as many as may be."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._open_at_most = soft_limit // _OPEN_FILES_SHARE // 2
        self._files: dict[int, tuple[int, int] | None] = {}
        self._open_count = 0

    def read(self, pid: int) -> CpuTime | None:
        """Return the times of a process, None when it is gone."""
        if pid not in self._files:
            self._files[pid] = self._open(pid) if self._open_count < self._open_at_most else None
            self._open_count += self._files[pid] is not None
        files = self._files[pid]
        try:
            if files is not None:
                stat = os.pread(files[0], 2048, 0).decode(errors="replace")
                schedstat = os.pread(files[1], 256, 0).decode()
            else:
                folder = self._proc / str(pid)
                stat = (folder / "stat").read_text(errors="replace")
                schedstat = (folder / "schedstat").read_text()
            return cpu_time(stat, schedstat)
        except (OSError, ValueError, IndexError):
            return None

    def forget(self, pid: int) -> None:
        """Close the files of a process."""
        files = self._files.pop(pid, None)
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


def cpu_time(stat_text: str, schedstat_text: str) -> CpuTime:
    """Return the times of a process, of its files stat and schedstat."""
    stat = parse_stat(stat_text)
    return CpuTime(
        *(stat.user_ns, stat.system_ns, *parse_schedstat(schedstat_text)),
        *(stat.minor_faults, stat.major_faults, stat.io_delay_ns),
    )
