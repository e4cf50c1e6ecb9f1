"""Time in which a control group kept a program off the CPU: cpu.stat of versions 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.host.files import HERE, HostFiles


def parse_cpu_stat(text: str) -> tuple[int, int, int]:
    """Return periods, throttled periods and throttled time in ns; 0 where there is no limit."""
    values = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    throttled_ns = int(values.get("throttled_usec", 0)) * 1000 + int(
        values.get("throttled_time", 0)
    )
    return int(values.get("nr_periods", 0)), int(values.get("nr_throttled", 0)), throttled_ns


def parse_own_groups(text: str) -> tuple[str | None, str | None]:
    """Return a process's group of version 2 and its group of the version 1 cpu controller."""
    unified = cpu = None
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            unified = group
        elif "cpu" in controllers.split(","):
            cpu = group
    return unified, cpu


def parse_mounts(text: str) -> tuple[str | None, str | None]:
    """Return where version 2 and the version 1 cpu controller are mounted, from /proc/mounts."""
    unified = cpu = None
    for line in text.splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2":
            unified = folder
        elif kind == "cgroup" and "cpu" in options.split(","):
            cpu = folder
    return unified, cpu


class ThrottlingCollector:
    """Samples the limits a program is under: its own control group and all above it."""

    name: ClassVar[str] = "throttling"
    meaning: ClassVar[str] = "Time in which a control group's limit kept a program off the CPU"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("program", "'lab' = this program and the load engine, 'server' = the postmaster"),
        counter("periods", "periods", "scheduling periods under a limit, all levels"),
        counter("throttled_periods", "periods", "of these: with the limit reached"),
        counter("throttled_ns", "ns", "time kept off the CPU, all levels and cores"),
    )

    def __init__(self, pids: Callable[[], Mapping[str, int]], files: HostFiles = HERE) -> None:
        self._files = files
        self._pids = pids
        self._paths: dict[str, list[str]] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a program."""
        if self._paths is None:
            pids = self._pids()
            if not pids:
                return []  # Nobody knows yet which process the server is.
            # A program that is moved to another group meanwhile is not followed.
            self._paths = {name: self._cpu_stats(pid) for name, pid in pids.items()}
        if not any(self._paths.values()):
            raise NotMeasurable("No control group with a CPU controller is mounted here.")
        rows: list[Row] = []
        for name, paths in self._paths.items():
            sums = [parse_cpu_stat(self._files.text(path)) for path in paths]
            rows.append(
                {
                    "program": name,
                    "periods": sum(periods for periods, _, _ in sums),
                    "throttled_periods": sum(throttled for _, throttled, _ in sums),
                    "throttled_ns": sum(time_ns for _, _, time_ns in sums),
                }
            )
        return rows

    def _cpu_stats(self, pid: int) -> list[str]:
        try:
            groups = parse_own_groups(self._files.text(f"/proc/{pid}/cgroup"))
            mounts = parse_mounts(self._files.text("/proc/mounts"))
        except FileNotFoundError:
            return []
        found: list[str] = []
        for group, mount in zip(groups, mounts, strict=True):
            if group is None or mount is None:
                continue
            levels = PurePosixPath(group.lstrip("/"))
            folders = [PurePosixPath(mount) / level for level in (levels, *levels.parents)]
            found += [f"{folder}/cpu.stat" for folder in dict.fromkeys(folders)]
        return [path for path in found if self._files.exists(path)]
