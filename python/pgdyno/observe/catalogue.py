"""Every collector there is, by the name of its table."""

from __future__ import annotations

from pgdyno.observe.collector import Collector
from pgdyno.observe.column import Column
from pgdyno.observe.cost import OwnCost
from pgdyno.observe.device.energy import EnergyCollector
from pgdyno.observe.device.frequency import FrequencyCollector
from pgdyno.observe.device.temperature import TemperatureCollector
from pgdyno.observe.host.cpu import CpuCollector
from pgdyno.observe.host.disk import DiskCollector
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
from pgdyno.observe.host.space import SpaceCollector
from pgdyno.observe.host.tcp import TcpCollector
from pgdyno.observe.host.throttling import ThrottlingCollector
from pgdyno.observe.log import collector as log
from pgdyno.observe.log import tails
from pgdyno.observe.log.collector import LogCollector
from pgdyno.observe.pooler.pools import PoolerCollector
from pgdyno.observe.pooler.traffic import PoolerTrafficCollector
from pgdyno.observe.processes import backends
from pgdyno.observe.processes.backends import BackendsCollector
from pgdyno.observe.processes.footprint import FootprintCollector
from pgdyno.observe.processes.programs import ProgramsCollector
from pgdyno.observe.processes.usage import UsageCollector
from pgdyno.observe.remote.by_hand import OutsideCollector
from pgdyno.observe.session import PID_SQL, REPORT_SQL, SESSION_SQL
from pgdyno.observe.sql import sizes
from pgdyno.observe.sql.ages import AgesCollector
from pgdyno.observe.sql.archiver import ArchiverCollector
from pgdyno.observe.sql.buffers import BuffersCollector
from pgdyno.observe.sql.checkpointer import CheckpointerCollector
from pgdyno.observe.sql.conflicts import ConflictsCollector
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.observe.sql.extension import ExtensionCollector, schema_sql
from pgdyno.observe.sql.functions import FunctionsCollector
from pgdyno.observe.sql.indexes import IndexesCollector
from pgdyno.observe.sql.io import IoCollector
from pgdyno.observe.sql.locks import LocksCollector
from pgdyno.observe.sql.objects import ObjectsCollector
from pgdyno.observe.sql.progress import ProgressCollector
from pgdyno.observe.sql.replication import ReplicationCollector
from pgdyno.observe.sql.sessions import SessionsCollector
from pgdyno.observe.sql.sizes import SizesCollector
from pgdyno.observe.sql.slots import SlotsCollector
from pgdyno.observe.sql.slru import SlruCollector
from pgdyno.observe.sql.sql_collector import SqlCollector, pick
from pgdyno.observe.sql.statements import StatementsCollector
from pgdyno.observe.sql.tables import TablesCollector
from pgdyno.observe.sql.wait_sampling import WaitSamplingCollector
from pgdyno.observe.sql.waits import WaitSampler
from pgdyno.observe.sql.wal import WalCollector

SQL_COLLECTORS: tuple[type[SqlCollector], ...] = (
    DatabaseCollector,
    WalCollector,
    CheckpointerCollector,
    ReplicationCollector,
    IoCollector,
    LocksCollector,
    ProgressCollector,
    SlotsCollector,
    SlruCollector,
    ArchiverCollector,
    StatementsCollector,
    TablesCollector,
    IndexesCollector,
    FunctionsCollector,
    WaitSamplingCollector,
    SessionsCollector,
    AgesCollector,
    ConflictsCollector,
    SizesCollector,
    BuffersCollector,
    ObjectsCollector,
    WaitSampler,
)
COLLECTORS: tuple[type[Collector], ...] = (
    *SQL_COLLECTORS,
    PoolerCollector,
    PoolerTrafficCollector,
    LogCollector,
    BackendsCollector,
    UsageCollector,
    FootprintCollector,
    ProgramsCollector,
    CpuCollector,
    SchedulerCollector,
    MemoryCollector,
    DiskCollector,
    NetworkCollector,
    PressureCollector,
    ThrottlingCollector,
    PagingCollector,
    TcpCollector,
    TemperatureCollector,
    FrequencyCollector,
    EnergyCollector,
    SpaceCollector,
    LoadCpuCollector,
    LoadSchedulerCollector,
    LoadMemoryCollector,
    LoadNetworkCollector,
    LoadTcpCollector,
    OutsideCollector,
    OwnCost,
)


def collector_columns() -> dict[str, tuple[str, tuple[Column, ...]]]:
    """Return meaning and columns of every collector by name."""
    return {collector.name: (collector.meaning, collector.columns) for collector in COLLECTORS}


def statements(version: int) -> dict[str, str]:
    """Return every statement the observer may send to a server of this major version."""
    found = {"connect": PID_SQL, "session": SESSION_SQL, "backends": backends.SQL}
    found |= {"log settings": log.SETTINGS_SQL, "log file": log.CURRENT_SQL}
    found |= {"log size": tails.SIZE_SQL, "log lines": tails.READ_SQL}
    found |= {"right to list WAL": sizes.MAY_LIST_SQL, "size of WAL": sizes.WAL_SQL}
    if version >= 15:
        found["own transactions"] = REPORT_SQL
    for collector in SQL_COLLECTORS:
        if version >= min(collector.sql):
            found[collector.name] = pick(collector.name, collector.sql, version)
        if issubclass(collector, ExtensionCollector):
            found[collector.extension] = schema_sql(collector.extension)
            found[collector.name] = found[collector.name].format(schema="public")
    return found
