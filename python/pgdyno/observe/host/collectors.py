"""Which collectors watch a host: the server's, read here or received, and the load's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from pgdyno.observe.collector import Collector
from pgdyno.observe.device.power import EnergyCollector, FrequencyCollector
from pgdyno.observe.device.temperature import TemperatureCollector
from pgdyno.observe.host.cpu import (
    CpuCollector,
    PressureCollector,
    SchedulerCollector,
    ThrottlingCollector,
)
from pgdyno.observe.host.disk import DiskCollector
from pgdyno.observe.host.files import HostFiles, on_load_host
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
    on_load_host(CpuCollector, "CPU time of the load's host by core and mode"),
    on_load_host(SchedulerCollector, "Run queue, context switches and load of the load's host"),
    on_load_host(MemoryCollector, "Memory of the load's host"),
    on_load_host(
        NetworkCollector, "Bytes, packets and errors by network interface of the load's host"
    ),
    on_load_host(TcpCollector, "TCP segments, retransmits and resets of the load's host"),
)
