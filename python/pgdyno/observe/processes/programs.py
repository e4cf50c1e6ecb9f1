"""Memory of the server's processes, and CPU time of whole programs: engine, lab, pooler.

Memory is read of a few processes of each kind, when the load begins and then once a minute: if a
process maps 2 GB of shared memory, the kernel takes 18 ms to add up its pages.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import (
    SECOND_NS,
    Column,
    NotMeasurable,
    Row,
    Scope,
    counter,
    gauge,
    key,
)
from pgdyno.observe.host.files import read_whole
from pgdyno.observe.processes.backends import LOAD, OBSERVER
from pgdyno.observe.processes.proc_files import parse_schedstat, parse_stat

_PROCESSES_MAX = 8
_OF_A_KIND_MAX = 2
_AGAIN_NS = 60 * SECOND_NS


class FootprintCollector:
    """Samples resident and proportional memory by kind: the mean of a few processes."""

    name: ClassVar[str] = "footprint"
    scope: ClassVar[Scope] = "processes"
    meaning: ClassVar[str] = "Memory of the server's processes by kind, mean of a few processes"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "'load' = backends of this run's load, else as in pg_stat_activity"),
        gauge("processes", "processes", "that were read"),
        gauge("resident_bytes", "bytes", "of one process, with the shared memory it touched"),
        gauge("proportional_bytes", "bytes", "of one process, shared pages divided by their users"),
        gauge("private_bytes", "bytes", "of one process, without shared pages"),
    )

    def __init__(self, groups: Callable[[], Mapping[int, str]], proc: Path = Path("/proc")) -> None:
        """Args: groups, a function that returns the kind of every process of the server by pid."""
        self._groups, self._proc = groups, proc
        self._last_ns = 0
        self._saw_load = False

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row for each kind: at first, when the load begins, and once a minute.

        Raises: NotMeasurable if the kernel does not report it, or not to this user.
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
                continue  # The process has ended meanwhile.
            except PermissionError:
                raise NotMeasurable(
                    "Only the server's own user may read the memory of its processes."
                ) from None
            seen[group].append(parse(text))
        return [_row(group, sizes) for group, sizes in sorted(seen.items())]


def _row(group: str, sizes: list[tuple[int, int, int]]) -> Row:
    row: Row = {"backend_type": group, "processes": len(sizes)}
    for place, name in enumerate(_SIZES):
        row[name] = sum(sample[place] for sample in sizes) // len(sizes)
    return row


_SIZES = ("resident_bytes", "proportional_bytes", "private_bytes")


def parse(text: str) -> tuple[int, int, int]:
    """Return resident, proportional and private bytes of a file smaps_rollup."""
    bytes_by_field: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            bytes_by_field[name] = int(words[0]) * 1024
    private = bytes_by_field.get("Private_Clean", 0) + bytes_by_field.get("Private_Dirty", 0)
    return bytes_by_field.get("Rss", 0), bytes_by_field.get("Pss", 0), private


def _chosen(groups: Mapping[int, str]) -> list[tuple[int, str]]:
    """Return a few processes of each kind, the load's first."""
    by_group: dict[str, list[int]] = defaultdict(list)
    for pid, group in groups.items():
        if group != OBSERVER:
            by_group[group].append(pid)
    ranked = sorted(by_group, key=lambda group: (group != LOAD, -len(by_group[group]), group))
    chosen = [(pid, group) for group in ranked for pid in by_group[group][:_OF_A_KIND_MAX]]
    return chosen[:_PROCESSES_MAX]


LAB = "lab"
ENGINE = "engine"
POOLER = "pooler"


class ProgramsCollector:
    """Samples whole programs, all threads. `watch` adds a program while the collector runs."""

    name: ClassVar[str] = "programs"
    scope: ClassVar[Scope] = "processes"
    meaning: ClassVar[str] = "CPU time and memory of the load engine, the lab and a pooler"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("program", "'engine' = the load engine, 'lab' = this program, 'pooler' in the path"),
        gauge("threads", "threads", "how many threads"),
        counter("cpu_user_ns", "ns", "CPU time in user mode; in steps of a clock tick"),
        counter("cpu_system_ns", "ns", "CPU time in the kernel; in steps of a clock tick"),
        counter("run_ns", "ns", "time on a core, of the threads alive now (schedstat)"),
        counter("wait_ns", "ns", "time runnable and waiting for a core, of the threads alive now"),
        gauge("resident_bytes", "bytes", "resident memory"),
    )

    def __init__(self, *, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._lock = threading.Lock()
        self._pids = {LAB: os.getpid()}

    def watch(self, program: str, pid: int) -> None:
        """Begin to sample a program; a second pid takes the place of the first."""
        with self._lock:
            self._pids[program] = pid

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each program that lives."""
        with self._lock:
            pids = dict(self._pids)
        rows = (self._row(program, pid) for program, pid in pids.items())
        return [row for row in rows if row is not None]

    def _row(self, program: str, pid: int) -> Row | None:
        folder = f"{self._proc}/{pid}"
        try:
            stat = parse_stat(read_whole(f"{folder}/stat").decode(errors="replace"))
            threads = os.listdir(f"{folder}/task")  # noqa: PTH208 - as `read_whole`
            times = [_thread_times(f"{folder}/task/{thread}") for thread in threads]
        except (FileNotFoundError, ProcessLookupError):
            return None
        return {
            "program": program,
            "threads": stat.thread_count,
            "cpu_user_ns": stat.user_ns,
            "cpu_system_ns": stat.system_ns,
            "run_ns": sum(run_ns for run_ns, _ in times),
            "wait_ns": sum(wait_ns for _, wait_ns in times),
            "resident_bytes": stat.resident_bytes,
        }


def _thread_times(folder: str) -> tuple[int, int]:
    try:
        run_ns, wait_ns, _ = parse_schedstat(read_whole(f"{folder}/schedstat"))
        return run_ns, wait_ns
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0  # The thread ended after the list of threads was made.
