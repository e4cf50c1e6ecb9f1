"""CPU time of the host by core and mode: /proc/stat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from pgdyno.observe.collector import Column, NotMeasurable, Row, counter, gauge, key
from pgdyno.observe.host.control_groups import group_folders
from pgdyno.observe.host.files import HERE, HostCollector, HostFiles
from pgdyno.observe.processes.proc_files import TICK_NS

ALL_CORES = "all"
# In the kernel's order. `user` and `nice` include `guest` and `guest_nice`, which are left out.
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def parse_cpu(text: str) -> list[Row]:
    """Return CPU time by core; `all` is the kernel's own sum."""
    rows: list[Row] = []
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if not name.startswith("cpu"):
            continue
        ticks = [int(value) for value in rest.split()] + [0] * len(MODES)
        row: Row = {"core": name[3:] or ALL_CORES}
        row |= {f"{mode}_ns": ticks[place] * TICK_NS for place, mode in enumerate(MODES)}
        rows.append(row)
    return rows


class CpuCollector(HostCollector):
    """Samples /proc/stat."""

    name: ClassVar[str] = "cpu"
    meaning: ClassVar[str] = "CPU time of the host by core and mode"
    columns: ClassVar[tuple[Column, ...]] = (
        key("core", "number of the core; 'all' = the sum of all cores"),
        counter("user_ns", "ns", "programs, guests included"),
        counter("nice_ns", "ns", "programs with lowered priority"),
        counter("system_ns", "ns", "the kernel"),
        Column("idle_ns", "int64", "ns", "nothing to do", "counter", dips=True),
        Column("iowait_ns", "int64", "ns", "idle, its I/O outstanding", "counter", dips=True),
        counter("irq_ns", "ns", "interrupts"),
        counter("softirq_ns", "ns", "deferred interrupt work, such as the network's"),
        counter(
            "steal_ns", "ns", "ready to run, but the hypervisor gave the core to another machine"
        ),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a core, and the sum."""
        return parse_cpu(self._files.text("/proc/stat"))


_KEYS = {
    "procs_running": "running",
    "procs_blocked": "blocked",
    "ctxt": "context_switches",
    "processes": "forks",
}


def parse_scheduler(stat: str, loadavg: str) -> Row:
    """Return the run queue now, and counters since boot."""
    row: Row = {}
    for line in stat.splitlines():
        name, _, rest = line.partition(" ")
        if name in _KEYS:
            row[_KEYS[name]] = int(rest)
    row["load_1min_ratio"] = float(loadavg.split()[0])
    return row


class SchedulerCollector(HostCollector):
    """Samples how many threads run, wait and are switched."""

    name: ClassVar[str] = "scheduler"
    meaning: ClassVar[str] = "Run queue, context switches and load of the host"
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("running", "threads", "running or ready to run at this instant; at least this one"),
        gauge("blocked", "threads", "waiting for a disk at this instant"),
        counter("context_switches", "switches", "since boot"),
        counter("forks", "processes", "processes and threads begun since boot"),
        Column("load_1min_ratio", "float64", "threads", "load average over one minute"),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        return [parse_scheduler(self._files.text("/proc/stat"), self._files.text("/proc/loadavg"))]


RESOURCES = ("cpu", "memory", "io")


def parse_pressure(text: str) -> Row:
    """Return the totals of one file; None for what the kernel does not report."""
    totals: Row = {"some_ns": None, "full_ns": None}
    for line in text.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if name == "total" and f"{kind}_ns" in totals:
                totals[f"{kind}_ns"] = int(value) * 1000
    return totals


class PressureCollector(HostCollector):
    """Samples pressure stall information."""

    name: ClassVar[str] = "pressure"
    meaning: ClassVar[str] = "Time in which tasks waited because CPU, memory or disk were short"
    columns: ClassVar[tuple[Column, ...]] = (
        key("resource", "cpu, memory or io"),
        counter("some_ns", "ns", "time in which at least one task waited", is_nullable=True),
        counter("full_ns", "ns", "time in which all tasks waited", is_nullable=True),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each resource."""
        if not self._files.exists("/proc/pressure"):
            raise NotMeasurable("This kernel has no pressure stall information (/proc/pressure).")
        rows: list[Row] = []
        for resource in RESOURCES:
            try:
                text = self._files.text(f"/proc/pressure/{resource}")
            except FileNotFoundError:
                continue
            except OSError as error:
                # Built in but switched off: the files exist but cannot be read.
                raise NotMeasurable(
                    f"Pressure stall information is switched off here ({error.strerror})."
                ) from error
            rows.append({"resource": resource, **parse_pressure(text)})
        return rows


def parse_cpu_stat(text: str) -> tuple[int, int, int]:
    """Return periods, throttled periods and throttled time in ns; 0 where there is no limit."""
    values = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    throttled_ns = int(values.get("throttled_usec", 0)) * 1000 + int(
        values.get("throttled_time", 0)
    )
    return int(values.get("nr_periods", 0)), int(values.get("nr_throttled", 0)), throttled_ns


class ThrottlingCollector(HostCollector):
    """Samples the CPU limits of a program: those of its control group and of all groups above."""

    name: ClassVar[str] = "throttling"
    meaning: ClassVar[str] = "Time in which the limit of a control group kept a program off the CPU"
    columns: ClassVar[tuple[Column, ...]] = (
        key("program", "'lab' = this program and the load engine, 'server' = the postmaster"),
        counter("periods", "periods", "scheduling periods under a limit, all levels"),
        counter("throttled_periods", "periods", "of these: with the limit reached"),
        counter("throttled_ns", "ns", "time kept off the CPU, all levels and cores"),
    )

    def __init__(self, pids: Callable[[], Mapping[str, int]], files: HostFiles = HERE) -> None:
        super().__init__(files)
        self._pids = pids
        self._paths: dict[str, list[str]] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each program."""
        if self._paths is None:
            pids = self._pids()
            if not pids:
                return []  # The pid of the server is not known yet.
            # If a program later moves to another group, its first group is still sampled.
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
            groups = self._files.text(f"/proc/{pid}/cgroup")
            mounts = self._files.text("/proc/mounts")
        except FileNotFoundError:
            return []
        paths = (f"{group.path}/cpu.stat" for group in group_folders(groups, mounts, "cpu"))
        return [path for path in paths if self._files.exists(path)]
