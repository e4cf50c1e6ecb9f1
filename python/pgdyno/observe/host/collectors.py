"""Which collectors watch a host: the server's, read here or received, and the load's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import ClassVar

from pgdyno.observe.collector import Collector, Scope
from pgdyno.observe.device.power import EnergyCollector, FrequencyCollector
from pgdyno.observe.device.temperature import TemperatureCollector
from pgdyno.observe.host.cpu import (
    CpuCollector,
    PressureCollector,
    SchedulerCollector,
    ThrottlingCollector,
)
from pgdyno.observe.host.disk import DiskCollector
from pgdyno.observe.host.files import HostFiles
from pgdyno.observe.host.memory import MemoryCollector, PagingCollector
from pgdyno.observe.host.network import NetworkCollector, TcpCollector


def of_server_host(files: HostFiles, pids: Callable[[], Mapping[str, int]]) -> list[Collector]:
    """Return the collectors of the host that the server runs on.

    Args: pids, of the programs there whose control groups count, by name.
    """
    return [*(collector(files) for collector in HOST_COLLECTORS), ThrottlingCollector(pids, files)]


def of_load_host() -> list[Collector]:
    """Return the collectors of this host if it loads a server elsewhere."""
    of_lab = ThrottlingCollector(lambda: {"lab": os.getpid()})
    return [*(collector() for collector in LOAD_COLLECTORS), of_lab]


class LoadCpuCollector(CpuCollector):
    """Samples /proc/stat of the load's host."""

    name: ClassVar[str] = "load_cpu"
    scope: ClassVar[Scope] = "load host"
    meaning: ClassVar[str] = "CPU time of the load's host by core and mode"


class LoadSchedulerCollector(SchedulerCollector):
    """Samples the run queue of the load's host."""

    name: ClassVar[str] = "load_scheduler"
    scope: ClassVar[Scope] = "load host"
    meaning: ClassVar[str] = "Run queue, context switches and load of the load's host"


class LoadMemoryCollector(MemoryCollector):
    """Samples /proc/meminfo of the load's host."""

    name: ClassVar[str] = "load_memory"
    scope: ClassVar[Scope] = "load host"
    meaning: ClassVar[str] = "Memory of the load's host"


class LoadNetworkCollector(NetworkCollector):
    """Samples /proc/net/dev of the load's host."""

    name: ClassVar[str] = "load_network"
    scope: ClassVar[Scope] = "load host"
    meaning: ClassVar[str] = "Bytes, packets and errors by network interface of the load's host"


class LoadTcpCollector(TcpCollector):
    """Samples TCP of the load's host."""

    name: ClassVar[str] = "load_tcp"
    scope: ClassVar[Scope] = "load host"
    meaning: ClassVar[str] = "TCP segments, retransmits and resets of the load's host"


# Each is made with the files of its host; ThrottlingCollector also needs the programs.
HOST_COLLECTORS = (
    CpuCollector,
    SchedulerCollector,
    MemoryCollector,
    PagingCollector,
    DiskCollector,
    NetworkCollector,
    TcpCollector,
    PressureCollector,
    TemperatureCollector,
    FrequencyCollector,
    EnergyCollector,
)
LOAD_COLLECTORS = (
    LoadCpuCollector,
    LoadSchedulerCollector,
    LoadMemoryCollector,
    LoadNetworkCollector,
    LoadTcpCollector,
)
