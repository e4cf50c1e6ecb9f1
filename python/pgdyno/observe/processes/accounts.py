"""CPU time summed over groups of processes that come and go."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.observe.processes.proc_files import parse_schedstat, parse_stat

# Files kept open are read in a third of the time; the rest are opened at each sample.
_OPEN_FILES_SHARE = 4


@dataclass(slots=True)
class CpuTime:
    """Totals since the processes began; `wait_ns` is runnable, waiting for a core."""

    user_ns: int = 0
    system_ns: int = 0
    run_ns: int = 0
    wait_ns: int = 0

    def add(self, other: CpuTime) -> None:
        """Add the times of another process or group."""
        self.user_ns += other.user_ns
        self.system_ns += other.system_ns
        self.run_ns += other.run_ns
        self.wait_ns += other.wait_ns


@dataclass(slots=True)
class _Process:
    """A single-threaded process, its last known times and its open files."""

    pid: int
    group: str
    last: CpuTime
    files: tuple[int, int] | None = None


@dataclass(slots=True)
class GroupTotal:
    """One group: how many processes live, and the CPU time of the living and the ended."""

    process_count: int = 0
    cpu: CpuTime = field(default_factory=CpuTime)


class Accounts:
    """Keeps the times of single-threaded processes by group.

    The times of a process that ended stay in its group's total, as they were when it was last
    seen: totals only grow. Limits: what a process did after its last sample is lost.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._processes: dict[int, _Process] = {}
        self._ended: dict[str, CpuTime] = {}
        soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._open_at_most = soft_limit // _OPEN_FILES_SHARE // 2
        self._open_count = 0

    def unknown(self, pids: list[int]) -> list[int]:
        """Return those that have no group yet."""
        return [pid for pid in pids if pid not in self._processes]

    def assign(self, pid: int, group: str) -> None:
        """Begin to account a process."""
        files = None
        if self._open_count < self._open_at_most:
            files = self._open(pid)
            self._open_count += files is not None
        self._processes[pid] = _Process(pid, group, CpuTime(), files)

    def update(self, living: list[int]) -> dict[str, GroupTotal]:
        """Read the times of every living process; return the totals by group."""
        alive = set(living)
        for pid in [pid for pid in self._processes if pid not in alive]:
            self._end(pid)
        for process in list(self._processes.values()):
            seen = self._read(process)
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

    def close(self) -> None:
        """Close every file kept open."""
        for process in self._processes.values():
            self._close(process)

    def _end(self, pid: int) -> None:
        process = self._processes.pop(pid)
        self._close(process)
        self._ended.setdefault(process.group, CpuTime()).add(process.last)

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

    def _close(self, process: _Process) -> None:
        if process.files is not None:
            for descriptor in process.files:
                os.close(descriptor)
            process.files = None
            self._open_count -= 1

    def _read(self, process: _Process) -> CpuTime | None:
        try:
            if process.files is not None:
                stat_text = os.pread(process.files[0], 2048, 0).decode(errors="replace")
                schedstat_text = os.pread(process.files[1], 256, 0).decode()
            else:
                folder = self._proc / str(process.pid)
                stat_text = (folder / "stat").read_text(errors="replace")
                schedstat_text = (folder / "schedstat").read_text()
            stat = parse_stat(stat_text)
            run_ns, wait_ns = parse_schedstat(schedstat_text)
        except (OSError, ValueError, IndexError):
            return None
        return CpuTime(stat.user_ns, stat.system_ns, run_ns, wait_ns)
