"""Tables spread over the nodes of Citus and Greenplum: what a load tells a server that pretends."""

from __future__ import annotations

import pytest
from tests.fixtures.bank import ACCOUNTS_NOT_FROZEN
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.engine_process import Engine, init_job

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (
            "citus",
            [
                "select pg_catalog.create_distributed_table('pgbench_accounts', 'aid'",
                "colocate_with => 'pgbench_accounts')",
                "add constraint pgbench_accounts_pkey primary key (aid)",
                "vacuum (freeze, analyze) pgbench_accounts",
            ],
        ),
        (
            "citus:bid",
            [
                "select pg_catalog.create_distributed_table('pgbench_history', 'bid'",
                "add constraint pgbench_tellers_pkey primary key (tid, bid)",
            ],
        ),
        ("greenplum", ["char(84)) with (fillfactor=100) distributed by (aid)"]),
        ("greenplum:bid", ["distributed by (bid)", "primary key (aid, bid)"]),
    ],
)
def test_distribution_is_in_the_statements_that_are_sent(
    pgdyno: Command, asked: str, sent: list[str]
) -> None:
    said = pgdyno("init", "-s", "2", "--distribute", asked, "--print-sql")
    assert said.code == 0, said.err
    for text in sent:
        assert text in said.out
    assert "freeze on" not in said.out


def test_options_that_do_not_fit_a_distribution_are_refused(
    pgdyno: Command, database15: Target
) -> None:
    said = pgdyno("init", "--distribute", "citus:bid", "--foreign-keys", "--print-sql")
    assert said.code == 1
    assert "foreign keys" in said.error
    assert pgdyno("init", "--distribute", "oracle").code == 1
    assert pgdyno("init", *server_options(database15), "-s", "1").code == 0
    said = pgdyno("init", *server_options(database15), "-s", "1", "--distribute", "citus")
    assert said.code == 1, "nothing was made"
    assert "no extension citus" in said.error
    assert scalar(database15, "SELECT count(*) FROM pgbench_accounts") == 100_000


@pytest.fixture
def pretended_citus(database15: Target) -> Target:
    """Give a database whose catalogue has citus, with functions that keep their calls."""
    with connection(database15) as session:
        session.execute("SET allow_system_table_mods = on")
        session.execute(
            "INSERT INTO pg_extension SELECT 1, 'citus', extowner, extnamespace, false, '12.1'"
            " FROM pg_extension WHERE extname = 'plpgsql'"
        )
        session.execute("CREATE TABLE calls (number serial, text text, tables bigint, rows bigint)")
        record = (
            "BEGIN INSERT INTO calls (text, tables, rows) SELECT {}, count(*), sum(reltuples)"
            " FROM pg_class WHERE relname ~ '^pgbench' AND reltuples >= 0; END"
        )
        for arguments, text in (
            (
                "pg_catalog.create_distributed_table(what text, by text, colocate_with text)",
                "format('%s by %s next to %s', what, by, colocate_with)",
            ),
            ("pg_catalog.create_reference_table(what text)", "format('%s everywhere', what)"),
        ):
            body = record.format(text)
            session.execute(
                f"CREATE FUNCTION {arguments} RETURNS void LANGUAGE plpgsql AS $$ {body} $$"
            )
    return database15


@pytest.mark.parametrize(
    ("column", "foreign_keys", "calls"),
    [
        (
            "aid",
            False,
            [
                "pgbench_branches by bid next to none",
                "pgbench_tellers by tid next to none",
                "pgbench_accounts by aid next to none",
                "pgbench_history by aid next to pgbench_accounts",
            ],
        ),
        (
            "aid",
            True,
            [
                "pgbench_branches everywhere",
                "pgbench_tellers everywhere",
                "pgbench_accounts by aid next to none",
                "pgbench_history by aid next to pgbench_accounts",
            ],
        ),
        (
            "bid",
            False,
            [
                "pgbench_branches by bid next to none",
                "pgbench_tellers by bid next to pgbench_branches",
                "pgbench_accounts by bid next to pgbench_branches",
                "pgbench_history by bid next to pgbench_branches",
            ],
        ),
    ],
)
def test_tables_are_distributed_before_they_have_rows(
    engine: Engine,
    pretended_citus: Target,
    column: str,
    foreign_keys: bool,
    calls: list[str],
) -> None:
    distribute = {"server": "citus", "column": column}
    job = init_job(pretended_citus, 1, distribute=distribute, foreign_keys=foreign_keys)
    end = engine(job)
    assert end.summary.ending == "completed", end.failures
    called = run_sql(pretended_citus, "SELECT text, rows FROM calls ORDER BY number")
    assert [text for text, _ in called] == calls
    assert all(not rows for _, rows in called)
    keys = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p'"
    definitions = dict(run_sql(pretended_citus, keys + " AND conname ~ '^pgbench'"))
    columns = "aid" if column == "aid" else "aid, bid"
    assert definitions["pgbench_accounts_pkey"] == f"PRIMARY KEY ({columns})"
    assert scalar(pretended_citus, ACCOUNTS_NOT_FROZEN) == 0


def test_greenplum_is_sent_its_clauses_and_nothing_is_dropped_when_it_refuses(
    engine: Engine, database15: Target
) -> None:
    assert engine(init_job(database15, 1)).summary.ending == "completed"
    # No session of the loader calls a function of a user instead.
    run_sql(database15, "ALTER FUNCTION pg_catalog.version() RENAME TO version_of_postgresql")
    run_sql(
        database15,
        "CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql"
        " AS $$ SELECT 'PostgreSQL 12.12 (Greenplum Database 7.1.0)' $$",
    )
    distribute = {"server": "greenplum", "column": "aid"}
    end = engine(init_job(database15, 2, distribute=distribute, drop_existing=True))
    # What pretends to be Greenplum does not know the clause: it was sent.
    [failure] = end.failures
    assert failure.sqlstate == "42601"
    assert 'at or near "distributed"' in failure.message
    assert scalar(database15, "SELECT count(*) FROM pgbench_accounts") == 100_000
