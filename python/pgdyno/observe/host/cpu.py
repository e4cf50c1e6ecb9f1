"""CPU time of the host by core and mode: /proc/stat."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.host.files import HERE, HostFiles
from pgdyno.observe.processes.proc_files import TICK_NS

ALL_CORES = "all"
# In the kernel's order. `user` and `nice` include `guest` and `guest_nice`, which are left out.
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def parse(text: str) -> list[Row]:
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


class CpuCollector:
    """Samples /proc/stat."""

    name: ClassVar[str] = "cpu"
    meaning: ClassVar[str] = "CPU time of the host by core and mode"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("core", "number of the core; 'all' = the sum of all cores"),
        counter("user_ns", "ns", "programs, guests included"),
        counter("nice_ns", "ns", "programs with lowered priority"),
        counter("system_ns", "ns", "the kernel"),
        Column("idle_ns", "int64", "ns", "nothing to do", "counter", dips=True),
        Column("iowait_ns", "int64", "ns", "idle, its I/O outstanding", "counter", dips=True),
        counter("irq_ns", "ns", "interrupts"),
        counter("softirq_ns", "ns", "deferred interrupt work, such as the network's"),
        counter("steal_ns", "ns", "wanted a core, and the hypervisor ran somebody else"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a core, and the sum."""
        return parse(self._files.text("/proc/stat"))
