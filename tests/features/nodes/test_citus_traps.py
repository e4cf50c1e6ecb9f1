"""A tenant without the rights of a superuser waits on every node of a Citus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.fixtures.citus import port_of
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.tenant import Trap, refuse_calls, trapped

from pgdyno.features.nodes.observed import NODE_COLLECTORS, observed_nodes, of_node
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.session import ServerSession
from pgdyno.server.connect import Connection, connect
from pgdyno.server.nodes import workers_of
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

QUICK = ("-T", "3", "--warmup", "0", "-c", "2")


@dataclass(frozen=True)
class Case:
    """Where a trap is, and of which kind.

    Citus itself sends statements to its nodes, which are parsed there under the path of the
    database (docs/safety.md). So the verbs can only be tried with what Citus does not call in them:
    no namesakes of everything, and on a worker no namesakes of its functions.
    """

    is_first: bool
    is_beside_citus: bool = True


def trap_all(
    cluster: tuple[ScratchCluster, list[ScratchCluster]], set_up: ExitStack, case: Case
) -> list[Trap]:
    """Set the traps of the coordinator and of a worker, in databases of one name."""
    coordinator, [worker, *_] = cluster

    def first(target: Target) -> None:
        run_sql(target, "CREATE EXTENSION citus")
        run_sql(target, "SELECT citus_set_coordinator_host('127.0.0.1', %s)", port_of(coordinator))

    traps = [set_up.enter_context(trapped(coordinator, is_first=case.is_first, prepared=first))]

    def more(target: Target) -> None:
        run_sql(target, "CREATE EXTENSION citus")
        here = replace(traps[0].target, options="-c search_path=pg_catalog")
        run_sql(here, "SELECT citus_add_node('127.0.0.1', %s)", port_of(worker))

    there = trapped(
        worker,
        is_first=case.is_first,
        prepared=more,
        is_beside=case.is_beside_citus,
    )
    return [*traps, set_up.enter_context(there)]


@pytest.fixture
def traps(
    request: pytest.FixtureRequest, citus_cluster: tuple[ScratchCluster, list[ScratchCluster]]
) -> Iterator[list[Trap]]:
    """The traps of a case."""
    with ExitStack() as set_up:
        yield trap_all(citus_cluster, set_up, request.param)


OF_VERBS = Case(is_first=False, is_beside_citus=False)
RELAYED = (Case(is_first=True), Case(is_first=False))


@pytest.mark.parametrize("traps", [OF_VERBS], ids=["better"], indirect=True)
def test_no_verb_calls_what_a_tenant_made_on_any_node(
    traps: list[Trap], pgdyno: Command, tmp_path: Path
) -> None:
    here = server_options(traps[0].target)
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    # The tenant owns the database.
    trusted = ("--confirm", f"{traps[0].target.database}@local")
    commands = {
        ("doctor", *here): 0,
        ("init", *here, "-s", "1", "--distribute", "citus", "--dry-run"): 0,
        ("init", *here, *trusted, "-s", "1", "--distribute", "citus"): 0,
        ("bench", *here, "-f", str(script), *QUICK): 3,
        ("watch", *here, "--duration", "3s"): 0,
        ("drop", "pgbench", *here): 0,
        ("init", *here, *trusted, "-s", "1", "--distribute", "citus:aid", "--foreign-keys"): 0,
        ("drop", *here): 0,
        ("init", "tpcc", *here, *trusted, "--warehouses", "1", "--distribute", "citus"): 0,
        ("check", "tpcc", *here): 0,
        ("drop", "tpcc", *here): 0,
    }
    refuse_calls(traps, pgdyno, commands)


def unreachable() -> Connection:
    """Refuse, as a node does that only the coordinator reaches."""
    raise ConnectionRefusedError


@pytest.mark.parametrize("traps", RELAYED, ids=["namesakes", "better"], indirect=True)
def test_no_statement_that_the_coordinator_passes_on_calls_what_a_tenant_made(
    traps: list[Trap],
) -> None:
    target = traps[0].target
    with connect(target, verb="observe") as session:
        nodes = workers_of(session)
    for observed in observed_nodes(nodes, target, run="test", is_local=True):
        relay = ServerSession(
            lambda: connect(target, verb="observe"), "pgdyno/observe/1", is_local=True
        )
        session = observed.session(relay, "pgdyno/observe/1", busy=0)
        session.is_relayed = True
        session.open()
        load = {"load_application_name": "pgdyno/bench/1", "database": target.database}
        made = of_node(observed.node.name, session, **load)
        assert {type(collector) for collector in made} == set(NODE_COLLECTORS)
        for collector in made:
            try:
                collector.sample(1)
            except NotMeasurable:
                continue
            finally:
                assert not any(trap.calls for trap in traps), collector.name
        session.close()


# Citus passes whole numbers without a type; a transaction's number is a bigint in its own function.
CAUGHT = """CREATE FUNCTION public.assign_distributed_transaction_id(integer, integer, timestamptz)
RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.caught VALUES (current_user);
PERFORM pg_catalog.assign_distributed_transaction_id($1, $2::bigint, $3); END $$"""


def test_who_may_create_in_a_schema_of_the_path_catches_what_citus_itself_sends(
    citus_nodes: tuple[Target, list[ScratchCluster]],
) -> None:
    """A limit that docs/safety.md names: these statements are not pgdyno's, but Citus's own."""
    coordinator, [worker, *_] = citus_nodes
    there = replace(
        worker.target.with_database(coordinator.database),
        options="-c citus.enable_ddl_propagation=off",
    )
    run_sql(coordinator, "CREATE ROLE neighbour LOGIN")
    run_sql(there, "GRANT CREATE ON SCHEMA public TO neighbour")
    try:
        for statement in ("CREATE TABLE public.caught (who text)", CAUGHT):
            run_sql(replace(there, user="neighbour"), statement)
        run_sql(there, "GRANT INSERT ON public.caught TO public")
        run_sql(coordinator, "CREATE TABLE spread (a int PRIMARY KEY)")
        run_sql(coordinator, "SELECT create_distributed_table('spread', 'a')")
        run_sql(coordinator, "INSERT INTO spread SELECT generate_series(1, 100)")
        callers = {who for (who,) in run_sql(there, "SELECT who FROM public.caught")}
        assert callers == {coordinator.user}
    finally:
        run_sql(there, "DROP OWNED BY neighbour CASCADE")
        run_sql(coordinator, "DROP TABLE IF EXISTS spread")
        run_sql(coordinator, "DROP OWNED BY neighbour")
        run_sql(coordinator, "DROP ROLE neighbour")
