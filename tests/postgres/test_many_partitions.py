"""Tables of many partitions on a server with little room for locks."""

from __future__ import annotations

import psycopg
import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, server_options

FEW_LOCKS = {"max_locks_per_transaction": "10"}
LEAVES = "SELECT count(*) FROM pg_class WHERE relname LIKE 'pgbench_accounts_%' AND relkind = 'r'"


def test_too_many_partitions_are_refused_and_what_fits_is_loaded_and_dropped(
    new_cluster: Make, pgdyno: Command
) -> None:
    cluster = new_cluster("15", clients=5, settings=FEW_LOCKS)
    server = server_options(cluster.target)
    refused = pgdyno("init", *server, "-s", "1", "--partitions", "200")
    assert refused.code == 1
    said = " ".join(refused.error.split())
    # 10 for each of 25 connections and 22 other processes of the server.
    assert "The keys of 200 partitions need about 620 locks in one transaction" in said
    assert "the server has room for 470: max_locks_per_transaction is 10" in said
    assert "set max_locks_per_transaction to at least 14" in said
    assert "or use at most 151 partitions" in said
    assert scalar(cluster.target, "SELECT to_regclass('pgbench_accounts') IS NULL") is True
    many = ("-s", "1", "--partitions", "105", "--foreign-keys")
    loaded = pgdyno("init", *server, *many)
    assert loaded.code == 0, loaded.err
    assert scalar(cluster.target, LEAVES) == 105
    with pytest.raises(psycopg.errors.OutOfMemory):
        run_sql(cluster.target, "DROP TABLE pgbench_accounts, pgbench_history")
    again = pgdyno("init", *server, *many)
    assert again.code == 0, again.err
    dropped = pgdyno("drop", *server)
    assert dropped.code == 0, dropped.err
    assert scalar(cluster.target, LEAVES) == 0
