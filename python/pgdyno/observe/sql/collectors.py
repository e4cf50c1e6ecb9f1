"""All collectors that query a server; `scope` says in which session: see `collector.Collector`."""

from __future__ import annotations

from collections.abc import Collection

from pgdyno.feature import features
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
    WaitSampler,
)


def of_scope(scope: Scope, source: ServerSource, kinds: Collection[str] = ()) -> list[Collector]:
    """Return the collectors of one scope: "server", or "database" for the load's database.

    Args: kinds, the features whose extension the database has (`server.nodes.kinds_of`). A feature
    without an extension is asked everywhere.
    """
    more = (
        collector
        for feature in features()
        if "sql_collectors" in feature.parts and (not feature.extension or feature.name in kinds)
        for collector in feature.part("sql_collectors")
    )
    made = [
        collector.of(source) for collector in (*SQL_COLLECTORS, *more) if collector.scope == scope
    ]
    return [*made, LogCollector.of(source)] if LogCollector.scope == scope else made
