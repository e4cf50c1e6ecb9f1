"""Reads facts about the host: processors, memory, kernel settings, limits, other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.features.doctor import host_files
from pgdyno.observe.host import cpu, memory
from pgdyno.observe.host.control_groups import group_folders
from pgdyno.observe.host.files import HERE, HostFiles, text_or_nothing
from pgdyno.observe.processes.proc_files import parse_stat

SYSCTLS = (
    "kernel/numa_balancing",
    "kernel/sched_autogroup_enabled",
    "vm/dirty_background_bytes",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_ratio",
    "vm/overcommit_memory",
    "vm/overcommit_ratio",
    "vm/swappiness",
    "vm/zone_reclaim_mode",
)
_CPU = "/sys/devices/system/cpu"
_THROTTLES = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")
_PRESSURES = ("cpu", "io", "memory")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the server's control groups; None: no limit; `io`: text from the kernel."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None
    io: tuple[str, ...] = ()
    throttled_count: int = 0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A program other than PostgreSQL and pgdyno, and the number of cores that it kept busy."""

    name: str
    busy_cores: float


@dataclass(frozen=True, slots=True)
class Window:
    """The activity of cores and of processes between two glances."""

    duration_s: float
    steal_ratio: float
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True)
class HostState:
    """One host. None or an empty text: this kernel or machine does not report the fact.

    `limits`: None if it is not known which process is the server. `governors`: one word for each
    core that has a governor. `memory`: bytes, by the columns of the memory collector. `sysctl`: by
    path below /proc/sys. `pressure_percent`: over the last minute.
    """

    cores: int = 1
    governors: tuple[str, ...] = ()
    is_virtual: bool = False
    machine: str = ""
    container: str = ""
    has_boost: bool | None = None
    huge_pages_mode: str = ""
    memory: Mapping[str, int] = field(default_factory=dict)
    sysctl: Mapping[str, int] = field(default_factory=dict)
    numa_nodes: int = 1
    runs_irqbalance: bool = False
    clock_source: str = ""
    clock_sources: tuple[str, ...] = ()
    limits: Limits | None = Limits()
    load_1min_ratio: float = 0.0
    pressure_percent: Mapping[str, float] = field(default_factory=dict)
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Glance:
    """CPU time of the host and of each process at one instant."""

    time_ns: int
    total_ns: int
    steal_ns: int
    by_process: Mapping[tuple[int, int], tuple[str, int]]


def read_host(files: HostFiles = HERE, *, pid: int, window: Window | None = None) -> HostState:
    """Return the facts about a host.

    Args: pid, of the process whose control groups are read, 0 if not known; window, the activity
    on the host, None if it was not measured.
    """

    def text(path: str) -> str:
        return text_or_nothing(files, path)

    cores = files.matching(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor")
    governors = [text(path).strip() for path in cores]
    stat = cpu.parse_cpu(text("/proc/stat"))
    sysctl = {name: host_files.whole(text(f"/proc/sys/{name}")) for name in SYSCTLS}
    clocks = "/sys/devices/system/clocksource/clocksource0"
    load = text("/proc/loadavg").split()
    pressures = {
        name: host_files.pressure_percent(text(f"/proc/pressure/{name}")) for name in _PRESSURES
    }
    meminfo = text("/proc/meminfo")
    memory_row = memory.parse_memory(meminfo) if meminfo else {}
    nodes = len(files.matching("/sys/devices/system/node/node[0-9]*"))
    is_virtual = host_files.is_virtual_machine(text("/proc/cpuinfo"))
    return HostState(
        cores=max(1, len(stat) - 1),
        governors=tuple(word for word in governors if word),
        is_virtual=is_virtual,
        machine=_machine(files, is_virtual=is_virtual),
        container=_container(files, pid),
        has_boost=_boost(files),
        huge_pages_mode=host_files.chosen(text("/sys/kernel/mm/transparent_hugepage/enabled"))
        or "",
        memory={name: value for name, value in memory_row.items() if isinstance(value, int)},
        sysctl={name: value for name, value in sysctl.items() if value is not None},
        numa_nodes=max(1, nodes),
        runs_irqbalance=_runs(files, "irqbalance"),
        clock_source=text(f"{clocks}/current_clocksource").strip(),
        clock_sources=tuple(text(f"{clocks}/available_clocksource").split()),
        limits=_limits(files, pid) if pid else None,
        load_1min_ratio=float(load[0]) if load else 0.0,
        pressure_percent={name: value for name, value in pressures.items() if value is not None},
        window=window,
    )


def glance(now_ns: int, files: HostFiles = HERE) -> Glance:
    """Return the CPU time used until now; `window_between` makes a window from two glances."""
    total = next(iter(cpu.parse_cpu(text_or_nothing(files, "/proc/stat"))), {})
    times = {name: value for name, value in total.items() if isinstance(value, int)}
    by_process: dict[tuple[int, int], tuple[str, int]] = {}
    for path in files.matching("/proc/[0-9]*/stat"):
        # Another host sends the files of the server's processes twice; the last text is used.
        text = text_or_nothing(files, path).strip().rpartition("\n")[2]
        if ")" not in text:
            continue  # The process ended after the list was made.
        stat = parse_stat(text)
        name = text[text.index("(") + 1 : text.rindex(")")]
        identity = (int(path.split("/")[2]), stat.started_ticks)
        by_process[identity] = (name, stat.user_ns + stat.system_ns)
    return Glance(now_ns, sum(times.values()), times.get("steal_ns", 0), by_process)


def window_between(first: Glance, last: Glance, *, own_pid: int) -> Window:
    """Return the activity between two glances; processes of one name are added up."""
    elapsed_ns = max(1, last.time_ns - first.time_ns)
    used_ns: dict[str, int] = {}
    for identity, (name, total_ns) in last.by_process.items():
        is_known = name.startswith(("postgres", "pgdyno")) or identity[0] == own_pid
        if identity in first.by_process and not is_known:
            used_ns[name] = used_ns.get(name, 0) + total_ns - first.by_process[identity][1]
    ranked = sorted(used_ns.items(), key=lambda item: -item[1])
    all_ns = last.total_ns - first.total_ns
    return Window(
        duration_s=elapsed_ns / 1e9,
        steal_ratio=(last.steal_ns - first.steal_ns) / all_ns if all_ns > 0 else 0.0,
        neighbours=tuple(Neighbour(name, ns / elapsed_ns) for name, ns in ranked if ns > 0),
    )


def _limits(files: HostFiles, pid: int) -> Limits:
    def text(path: str) -> str:
        return text_or_nothing(files, path)

    cgroup, mounts = text(f"/proc/{pid}/cgroup"), text("/proc/mounts")
    cores: list[float | None] = []
    throttled_count = 0
    for group in group_folders(cgroup, mounts, "cpu"):
        cores.append(
            host_files.cpu_cores(text(f"{group.path}/cpu.max"))
            if group.is_unified
            else host_files.cpu_cores_of_quota(
                text(f"{group.path}/cpu.cfs_quota_us"), text(f"{group.path}/cpu.cfs_period_us")
            )
        )
        throttled_count += cpu.parse_cpu_stat(text(f"{group.path}/cpu.stat"))[1]
    sizes: list[int | None] = []
    for group in group_folders(cgroup, mounts, "memory"):
        name = "memory.max" if group.is_unified else "memory.limit_in_bytes"
        sizes.append(host_files.memory_limit_bytes(text(f"{group.path}/{name}")))
    return Limits(
        cpu_cores=min((core for core in cores if core is not None), default=None),
        memory_bytes=min((size for size in sizes if size is not None), default=None),
        io=_io_limits(files, cgroup, mounts),
        throttled_count=throttled_count,
    )


def _io_limits(files: HostFiles, cgroup: str, mounts: str) -> tuple[str, ...]:
    limits: list[str] = []
    for group in group_folders(cgroup, mounts, "blkio"):
        for name in ("io.max",) if group.is_unified else _THROTTLES:
            for line in text_or_nothing(files, f"{group.path}/{name}").splitlines():
                given = " ".join(word for word in line.split() if not word.endswith("=max"))
                kind = "" if group.is_unified else f"{name.split('.')[2].removesuffix('_device')}="
                limits += [given.replace(" ", f" {kind}", 1)] if " " in given else []
    return tuple(limits)


def _machine(files: HostFiles, *, is_virtual: bool) -> str:
    """Return "virtual machine (Google Compute Engine)" or "hardware (...)" from the firmware."""
    names = ("sys_vendor", "product_name")
    words = [text_or_nothing(files, f"/sys/class/dmi/id/{name}").strip() for name in names]
    made_by = " ".join(dict.fromkeys(word for word in words if word))
    kind = "virtual machine" if is_virtual else "hardware"
    return f"{kind} ({made_by})" if made_by else kind


def _container(files: HostFiles, pid: int) -> str:
    """Return the kind of container that the process is in, "" if none."""
    marks = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
    for path, kind in marks:
        if files.exists(path):
            return kind
    for kind in ("kubepods", "docker", "lxc", "libpod"):
        if kind in text_or_nothing(files, f"/proc/{pid}/cgroup"):
            return kind
    return ""


def _boost(files: HostFiles) -> bool | None:
    """Return whether cores may run above their nominal frequency."""
    no_turbo = host_files.whole(text_or_nothing(files, f"{_CPU}/intel_pstate/no_turbo"))
    if no_turbo is not None:
        return no_turbo == 0
    boost = host_files.whole(text_or_nothing(files, f"{_CPU}/cpufreq/boost"))
    return None if boost is None else boost == 1


def _runs(files: HostFiles, name: str) -> bool:
    return any(
        text_or_nothing(files, path).strip() == name for path in files.matching("/proc/[0-9]*/comm")
    )


def own_pid() -> int:
    """Return this process's id."""
    return os.getpid()


def parent_pid(pid: int, files: HostFiles = HERE) -> int | None:
    """Return the parent of a process, None if not visible. A backend's parent is the postmaster."""
    text = text_or_nothing(files, f"/proc/{pid}/stat")
    return parse_stat(text).parent_pid if ")" in text else None
