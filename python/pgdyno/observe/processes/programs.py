"""CPU time of our own programs: the load engine and the lab, which watches."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.host.files import read_whole
from pgdyno.observe.processes.proc_files import parse_schedstat, parse_stat

LAB = "lab"
ENGINE = "engine"
POOLER = "pooler"


class ProgramsCollector:
    """Samples whole programs, all threads. `watch` adds one while the collector runs."""

    name: ClassVar[str] = "programs"
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
        return 0, 0  # It ended since the list of threads was made.
