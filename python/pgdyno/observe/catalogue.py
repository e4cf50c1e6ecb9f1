"""Every collector there is, by the name of its table."""

from __future__ import annotations

from pgdyno.observe.collector import Collector, Column
from pgdyno.observe.device.power import EnergyCollector, FrequencyCollector
from pgdyno.observe.device.temperature import TemperatureCollector
from pgdyno.observe.host.collectors import (
    LoadCpuCollector,
    LoadMemoryCollector,
    LoadNetworkCollector,
    LoadSchedulerCollector,
    LoadTcpCollector,
)
from pgdyno.observe.host.cpu import (
    CpuCollector,
    PressureCollector,
    SchedulerCollector,
    ThrottlingCollector,
)
from pgdyno.observe.host.disk import DiskCollector, SpaceCollector
from pgdyno.observe.host.memory import MemoryCollector, PagingCollector
from pgdyno.observe.host.network import NetworkCollector, TcpCollector
from pgdyno.observe.log import collector as log
from pgdyno.observe.log import tails
from pgdyno.observe.log.collector import LogCollector
from pgdyno.observe.pooler.pools import PoolerCollector, PoolerTrafficCollector
from pgdyno.observe.processes import backends
from pgdyno.observe.processes.backends import BackendsCollector
from pgdyno.observe.processes.programs import FootprintCollector, ProgramsCollector
from pgdyno.observe.processes.usage import UsageCollector
from pgdyno.observe.remote.by_hand import OutsideCollector
from pgdyno.observe.schedule import OwnCost
from pgdyno.observe.session import PID_SQL, REPORT_SQL, SESSION_SQL
from pgdyno.observe.sql import database
from pgdyno.observe.sql.database import AgesCollector, DatabaseCollector, SizesCollector
from pgdyno.observe.sql.io import BuffersCollector, IoCollector, SlruCollector
from pgdyno.observe.sql.objects import (
    FunctionsCollector,
    IndexesCollector,
    ObjectsCollector,
    TablesCollector,
)
from pgdyno.observe.sql.replication import ConflictsCollector, ReplicationCollector, SlotsCollector
from pgdyno.observe.sql.sessions import LocksCollector, ProgressCollector, SessionsCollector
from pgdyno.observe.sql.sql_collector import ExtensionCollector, SqlCollector, pick, schema_sql
from pgdyno.observe.sql.statements import StatementsCollector, WaitSamplingCollector
from pgdyno.observe.sql.waits import WaitSampler
from pgdyno.observe.sql.wal import ArchiverCollector, CheckpointerCollector, WalCollector

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

# By collector.
COLUMNS = {collector.name: collector.columns for collector in COLLECTORS}
ROWS_MAX = {collector.name: collector.rows_max for collector in SQL_COLLECTORS}


def collector_columns() -> dict[str, tuple[str, tuple[Column, ...]]]:
    """Return meaning and columns of every collector by name."""
    return {collector.name: (collector.meaning, collector.columns) for collector in COLLECTORS}


def statements(version: int) -> dict[str, str]:
    """Return every statement the observer may send to a server of this major version."""
    found = {"connect": PID_SQL, "session": SESSION_SQL, "backends": backends.SQL}
    found |= {"log settings": log.SETTINGS_SQL, "log file": log.CURRENT_SQL}
    found |= {"log size": tails.SIZE_SQL, "log lines": tails.READ_SQL}
    found |= {"right to list WAL": database.MAY_LIST_SQL, "size of WAL": database.WAL_SQL}
    if version >= 15:
        found["own transactions"] = REPORT_SQL
    for collector in SQL_COLLECTORS:
        if version >= min(collector.sql):
            found[collector.name] = pick(collector.name, collector.sql, version)
        if issubclass(collector, ExtensionCollector):
            found[collector.extension] = schema_sql(collector.extension)
            found[collector.name] = found[collector.name].format(schema="public")
    return found
