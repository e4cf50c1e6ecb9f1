"""The collectors are an open set: each is listed once, and its scope says where it asks."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import ClassVar, get_args

import pytest
from tests.observe.test_server_collectors import session

import pgdyno.observe
from pgdyno.features import FEATURES
from pgdyno.observe.catalogue import SQL_COLLECTORS, every_collector
from pgdyno.observe.collector import Scope, gauge
from pgdyno.observe.host.collectors import LOAD_COLLECTORS
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql import collectors
from pgdyno.observe.sql.sql_collector import ServerSource, SqlCollector
from pgdyno.server.scratch.cluster import ScratchCluster

__all__ = ["session"]


def classes_of_observe() -> set[type]:
    modules = pkgutil.walk_packages(pgdyno.observe.__path__, "pgdyno.observe.")
    return {
        member
        for module in modules
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if member.__module__ == module.name
    }


def test_no_collector_is_forgotten_in_the_lists() -> None:
    made = {
        collector
        for collector in classes_of_observe()
        if hasattr(collector, "name") and hasattr(collector, "columns")
    }
    of_features = {
        collector
        for feature in FEATURES
        for slot in ("sql_collectors", "collectors")
        if slot in feature.parts
        for collector in feature.part(slot)
    }
    assert made | of_features | set(LOAD_COLLECTORS) == set(every_collector().values())
    assert len(every_collector()) == len(set(every_collector().values()))


def test_every_collector_says_where_it_asks() -> None:
    assert {collector.scope for collector in every_collector().values()} == set(get_args(Scope))
    assert {collector.scope for collector in SQL_COLLECTORS} == {"server", "database", "waits"}


class ToyCollector(SqlCollector):
    """Samples how many tables the load's database has."""

    name = "toy"
    meaning = "Tables of the load's database"
    scope: ClassVar[Scope] = "database"
    sql: ClassVar = {10: "SELECT count(*)::int8 FROM pg_catalog.pg_class WHERE relkind = 'r'"}
    columns = (gauge("tables", "tables", "of the load's database"),)


@pytest.mark.pg
def test_a_collector_in_the_list_is_asked_without_any_other_change(
    session: ServerSession,
    any_server: ScratchCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collectors, "SQL_COLLECTORS", (*SQL_COLLECTORS, ToyCollector))
    source = ServerSource(session, any_server.target.database)
    assert "toy" not in {collector.name for collector in collectors.of_scope("server", source)}
    [toy] = [
        collector
        for collector in collectors.of_scope("database", source)
        if collector.name == "toy"
    ]
    [row] = toy.sample(1)
    assert int(row["tables"] or 0) > 50
