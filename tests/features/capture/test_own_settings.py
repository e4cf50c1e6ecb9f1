"""Row security: settings of the application are set again; roles without rights are not taken."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.fixtures.captured_load import capture_new_log
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.own_settings import settings_of
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.server.target import Target

COLUMNS = {"public.invoice": ["id", "tenant_id", "changed_by"], "public.tenant": ["id"]}
TENANT = {"app.tenant": ("public.invoice", "tenant_id")}
SETTINGS = {
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
}
ROLE = "tenant_of_invoices"


@pytest.mark.parametrize(
    ("table", "condition", "known"),
    [
        ("public.invoice", "(tenant_id = (current_setting('app.tenant'::text))::integer)", TENANT),
        (
            "public.invoice",
            "(tenant_id = ( SELECT (NULLIF(current_setting('App.Tenant'::text, true),"
            " ''::text))::integer AS x))",
            TENANT,
        ),
        ("public.invoice", "((current_setting('app.tenant'::text))::int = tenant_id)", TENANT),
        (
            "",
            "BEGIN NEW.changed_by := current_setting('app.user'); RETURN NEW; END",
            {"app.user": ("public.invoice", "changed_by")},
        ),
        ("", "SELECT current_setting('app.mode') <> 'quiet'", {"app.mode": ("", "")}),
        ("", "SELECT current_setting('TimeZone')", {}),
    ],
)
def test_a_schema_says_which_settings_it_reads(
    table: str, condition: str, known: dict[str, tuple[str, str]]
) -> None:
    assert settings_of([(table, condition)], COLUMNS) == known


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("SET LOCAL app.tenant = $1", "SELECT pg_catalog.set_config('app.tenant', $1, true)"),
        ("SET App.Tenant TO $1", "SELECT pg_catalog.set_config('app.tenant', $1, false)"),
        (
            "select set_config('app.tenant', $1::text, true)",
            "SELECT pg_catalog.set_config('app.tenant', $1, true)",
        ),
    ],
)
def test_a_setting_that_the_schema_reads_is_set_with_values_of_its_column(
    text: str, sent: str
) -> None:
    parsed = parse(text, Names(COLUMNS, ["public"], settings=TENANT))
    assert (parsed.text, parsed.reason) == (sent, "")
    assert parsed.parameters == {1: Parameter("equal", "public.invoice", "tenant_id", "=")}


@pytest.mark.parametrize(
    "text",
    [
        "SET LOCAL app.other = $1",
        "SELECT set_config('app.other', $1, true)",
        "SELECT set_config('app.tenant', $1, true), set_config('role', $2, true)",
        "SELECT set_config($1, $2, true)",
    ],
)
def test_other_settings_of_programs_are_not_set_again(text: str) -> None:
    assert parse(text, Names(COLUMNS, ["public"], settings=TENANT)).reason


def _use(core: Target) -> None:
    """Read and write invoices of tenants, as a program does that trusts the server's policies."""
    with connection(core) as session, psycopg.ClientCursor(session) as pasted:
        for turn in range(60):
            tenant = 1 + turn % 5
            with session.transaction():
                session.execute(f"SET LOCAL ROLE {ROLE}")
                if turn % 2:
                    session.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant)])
                else:
                    pasted.execute("SET LOCAL app.tenant = %s", [str(tenant)])
                rows = session.execute("SELECT id, amount FROM invoice ORDER BY id").fetchall()
                assert len(rows) >= 40
                session.execute("INSERT INTO invoice (tenant_id, amount) VALUES (%s, 1)", [tenant])
                ids = [row[0] for row in rows[: 2 + turn % 3]]
                marks = ", ".join(["%s"] * len(ids))
                session.execute(f"SELECT amount FROM invoice WHERE id IN ({marks})", ids)


@pytest.mark.parametrize("version", ["15", "18"])
def test_row_security_is_repeated_on_a_dump_and_a_rebuilt_copy_needs_no_grants(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    target = new_cluster(version, settings=SETTINGS).target
    run_sql(target, "CREATE DATABASE core")
    run_sql(target, f"CREATE ROLE {ROLE}")
    core, path = target.with_database("core"), tmp_path / "a.capture"
    run_sql(
        core,
        "CREATE TABLE invoice (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " tenant_id int NOT NULL, amount numeric NOT NULL);"
        "INSERT INTO invoice (tenant_id, amount)"
        " SELECT 1 + g % 5, g FROM generate_series(1, 200) g;"
        "ALTER TABLE invoice ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY own ON invoice USING (tenant_id = current_setting('app.tenant')::int);"
        f"GRANT SELECT, INSERT ON invoice TO {ROLE}; ANALYZE",
    )
    run_sql(target, "CREATE DATABASE dump TEMPLATE core")
    capture_new_log(pgdyno, core, path, lambda: _use(core))
    run_sql(target, "CREATE DATABASE rebuilt")
    rebuilt, dump = target.with_database("rebuilt"), target.with_database("dump")
    assert pgdyno("init", path, *server_options(rebuilt), "-q").code == 0
    for place in (rebuilt, dump):
        given = ("-b", path, "-c", "2", "--duration", "1s", "-q", "--json", "--allow-write")
        said = pgdyno("bench", *server_options(place), *given)
        assert said.code in (0, 3), said.err
        assert said.document["failures"] == {}
        assert said.document["transactions"] > 5
        left_out = [
            r for r in said.document["likeness"]["statements"] if r["verdict"] == "left out"
        ]
        assert left_out == []
        assert run_sql(place, "SELECT count(*) > 200 FROM invoice") == [(True,)]
