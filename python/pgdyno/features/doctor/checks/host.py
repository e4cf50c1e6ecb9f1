"""The machine: conditions because of which equal runs give different numbers."""

from __future__ import annotations

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Judgement, Unknown, bad, good, warn
from pgdyno.features.doctor.host_facts import Limits
from pgdyno.quantities import counted, format_bytes, percent, plain

_FAST_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"}
_NEIGHBOUR_CORES = 0.1
_SMALL_RAM_BYTES = 8 << 30


@check("host", "a virtual machine cannot see how much CPU the hypervisor gives to other guests")
def machine(facts: CheckFacts) -> Judgement:
    """Whether the host is hardware, a virtual machine, or a container."""
    host = facts.on_host()
    if not host.machine:
        raise Unknown("the host does not report its kind")
    if host.container:
        return warn(
            f"{host.machine}, container ({host.container}): other containers and some limits "
            "are not visible from inside",
            "state this with the result, or measure on the host itself",
        )
    return good(host.machine)


@check("host", "a core that must first raise its clock rate answers the first statements late")
def cpu_governor(facts: CheckFacts) -> Judgement:
    """The frequency governor of all cores."""
    host = facts.on_host()
    if not host.governors:
        raise Unknown("the cores report no governor" + " (virtual machine)" * host.is_virtual)
    other = [word for word in host.governors if word != "performance"]
    if other:
        words = ", ".join(sorted(set(other)))
        return warn(
            f"{len(other)} of {len(host.governors)} cores: {words}",
            "cpupower frequency-set -g performance",
        )
    return good(f"performance on all {len(host.governors)} cores")


@check("host", "frequencies above the nominal one depend on temperature, and so do the results")
def cpu_boost(facts: CheckFacts) -> Judgement:
    """Frequencies that a core can keep only for a short time."""
    host = facts.on_host()
    if host.has_boost is None:
        raise Unknown("the cores do not report whether they boost")
    if host.has_boost:
        return warn(
            "boost is on",
            "for comparisons, echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
            " (or 0 > cpufreq/boost)",
        )
    return good("boost is off")


@check("host", "the kernel stops programs while it builds huge pages")
def transparent_huge_pages(facts: CheckFacts) -> Judgement:
    """Transparent huge pages."""
    mode = facts.on_host().huge_pages_mode
    if not mode:
        raise Unknown("this kernel has no transparent huge pages, or does not report them")
    if mode == "always":
        return warn(
            "transparent huge pages: always",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    return good(f"transparent huge pages: {mode}")


@check(
    "host",
    "if the kernel swapped out the server's memory, the server must read it back during a run",
)
def swappiness(facts: CheckFacts) -> Judgement:
    """How easily the kernel swaps programs out, and whether it has."""
    host = facts.on_host()
    value = host.sysctl.get("vm/swappiness")
    if value is None:
        raise Unknown("vm.swappiness cannot be read")
    total_bytes = host.memory.get("swap_total_bytes", 0)
    used_bytes = total_bytes - host.memory.get("swap_free_bytes", 0)
    seen = (
        f"vm.swappiness = {value}, {format_bytes(used_bytes)} of {format_bytes(total_bytes)} used"
    )
    if used_bytes > host.memory.get("total_bytes", 0) // 10:
        return bad(
            seen, "find the process that uses the memory; swapoff -a && swapon -a afterwards"
        )
    if value > 10 and total_bytes:
        return warn(seen, "sysctl -w vm.swappiness=1")
    return good(seen if total_bytes else f"vm.swappiness = {value}, no swap space")


@check("host", "the kernel writes gigabytes of dirty pages at once, and every flush waits for that")
def dirty_limits(facts: CheckFacts) -> Judgement:
    """Limits of unwritten data: where the kernel starts to write, and where it stops writers."""
    host = facts.on_host()
    names = ("vm/dirty_background_bytes", "vm/dirty_background_ratio")
    if not all(name in host.sysctl for name in names):
        raise Unknown("vm.dirty_background_* cannot be read")
    as_bytes, percent = (host.sysctl[name] for name in names)
    total_bytes = host.memory.get("total_bytes", 0)
    limit_bytes = as_bytes or total_bytes * percent // 100
    said = f"{format_bytes(as_bytes)}" if as_bytes else f"{percent} % = {format_bytes(limit_bytes)}"
    seen = f"writing begins at {said} of dirty pages"
    if limit_bytes > 1 << 30:
        return warn(
            seen,
            "sysctl -w vm.dirty_background_bytes=67108864 vm.dirty_bytes=536870912",
        )
    return good(seen)


@check("host", "a kernel that promises more memory than it has may kill the server")
def overcommit(facts: CheckFacts) -> Judgement:
    """Whether the kernel promises more memory than it has."""
    host = facts.on_host()
    value = host.sysctl.get("vm/overcommit_memory")
    if value is None:
        raise Unknown("vm.overcommit_memory cannot be read")
    seen = f"vm.overcommit_memory = {value}"
    if host.limits is not None and host.limits.memory_bytes is not None:
        return good(f"{seen}; the limit of the control group decides")
    if value == 1:
        return bad(
            f"{seen}: the kernel promises any amount of memory", "sysctl -w vm.overcommit_memory=2"
        )
    if value == 0 and host.memory.get("total_bytes", 0) >= _SMALL_RAM_BYTES:
        return warn(
            f"{seen}: the kernel uses a heuristic",
            "if only PostgreSQL runs here, sysctl -w vm.overcommit_memory=2 vm.overcommit_ratio=80",
        )
    return good(seen)


@check("host", "memory of another socket is slower, and moving pages costs time")
def numa(facts: CheckFacts) -> Judgement:
    """Memory in several NUMA nodes, and whether the kernel moves pages between them."""
    host = facts.on_host()
    reclaim = host.sysctl.get("vm/zone_reclaim_mode")
    if reclaim is None:
        raise Unknown("vm.zone_reclaim_mode cannot be read")
    balancing = host.sysctl.get("kernel/numa_balancing", 0)
    seen = f"{host.numa_nodes} NUMA nodes, zone_reclaim_mode = {reclaim}"
    seen += f", numa_balancing = {balancing}"
    if host.numa_nodes == 1:
        return good("1 NUMA node")
    if reclaim:
        return bad(seen, "sysctl -w vm.zone_reclaim_mode=0")
    if balancing:
        return warn(seen, "sysctl -w kernel.numa_balancing=0")
    return good(seen)


@check("host", "autogroups give a session on a terminal as much CPU as the whole server")
def autogroup(facts: CheckFacts) -> Judgement:
    """Scheduling by terminal session."""
    value = facts.on_host().sysctl.get("kernel/sched_autogroup_enabled")
    if value is None:
        raise Unknown("kernel.sched_autogroup_enabled cannot be read")
    if value:
        return warn("sched_autogroup_enabled = 1", "sysctl -w kernel.sched_autogroup_enabled=0")
    return good("sched_autogroup_enabled = 0")


@check("host", "a core that serves all interrupts is saturated before the others are busy")
def irqbalance(facts: CheckFacts) -> Judgement:
    """Whether interrupts are spread over cores."""
    host = facts.on_host()
    if host.runs_irqbalance:
        return good("irqbalance runs")
    if host.cores <= 4:
        return good(f"irqbalance does not run; with {host.cores} cores this hardly matters")
    return warn(
        f"irqbalance does not run on {host.cores} cores", "systemctl enable --now irqbalance"
    )


@check("host", "a slow clock makes timed reads expensive: track_io_timing, EXPLAIN ANALYZE")
def clock_source(facts: CheckFacts) -> Judgement:
    """The kernel's source of time."""
    host = facts.on_host()
    if not host.clock_source:
        raise Unknown("the kernel does not report its clock source")
    if host.clock_source in _FAST_CLOCKS:
        return good(f"clock source {host.clock_source}")
    better = next((name for name in host.clock_sources if name in _FAST_CLOCKS), "")
    seen = f"clock source {host.clock_source}; available: {', '.join(host.clock_sources)}"
    if not better:
        return warn(seen, "pg_test_timing measures the cost of one reading")
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    return bad(seen, f"echo {better} > {path}")


@check(
    "host",
    (
        "when its CPU time is used up, a control group stops the server in the middle of a "
        "transaction"
    ),
)
def cpu_limit(facts: CheckFacts) -> Judgement:
    """The control group's limit of CPU time."""
    host, limits = facts.on_host(), _limits(facts)
    if limits.cpu_cores is None:
        return good("no control group limits CPU time")
    seen = f"limited to {limits.cpu_cores:g} of {host.cores} cores"
    if limits.throttled_count:
        return bad(
            f"{seen}, throttled {counted(limits.throttled_count, 'time')}",
            "raise cpu.max of the group, or pin whole cores with cpuset.cpus",
        )
    return warn(seen, "watch the throttled time in the results")


@check("host", "above the limit the kernel kills the server, even if the host has free memory")
def memory_limit(facts: CheckFacts) -> Judgement:
    """The control group's limit of memory."""
    host = facts.on_host()
    limit_bytes = _limits(facts).memory_bytes
    total_bytes = host.memory.get("total_bytes")
    if total_bytes is None:
        raise Unknown("/proc/meminfo cannot be read")
    if limit_bytes is None or limit_bytes >= total_bytes:
        return good("no control group limits memory")
    seen = f"limited to {format_bytes(limit_bytes)} of {format_bytes(total_bytes)}"
    if facts.server is not None and limit_bytes < facts.server.size_bytes("shared_buffers") * 2:
        return bad(
            f"{seen}; shared_buffers is more than half of it", "raise memory.max of the group"
        )
    return warn(seen, "choose settings for the limit, not for the host, as the memory checks do")


@check("host", "above the limit every read, write and flush waits, even on a fast disk")
def io_limit(facts: CheckFacts) -> Judgement:
    """The control group's limits of disk throughput."""
    limits = _limits(facts)
    if not limits.io:
        return good("no control group limits disks")
    return warn(
        f"a control group limits device {'; '.join(limits.io)}",
        "raise io.max of the group, or state the limit with the result",
    )


def _limits(facts: CheckFacts) -> Limits:
    limits = facts.on_host().limits
    if limits is None:
        raise Unknown("the server's process is not known: add its number as PID")
    return limits


@check("host", "other programs can use the server's cores, disk and cache at any time")
def neighbours(facts: CheckFacts) -> Judgement:
    """Other busy programs on the host."""
    host = facts.on_host()
    if host.window is None:
        raise Unknown("the host was not observed")
    busy = [
        neighbour
        for neighbour in host.window.neighbours
        if neighbour.busy_cores >= _NEIGHBOUR_CORES
    ]
    total = sum(program.busy_cores for program in busy)
    load = f"load {plain(host.load_1min_ratio)} on {host.cores} cores"
    if not busy:
        return good(f"no other program is busy, {load}")
    names = ", ".join(f"{program.name} {program.busy_cores:.1f}" for program in busy[:4])
    seen = f"other programs keep cores busy: {names}; {load}"
    mend = "stop them, or measure on another host"
    return bad(seen, mend) if total > host.cores / 2 else warn(seen, mend)


@check("host", "every latency includes time that the hypervisor gave to other guests")
def steal(facts: CheckFacts) -> Judgement:
    """CPU time that the hypervisor gave to other virtual machines."""
    host = facts.on_host()
    if host.window is None:
        raise Unknown("the host was not observed")
    seen = f"{percent(host.window.steal_ratio)} steal over {host.window.duration_s:.1f} s"
    mend = "use a machine with dedicated cores, or measure at another time"
    if host.window.steal_ratio > 0.05:
        return bad(seen, mend)
    return warn(seen, mend) if host.window.steal_ratio > 0.01 else good(seen)


@check("host", "if tasks wait for CPU, memory or disk now, they would also wait during a run")
def pressure(facts: CheckFacts) -> Judgement:
    """Pressure stall information of the last minute."""
    host = facts.on_host()
    if not host.pressure_percent:
        raise Unknown("this kernel has no pressure stall information")
    parts = [
        f"{name} {percent(value / 100)}" for name, value in sorted(host.pressure_percent.items())
    ]
    seen = f"tasks waited in the last minute for {', '.join(parts)} of the time"
    worst = max(host.pressure_percent.values())
    if worst > 50:
        return bad(seen, "find the programs that are busy on this host")
    return warn(seen, "find the programs that are busy on this host") if worst > 10 else good(seen)
