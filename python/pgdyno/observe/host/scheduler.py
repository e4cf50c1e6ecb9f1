"""Run queue, context switches and load of the host: /proc/stat and /proc/loadavg."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, gauge
from pgdyno.observe.host.files import HERE, HostFiles

_KEYS = {
    "procs_running": "running",
    "procs_blocked": "blocked",
    "ctxt": "context_switches",
    "processes": "forks",
}


def parse(stat: str, loadavg: str) -> Row:
    """Return the run queue now, and counters since boot."""
    row: Row = {}
    for line in stat.splitlines():
        name, _, rest = line.partition(" ")
        if name in _KEYS:
            row[_KEYS[name]] = int(rest)
    row["load_1min_ratio"] = float(loadavg.split()[0])
    return row


class SchedulerCollector:
    """Samples how many threads run, wait and are switched."""

    name: ClassVar[str] = "scheduler"
    meaning: ClassVar[str] = "Run queue, context switches and load of the host"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("running", "threads", "running or ready to run at this instant; at least this one"),
        gauge("blocked", "threads", "waiting for a disk at this instant"),
        counter("context_switches", "switches", "since boot"),
        counter("forks", "processes", "processes and threads begun since boot"),
        Column("load_1min_ratio", "float64", "threads", "load average over one minute"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        return [parse(self._files.text("/proc/stat"), self._files.text("/proc/loadavg"))]
