"""The collectors of a server, on the nodes of a real Citus: directly and by the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from tests.fixtures.clusters import connection, scalar

from pgdyno.errors import ServerError
from pgdyno.features.nodes.observed import NODE_COLLECTORS, WorkerNode, observed_nodes, of_node
from pgdyno.features.nodes.session import NodeSession
from pgdyno.observe.collector import Collector, NotMeasurable
from pgdyno.observe.session import ServerSession
from pgdyno.server.connect import Connection, connect
from pgdyno.server.nodes import workers_of
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

_TYPES = {"int64": int, "float64": float, "text": str}


def refuse() -> Connection:
    raise ServerError("no route to this host", hint="")


@pytest.fixture(scope="module")
def observed(citus: Target) -> WorkerNode:
    """The first worker."""
    with connection(citus) as session:
        nodes = workers_of(session)
    return observed_nodes(nodes, citus, run="test", is_local=True)[0]


def opened(citus: Target, observed: WorkerNode) -> NodeSession:
    relay = ServerSession(lambda: connect(citus, verb="observe"), "pgdyno/observe/1", is_local=True)
    session = observed.session(relay, "pgdyno/observe/1", busy=0)
    session.open()
    return session


@pytest.fixture(params=["directly", "through the coordinator"])
def session(
    request: pytest.FixtureRequest, citus: Target, observed: WorkerNode
) -> Iterator[NodeSession]:
    is_relayed = request.param != "directly"
    way = replace(observed, connect=refuse) if is_relayed else observed
    with closing(opened(citus, way)) as session:
        assert session.is_relayed == is_relayed
        assert session.version == 15
        yield session


def collectors(session: NodeSession, citus: Target, name: str) -> list[Collector]:
    load = {"load_application_name": "pgdyno/bench/1", "database": citus.database}
    return of_node(name, session, **load)


def test_every_collector_gives_its_rows_of_a_node(
    session: NodeSession, citus: Target, observed: WorkerNode
) -> None:
    name = observed.node.name
    made = collectors(session, citus, name)
    assert {type(collector) for collector in made} == set(NODE_COLLECTORS)
    lacking, empty = set(), set()
    for collector in made:
        try:
            rows = collector.sample(1)
        except NotMeasurable:
            lacking.add(collector.name)
            continue
        if not rows:
            empty.add(collector.name)
        for row in rows:
            assert row["node"] == name
            assert row.keys() == {column.name for column in collector.columns}, collector.name
            for column in collector.columns:
                value = row[column.name]
                assert value is not None or column.is_nullable, (collector.name, column.name)
                assert value is None or type(value) is _TYPES[column.dtype], column.name
    # PostgreSQL 15 without these extensions.
    without = {"io", "statements", "wait_sampling", "buffers"}
    assert lacking == {f"node_{name}" for name in without}
    always = {"database", "wal", "checkpointer", "sizes", "waits", "cpu", "memory", "network"}
    assert not empty & {f"node_{name}" for name in always}


def test_a_session_reads_the_node_and_not_the_coordinator(
    session: NodeSession, observed: WorkerNode
) -> None:
    [[port]] = session.fetch("SELECT current_setting('port')")
    assert str(port) == observed.node.port
    [[text]] = session.fetch_often("SELECT %s::text", ["it's 100 %"])
    assert text == "it's 100 %"


def test_another_server_behind_the_name_of_a_node_is_not_asked(
    citus: Target, observed: WorkerNode
) -> None:
    other = replace(observed, connect=lambda: connect(citus, verb="observe"))
    other = replace(other, node=replace(observed.node, identity="1"))
    with closing(opened(citus, other)) as session:
        assert session.is_relayed
        [[port]] = session.fetch("SELECT current_setting('port')")
    assert str(port) == observed.node.port


def test_a_server_without_citus_has_no_nodes(citus: Target) -> None:
    with connection(citus.with_database("postgres")) as session:
        assert workers_of(session) == ()
    assert scalar(citus, "SELECT count(*) FROM citus_get_active_worker_nodes()") == 2
