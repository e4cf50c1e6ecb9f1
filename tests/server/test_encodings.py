"""Databases whose names are not UTF-8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg


QUICK = ("-c", "1", "-T", "2s", "--warmup", "0s")
# The words of a command, and its exit codes: a run of 2 s is not valid; 1 is a message.
OBSERVING = {
    ("doctor",): (0,),
    ("settings",): (0,),
    ("watch", "--duration", "2s"): (0,),
    ("capture", "--duration", "2s", "-o", "{folder}/some.capture"): (0,),
}
LOADING = {
    ("bench", "-f", "{folder}/plain.sql", *QUICK): (3,),
    ("bench", "-f", "{folder}/one.sql", *QUICK): (1, 3),
    ("init", "-s", "1"): (0,),
    ("bench", *QUICK): (3,),
    ("drop", "pgbench"): (0,),
}

SETUP = (
    'CREATE TABLE "größe" (a int)',
    'CREATE ROLE "müller" LOGIN',
    'GRANT ALL ON "größe" TO "müller"',
    'SET ROLE "müller"',
    'SELECT count(*) FROM "größe"',
)


def run_all(
    commands: Mapping[tuple[str, ...], tuple[int, ...]],
    pgdyno: Command,
    target: Target,
    folder: Path,
) -> None:
    """Run the commands in the database, and fail if one ends otherwise than it should."""
    (folder / "plain.sql").write_text("SELECT 1;\n")
    (folder / "one.sql").write_bytes('SELECT count(*) FROM "größe";\n'.encode("latin-1"))
    for verb, codes in commands.items():
        words = [word.format(folder=folder) for word in verb]
        said = pgdyno(*words, *server_options(target))
        assert said.code in codes, (verb, said.err)
        assert "internal error" not in said.err, said.err


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_names_that_are_not_utf_8_end_no_verb(
    encoding: str, pgdyno: Command, pg15: ScratchCluster, tmp_path: Path
) -> None:
    name = f"in_{encoding.lower()}"
    made = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    run_sql(pg15.target, made)
    target = pg15.target.with_database(name)
    try:
        parameters = {**target.libpq_parameters(), "client_encoding": encoding}
        with psycopg.connect(**parameters, autocommit=True) as session:  # type: ignore[arg-type]
            for statement in SETUP:
                session.execute(statement.encode("latin-1"))
            # A session of this role is there while the server is observed.
            run_all(OBSERVING, pgdyno, target, tmp_path)
        run_all(LOADING, pgdyno, target, tmp_path)
        with psycopg.connect(**parameters, autocommit=True) as session:  # type: ignore[arg-type]
            session.execute('DROP OWNED BY "müller"'.encode("latin-1"))
            session.execute('DROP ROLE "müller"'.encode("latin-1"))
    finally:
        run_sql(pg15.target, f"DROP DATABASE {name} WITH (FORCE)")
