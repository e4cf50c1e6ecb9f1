"""Time in which a control group kept a program off the CPU: cpu.stat of versions 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, key


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

    def __init__(
        self,
        *,
        server_pid: int | None = None,
        proc: Path = Path("/proc"),
        root: Path = Path("/"),
    ) -> None:
        pids = {"lab": os.getpid()} | ({"server": server_pid} if server_pid else {})
        self._proc, self._root = proc, root
        self._pids: Mapping[str, int] = pids
        self._files: dict[str, list[Path]] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a program."""
        if self._files is None:
            # A program that is moved to another group meanwhile is not followed.
            self._files = {name: self._cpu_stats(pid) for name, pid in self._pids.items()}
        if not any(self._files.values()):
            raise NotMeasurable("No control group with a CPU controller is mounted here.")
        rows: list[Row] = []
        for name, paths in self._files.items():
            sums = [parse_cpu_stat(path.read_text()) for path in paths]
            rows.append(
                {
                    "program": name,
                    "periods": sum(periods for periods, _, _ in sums),
                    "throttled_periods": sum(throttled for _, throttled, _ in sums),
                    "throttled_ns": sum(time_ns for _, _, time_ns in sums),
                }
            )
        return rows

    def _cpu_stats(self, pid: int) -> list[Path]:
        try:
            groups = parse_own_groups((self._proc / str(pid) / "cgroup").read_text())
            mounts = parse_mounts((self._proc / "mounts").read_text())
        except FileNotFoundError:
            return []
        found: list[Path] = []
        for group, mount in zip(groups, mounts, strict=True):
            if group is None or mount is None:
                continue
            base = self._root / mount.lstrip("/")
            levels = PurePosixPath(group.lstrip("/"))
            folders = [base / levels, *(base / parent for parent in levels.parents)]
            found += [folder / "cpu.stat" for folder in dict.fromkeys(folders)]
        return [path for path in found if path.exists()]
