"""CPU time of processes from /proc: pure parsers, and readers that take a vanished process as 0."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.observe.processes.usage import Counts

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that are used."""

    parent_pid: int
    user_ns: int
    system_ns: int
    thread_count: int
    started_ticks: int
    resident_bytes: int


def parse_stat(text: str) -> ProcessStat:
    """Return the times of /proc/<pid>/stat; the name inside may hold spaces and brackets."""
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(
        parent_pid=int(fields[1]),
        user_ns=int(fields[11]) * TICK_NS,
        system_ns=int(fields[12]) * TICK_NS,
        thread_count=int(fields[17]),
        started_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * PAGE_BYTES,
    )


def parse_schedstat(schedstat: bytes) -> tuple[int, int, int]:
    """Return of one thread: ns on a core, ns runnable but waiting for a core, number of time
    slices.
    """
    run_ns, wait_ns, slices = schedstat.split()
    return int(run_ns), int(wait_ns), int(slices)


def parse_usage(stat: bytes) -> tuple[int, int, int, int, int]:
    """Return of /proc/<pid>/stat: ns in user mode and in the kernel, minor and major page faults.

    And ns of waiting for disks, 0 without delay accounting.
    """
    fields = stat[stat.rindex(b")") + 2 :].split(b" ", 40)
    return (
        *(int(fields[11]) * TICK_NS, int(fields[12]) * TICK_NS),
        *(int(fields[7]), int(fields[9]), int(fields[39]) * TICK_NS),
    )


def read_children(proc: Path, pid: int) -> list[int]:
    """Return the children of a process.

    Raises: FileNotFoundError when the process is gone. Limits: a kernel without the list of
    children needs a look at every process.
    """
    path = proc / str(pid) / "task" / str(pid) / "children"
    try:
        return [int(child) for child in path.read_text().split()]
    except FileNotFoundError:
        if not (proc / str(pid)).exists():
            raise
    return [other for other in _every_pid(proc) if _parent(proc, other) == pid]


def _every_pid(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()]


def _parent(proc: Path, pid: int) -> int:
    try:
        return parse_stat((proc / str(pid) / "stat").read_text()).parent_pid
    except (OSError, ValueError, IndexError):
        return -1


# Two files of each process, and at most a quarter of the open files that are permitted.
_OPEN_FILES_SHARE = 4 * 2


class OpenFiles:
    """Reads one file of processes of this host; keeps as many open as permitted."""

    def __init__(self, proc: Path, name: str, parse: Callable[[bytes], Counts]) -> None:
        """Args: name, of the file in the folder of a process."""
        self._proc, self._name, self._parse = proc, name, parse
        self._open_at_most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _OPEN_FILES_SHARE
        self._files: dict[int, int] = {}

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        try:
            file = self._files.get(pid)
            if file is None:
                return self._parse(self._first_read(pid))
            return self._parse(os.pread(file, 1024, 0))
        except (OSError, ValueError, IndexError):
            return None

    def forget(self, pid: int) -> None:
        """Close the file of a process."""
        file = self._files.pop(pid, None)
        if file is not None:
            os.close(file)

    def _first_read(self, pid: int) -> bytes:
        file = os.open(f"{self._proc}/{pid}/{self._name}", os.O_RDONLY | os.O_CLOEXEC)
        if len(self._files) < self._open_at_most:
            self._files[pid] = file
            return os.pread(file, 1024, 0)
        try:
            return os.pread(file, 1024, 0)
        finally:
            os.close(file)
