"""Schemas of every kind: nothing stops `init`, and what is missing is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.clusters import connection, make_cluster, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.every_schema import EXPECTED, LEFT_OUT, NOT_CAPTURED, SCHEMAS

from pgdyno.server.target import Target

EXTENSIONS = ("hstore", "btree_gist", "citext", "ltree", "pg_trgm")


@dataclass(frozen=True)
class Copied:
    """A copy of all schemas, and what the commands said."""

    copy: Target
    captured: str
    said: str
    path: Path


@pytest.fixture(scope="module", params=["15", "18"])
def copied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Copied]:
    """Capture all schemas from one database, and make their copy in another one."""
    folder = tmp_path_factory.mktemp("schemas")
    path, pgdyno = folder / "all.capture", Command(folder / "store")
    with make_cluster(request.param) as cluster:
        for name in ("core", "copy"):
            run_sql(cluster.target, f"CREATE DATABASE {name}")
        core, copy = cluster.target.with_database("core"), cluster.target.with_database("copy")
        with connection(core) as session:
            for extension in EXTENSIONS:
                session.execute(f"CREATE EXTENSION {extension}")
            for name, statements in SCHEMAS.items():
                session.execute(f"CREATE SCHEMA {name}")
                session.execute(f"SET search_path = {name}, public")
                for statement in statements:
                    session.execute(statement)
            session.execute("ANALYZE")
        captured = pgdyno("capture", *server_options(core), "-o", path, "--duration", "2s")
        assert captured.code == 0, captured.err
        shown = pgdyno("capture", "show", path, "--all")
        said = pgdyno("init", path, *server_options(copy))
        assert said.code == 0, said.err
        yield Copied(copy, shown.out, said.out, path)
        pgdyno.close()


@pytest.mark.pg
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_copy_has_what_its_source_has(name: str, copied: Copied) -> None:
    for expression in EXPECTED[name]:
        assert scalar(copied.copy, f"SELECT {expression}") is True, expression


@pytest.mark.pg
def test_what_is_missing_is_named(copied: Copied) -> None:
    said = " ".join(copied.said.split())
    captured = " ".join(copied.captured.split())
    assert [words for words in LEFT_OUT if words not in said] == []
    assert [words for words in NOT_CAPTURED if words not in captured] == []
    query = "SELECT count(*)::int FROM ranges.pgdyno_left_out"
    assert scalar(copied.copy, query) >= len(LEFT_OUT)


@pytest.mark.pg
def test_a_benchmark_of_the_copy_says_what_it_lacks(
    copied: Copied, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    given = ("-f", script, "-c", "1", "--warmup", "0s", "--duration", "1s")
    said = pgdyno("bench", *server_options(copied.copy), *given)
    assert said.code in (0, 3), said.err
    assert "left out: " in " ".join(said.err.split())


@pytest.mark.pg
def test_a_second_init_replaces_everything_and_drop_removes_it(
    copied: Copied, pgdyno: Command
) -> None:
    again = pgdyno("init", copied.path, *server_options(copied.copy), "--fraction", "0.5")
    assert again.code == 0, again.err
    dropped = pgdyno("drop", *server_options(copied.copy))
    assert dropped.code == 0, dropped.err
    left = (
        "SELECT count(*)::int FROM pg_class c WHERE relkind IN ('r', 'p', 'v', 'S')"
        " AND relnamespace::regnamespace::text <> ALL (ARRAY['pg_catalog', 'information_schema'])"
        " AND relnamespace::regnamespace::text !~ '^pg_'"
    )
    assert scalar(copied.copy, left) == 0
