"""Databases whose names are not UTF-8."""

from __future__ import annotations

import psycopg
import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.server.scratch import ScratchCluster

pytestmark = pytest.mark.pg


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_names_that_are_not_utf_8_end_no_verb(
    encoding: str, pgdyno: Command, pg15: ScratchCluster
) -> None:
    name = f"in_{encoding.lower()}"
    made = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    run_sql(pg15.target, made)
    target = pg15.target.with_database(name)
    try:
        parameters = {**target.libpq_parameters(), "client_encoding": encoding}
        with psycopg.connect(**parameters, autocommit=True) as session:  # type: ignore[arg-type]
            session.execute('CREATE TABLE "größe" (a int)'.encode("latin-1"))
        for verb in (("doctor",), ("settings",), ("watch", "--duration", "2s")):
            said = pgdyno(*verb, *server_options(target))
            assert said.code == 0, said.err
    finally:
        run_sql(pg15.target, f"DROP DATABASE {name}")
