"""Which collectors ask a server: once for the whole of it, and within the load's database."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.observe.collector import Collector
from pgdyno.observe.log.collector import LogCollector
from pgdyno.observe.session import ServerSession
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
from pgdyno.observe.sql.statements import StatementsCollector, WaitSamplingCollector
from pgdyno.observe.sql.wal import ArchiverCollector, CheckpointerCollector, WalCollector


def of_server(
    session: ServerSession, database: str, *, observing: Sequence[ServerSession], is_local: bool
) -> list[Collector]:
    """Return what any database of the server tells.

    Args: database, the load's; observing, every session whose transactions are our own.
    """
    return [
        DatabaseCollector(session, database, observing),
        WalCollector(session),
        CheckpointerCollector(session),
        ReplicationCollector(session),
        IoCollector(session),
        LocksCollector(session),
        ProgressCollector(session),
        SlotsCollector(session),
        SlruCollector(session),
        ArchiverCollector(session),
        SessionsCollector(session),
        AgesCollector(session),
        ConflictsCollector(session),
        SizesCollector(session),
        LogCollector(session, is_local=is_local),
    ]


def of_database(session: ServerSession, database: str) -> list[Collector]:
    """Return what only a session in the load's database sees: its tables, its extensions."""
    return [
        StatementsCollector(session),
        TablesCollector(session, database),
        IndexesCollector(session, database),
        FunctionsCollector(session, database),
        WaitSamplingCollector(session),
        BuffersCollector(session),
        ObjectsCollector(session, database),
    ]
