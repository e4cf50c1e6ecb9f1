"""Which collectors watch a host: the server's, read here or received, and the load's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from pgdyno.observe.collector import Collector
from pgdyno.observe.device.energy import EnergyCollector
from pgdyno.observe.device.frequency import FrequencyCollector
from pgdyno.observe.device.temperature import TemperatureCollector
from pgdyno.observe.host.cpu import CpuCollector
from pgdyno.observe.host.disk import DiskCollector
from pgdyno.observe.host.files import HostFiles
from pgdyno.observe.host.load_host import (
    LoadCpuCollector,
    LoadMemoryCollector,
    LoadNetworkCollector,
    LoadSchedulerCollector,
    LoadTcpCollector,
)
from pgdyno.observe.host.memory import MemoryCollector
from pgdyno.observe.host.network import NetworkCollector
from pgdyno.observe.host.paging import PagingCollector
from pgdyno.observe.host.pressure import PressureCollector
from pgdyno.observe.host.scheduler import SchedulerCollector
from pgdyno.observe.host.tcp import TcpCollector
from pgdyno.observe.host.throttling import ThrottlingCollector


def of_server_host(files: HostFiles, pids: Callable[[], Mapping[str, int]]) -> list[Collector]:
    """Return the collectors of the host that the server runs on.

    Args: pids, of the programs there whose control groups count, by name.
    """
    return [
        CpuCollector(files),
        SchedulerCollector(files),
        MemoryCollector(files),
        PagingCollector(files),
        DiskCollector(files),
        NetworkCollector(files),
        TcpCollector(files),
        PressureCollector(files),
        ThrottlingCollector(pids, files),
        TemperatureCollector(files),
        FrequencyCollector(files),
        EnergyCollector(files),
    ]


def of_load_host() -> list[Collector]:
    """Return the collectors of this host, where it makes load for a server elsewhere."""
    return [
        LoadCpuCollector(),
        LoadSchedulerCollector(),
        LoadMemoryCollector(),
        LoadNetworkCollector(),
        LoadTcpCollector(),
        ThrottlingCollector(lambda: {"lab": os.getpid()}),
    ]
