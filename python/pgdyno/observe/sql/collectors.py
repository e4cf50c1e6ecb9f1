"""All collectors that query a server; `scope` says in which session: see `collector.Collector`."""

from __future__ import annotations

from pgdyno.feature import parts
from pgdyno.observe.collector import Collector, Scope
from pgdyno.observe.log.collector import LogCollector
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
from pgdyno.observe.sql.sql_collector import ServerSource, SqlCollector
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
    *(collector for made in parts("sql_collectors") for collector in made),
    WaitSampler,
)


def of_scope(scope: Scope, source: ServerSource) -> list[Collector]:
    """Return the collectors of one scope: "server", or "database" for the load's database."""
    of_log: list[Collector] = [LogCollector.of(source)] if LogCollector.scope == scope else []
    return [
        collector.of(source) for collector in SQL_COLLECTORS if collector.scope == scope
    ] + of_log
