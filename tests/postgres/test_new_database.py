"""`pgdyno init -d NEW`: the database is created if the role may, or the command says how."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql
from tests.fixtures.captures import shop_capture
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.file import encoded
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
NAME = 'new "shop", größer'


@pytest.fixture
def new(any_server: ScratchCluster) -> Iterator[Target]:
    """A database that does not exist."""
    yield any_server.target.with_database(NAME)
    gone = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(NAME))
    run_sql(any_server.target, gone)


def count(new: Target) -> object:
    usual = new.with_database("postgres")
    return scalar(usual, "SELECT count(*) FROM pg_database WHERE datname = %s", NAME)


@pytest.mark.parametrize("kind", ["pgbench", "capture"])
def test_init_creates_the_database_that_it_names(
    kind: str, pgdyno: Command, new: Target, tmp_path: Path
) -> None:
    path = tmp_path / "shop.capture"
    path.write_bytes(encoded(shop_capture()))
    words = {
        "pgbench": ("-s", "1"),
        "capture": (path, "--fraction", "0.1"),
    }[kind]
    planned = pgdyno("init", *words, *server_options(new), "--dry-run")
    assert planned.code == 0, planned.err
    assert "init creates it" in planned.err
    assert count(new) == 0
    said = pgdyno("init", *words, *server_options(new), "--json")
    assert (said.code, said.document["state"]) == (0, "complete"), said.err
    assert f"created the database {NAME}" in said.err


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_new_database_counts_statements_where_their_library_is_loaded(
    version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    cluster = new_cluster(version, settings={"shared_preload_libraries": "pg_stat_statements"})
    named = cluster.target.with_database(NAME)
    path = tmp_path / "shop.capture"
    path.write_bytes(encoded(shop_capture()))
    said = pgdyno("init", path, "--fraction", "0.1", *server_options(named))
    assert said.code == 0, said.err
    assert f"created the database {NAME}, with pg_stat_statements" in said.err
    run_sql(cluster.target, "CREATE ROLE maker LOGIN CREATEDB")
    other = cluster.target.with_database("other")
    made = pgdyno("init", path, "--fraction", "0.1", *server_options(other, user="maker"))
    assert made.code == 0, made.err
    assert "created the database other\n" in made.err
    # Nothing in the copy says that it is alike, and nothing that it is not.
    options = (*server_options(other, user="maker"), "-T", "2s", "--json")
    answer = pgdyno("bench", "-b", path, *options).document["likeness"]
    assert answer["alike_time"] == 0
    assert "CREATE EXTENSION pg_stat_statements" in answer["sentence"]


def test_a_role_that_may_not_create_it_reads_how(
    pgdyno: Command, new: Target, any_server: ScratchCluster
) -> None:
    run_sql(any_server.target, "CREATE ROLE poor LOGIN")
    try:
        for more in ((), ("--dry-run",)):
            said = pgdyno("init", "-s", "1", *server_options(new, user="poor"), *more)
            assert said.code == 1
            assert "the role poor may not create databases" in " ".join(said.error.split())
            assert 'CREATE DATABASE "new ""shop"", größer" OWNER "poor"' in said.err
        assert count(new) == 0
    finally:
        run_sql(any_server.target, "DROP ROLE poor")


def test_other_verbs_do_not_create_it(pgdyno: Command, new: Target) -> None:
    said = pgdyno("bench", "-S", *server_options(new), "-T", "1s")
    assert said.code == 1
    assert "SQLSTATE 3D000" in said.error
    assert count(new) == 0


def test_a_server_that_is_not_there_is_named_as_before(pgdyno: Command, new: Target) -> None:
    said = pgdyno("init", "-s", "1", "-h", "127.0.0.1", "-p", "1", "-d", NAME)
    assert said.code == 1
    assert "Connection refused" in said.error
