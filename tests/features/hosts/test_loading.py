"""Tables that several load hosts fill together: real workers, a real server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.features.hosts.workers import children, folder_of, is_alive, workers_of
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'copy %'"
)


def contents(target: Target, kind: str) -> dict[str, Any]:
    """Return the sum of all rows of each table, and its keys."""
    tables = KINDS[kind].tables
    sums = {
        table: run_sql(target, f"SELECT count(*), sum(hash_record_extended(t, 0)) FROM {table} t")
        for table in tables
    }
    keys = "SELECT indexdef FROM pg_indexes WHERE tablename = ANY(%s) ORDER BY 1"
    return {**sums, "keys": run_sql(target, keys, list(tables))}


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("pgbench", ("-s", "3")),
        pytest.param("tpcc", ("--warehouses", "4"), marks=pytest.mark.slow),
        pytest.param("tpcc", ("--warehouses", "3", "--partitions", "3"), marks=pytest.mark.slow),
    ],
)
def test_three_hosts_load_the_rows_of_one(
    pgdyno: Command, database15: Target, kind: str, size: tuple[str, ...]
) -> None:
    command = ("init", kind, *server_options(database15), *size, "--json")
    said = pgdyno(*command, "-j", "3")
    assert said.code == 0, said.err
    expected = contents(database15, kind)
    run_sql(database15, "DROP TABLE " + ", ".join(KINDS[kind].tables))
    said = pgdyno(*command, "--hosts", "local:3")
    assert said.code == 0, said.err
    assert said.document["state"] == "complete"
    assert contents(database15, kind) == expected
    assert run_sql(database15, "SELECT to_regclass('pgdyno_load')") == [(None,)]


def test_a_load_goes_on_after_control_c_and_after_a_lost_host(
    pgdyno: Command, database15: Target
) -> None:
    server = (*server_options(database15), "--confirm", f"{database15.database}@local")
    command = ("init", *server, "-s", "9", "-j", "3")
    running = pgdyno.start(*command, "--hosts", "local:3", "-q")
    eventually(
        lambda: run_sql(database15, "SELECT to_regclass('pgdyno_load')") != [(None,)],
        unless=lambda: running.process.poll() is not None,
    )
    with copies_wait(database15):
        workers = workers_of(running)
        parts = [pid for worker in workers for pid in (worker, *children(worker))]
        folders = [folder_of(worker) for worker in workers]
        running.signal(signal.SIGINT)
        said = running.wait()
    assert said.code == 130, said.err
    assert "run the same command again to continue" in said.err
    assert eventually(lambda: not any(map(is_alive, parts)))
    assert not any(folder.exists() for folder in folders)

    with copies_wait(database15):
        running = pgdyno.start(*command, "--hosts", "local:3", "-q")
        eventually(
            lambda: run_sql(database15, WAITING)[0][0] == 3,
            unless=lambda: running.process.poll() is not None,
        )
        os.kill(workers_of(running)[1], signal.SIGKILL)
        said = running.wait()
    assert said.code == 2, said.err
    assert "load host local-" in said.error
    assert "was lost: its worker ended with code" in said.error
    assert "run the same command again to continue" in said.error

    said = pgdyno(*command, "-q")
    assert said.code == 0, said.err
    accounts = "SELECT count(*), min(aid), max(aid), sum(bid - (aid - 1) / 100000) "
    assert run_sql(database15, accounts + "FROM pgbench_accounts") == [(900_000, 1, 900_000, 9e5)]

    said = pgdyno(*command[:-1], "2", "--restart", "--hosts", "local:3")
    assert said.code == 1
    assert "--load-jobs must be at least 1 for each load host, got 2 for 3" in said.error


def test_load_hosts_do_not_continue_a_load_without_ranges(
    pgdyno: Command, database15: Target
) -> None:
    server = (*server_options(database15), "--confirm", f"{database15.database}@local")
    command = ("init", *server, "-s", "9", "-q")
    running = pgdyno.start(*command)
    eventually(
        lambda: run_sql(database15, "SELECT to_regclass('pgdyno_load')") != [(None,)],
        unless=lambda: running.process.poll() is not None,
    )
    running.signal(signal.SIGINT)
    assert running.wait().code == 130
    said = pgdyno(*command, "--hosts", "local:2")
    assert said.code == 1
    assert "no ranges of accounts" in " ".join(said.error.split())
    assert "leave out --hosts to continue" in said.error
    assert pgdyno(*command).code == 0


def test_a_load_from_several_hosts_can_be_planned_and_printed(pgdyno: Command) -> None:
    said = pgdyno("init", "-s", "10", "--hosts", "a,b", "--dry-run")
    assert said.code == 0, said.err
    assert "1,000,000  pgbench_accounts" in said.out
    alone = pgdyno("init", "-s", "10", "--print-sql")
    printed = pgdyno("init", "-s", "10", "--hosts", "local:2", "--print-sql")
    assert printed.code == 0, printed.err
    assert "pgdyno_load" in printed.out
    # Load hosts copy ranges of accounts, and FREEZE needs a table of the same transaction.
    assert "freeze" in alone.out.lower()
    assert printed.out != alone.out
    said = pgdyno("init", "-s", "10", "--hosts", "tls://s:8786", "--dry-run")
    assert said.code == 1
    assert "only the scheduler knows" in " ".join(said.error.split())
    said = pgdyno("init", "-s", "10", "--hosts", "a,b", "--load-jobs", "1", "--dry-run")
    assert said.code == 1
    assert "at least 1 for each load host" in " ".join(said.error.split())


@contextmanager
def copies_wait(target: Target) -> Iterator[None]:
    """Let every further COPY into the accounts wait."""
    with connection(target) as session, session.transaction():
        session.execute("LOCK TABLE pgbench_accounts IN SHARE MODE")
        yield
