"""The host that makes the load, where the server is elsewhere: own tables, the same columns."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.host.cpu import CpuCollector
from pgdyno.observe.host.memory import MemoryCollector
from pgdyno.observe.host.network import NetworkCollector
from pgdyno.observe.host.scheduler import SchedulerCollector
from pgdyno.observe.host.tcp import TcpCollector


class LoadCpuCollector(CpuCollector):
    """Samples /proc/stat of the load's host."""

    name: ClassVar[str] = "load_cpu"
    meaning: ClassVar[str] = "CPU time of the load's host by core and mode"


class LoadSchedulerCollector(SchedulerCollector):
    """Samples the run queue of the load's host."""

    name: ClassVar[str] = "load_scheduler"
    meaning: ClassVar[str] = "Run queue, context switches and load of the load's host"


class LoadMemoryCollector(MemoryCollector):
    """Samples /proc/meminfo of the load's host."""

    name: ClassVar[str] = "load_memory"
    meaning: ClassVar[str] = "Memory of the load's host"


class LoadNetworkCollector(NetworkCollector):
    """Samples /proc/net/dev of the load's host."""

    name: ClassVar[str] = "load_network"
    meaning: ClassVar[str] = "Bytes, packets and errors by network interface of the load's host"


class LoadTcpCollector(TcpCollector):
    """Samples TCP of the load's host."""

    name: ClassVar[str] = "load_tcp"
    meaning: ClassVar[str] = "TCP segments, retransmits and resets of the load's host"
