"""All collectors, by the name of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pgdyno.feature import parts
from pgdyno.observe.collector import Collector, Column
from pgdyno.observe.host.collectors import HOST_COLLECTORS, LOAD_COLLECTORS
from pgdyno.observe.host.cpu import ThrottlingCollector
from pgdyno.observe.host.disk import SpaceCollector
from pgdyno.observe.log import collector as log
from pgdyno.observe.log import tails
from pgdyno.observe.log.collector import LogCollector
from pgdyno.observe.pooler.pools import PoolerCollector, PoolerTrafficCollector
from pgdyno.observe.processes import backends
from pgdyno.observe.processes.backends import BackendsCollector
from pgdyno.observe.processes.programs import FootprintCollector, ProgramsCollector
from pgdyno.observe.processes.usage import UsageCollector
from pgdyno.observe.schedule import OwnCost
from pgdyno.observe.session import MORE_TIME_SQL, PID_SQL, REPORT_SQL, SESSION_SQL
from pgdyno.observe.sql import database
from pgdyno.observe.sql.collectors import SQL_COLLECTORS
from pgdyno.observe.sql.sql_collector import ExtensionCollector, pick, schema_sql
from pgdyno.server.session_start import FIRST_TEXT

COLLECTORS: tuple[type[Collector], ...] = (
    *SQL_COLLECTORS,
    *HOST_COLLECTORS,
    *LOAD_COLLECTORS,
    # Collectors whose constructors need individual arguments.
    PoolerCollector,
    PoolerTrafficCollector,
    LogCollector,
    BackendsCollector,
    UsageCollector,
    FootprintCollector,
    ProgramsCollector,
    ThrottlingCollector,
    SpaceCollector,
    OwnCost,
)

_BY_NAME = {collector.name: collector for collector in COLLECTORS}
ROWS_MAX = {collector.name: collector.rows_max for collector in SQL_COLLECTORS}


@cache
def every_collector() -> Mapping[str, type[Collector]]:
    """Return the collectors of the core and of all features by their names."""
    made = (*parts("sql_collectors"), *parts("collectors"))
    return _BY_NAME | {collector.name: collector for group in made for collector in group}


def collector_named(name: str) -> type[Collector]:
    """Return a collector; features are only asked for names that are not the core's."""
    return _BY_NAME.get(name) or every_collector()[name]


def columns_of(name: str) -> tuple[Column, ...]:
    """Return the columns of the table that a collector fills."""
    return collector_named(name).columns


def statements(version: int) -> dict[str, str]:
    """Return every statement the observer may send to a server of this major version."""
    texts = {
        "first": FIRST_TEXT,
        "connect": PID_SQL,
        "session": SESSION_SQL,
        "backends": backends.SQL,
    }
    texts["many sessions"] = MORE_TIME_SQL
    texts |= {"log settings": log.SETTINGS_SQL, "log file": log.CURRENT_SQL}
    texts |= {"log size": tails.SIZE_SQL, "log lines": tails.READ_SQL}
    texts |= {"right to list WAL": database.MAY_LIST_SQL, "size of WAL": database.WAL_SQL}
    if version >= 15:
        texts["own transactions"] = REPORT_SQL
    of_features = (made for group in parts("sql_collectors") for made in group)
    for collector in (*SQL_COLLECTORS, *of_features):
        if version >= min(collector.sql):
            texts[collector.name] = pick(collector.name, collector.sql, version)
        if issubclass(collector, ExtensionCollector):
            texts[collector.extension] = schema_sql(collector.extension)
            texts[collector.name] = texts[collector.name].format(schema="public")
    for of_feature in parts("observer_statements"):
        texts |= of_feature(version)
    return texts
