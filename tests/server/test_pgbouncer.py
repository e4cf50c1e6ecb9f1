"""A PgBouncer for a scratch cluster: reached, shared, ended; a clear error if it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar

from pgdyno.errors import ServerError, SpecError
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.scratch.pgbouncer import PgBouncer, PoolerProgram, find_pgbouncer


def test_clients_share_no_more_sessions_than_the_pool_has(
    pgbouncer: Path, pg15: ScratchCluster
) -> None:
    with PgBouncer(pg15, find_pgbouncer(), mode="transaction", pool_size=2, clients=6) as pooler:
        sessions = [connect(pooler.target, verb="test") for _ in range(6)]
        backends = {
            session.execute("SELECT pg_backend_pid()").fetchone() for session in sessions * 3
        }
        assert 1 <= len(backends) <= 2
        with connect(pooler.admin, verb="test", console=True) as console:
            rows = console.execute(b"SHOW POOLS").fetchall()
        assert any(row[0] == "postgres" for row in rows)
        for session in sessions:
            session.close()
    with pytest.raises(ServerError):
        connect(pooler.target, verb="test")


def test_the_error_of_a_bad_configuration_quotes_pgbouncer(
    pgbouncer: Path, pg15: ScratchCluster
) -> None:
    with pytest.raises(ServerError, match=r"PgBouncer .* cannot start: .*pool_mode"):
        PgBouncer(pg15, find_pgbouncer(), mode="sometimes", pool_size=2, clients=2)


def test_the_error_without_pgbouncer_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no pgbouncer on this host") as error:
        find_pgbouncer(str(tmp_path))
    assert "install the package" in error.value.hint


@pytest.mark.parametrize(
    ("version", "knows"), [("1.18.0", False), ("1.20.1", False), ("1.21.0", True), ("2.0", True)]
)
def test_prepared_statements_are_known_from_1_21_on(version: str, knows: bool) -> None:
    assert PoolerProgram(Path("/x"), version).knows_prepared_statements is knows


def test_a_load_through_a_pooler_reaches_the_same_rows(
    pgbouncer: Path, pg15: ScratchCluster
) -> None:
    run_sql(pg15.target, "CREATE TABLE pooled (a int)")
    try:
        with PgBouncer(pg15, find_pgbouncer(), mode="session", pool_size=2, clients=2) as pooler:
            run_sql(pooler.target, "INSERT INTO pooled VALUES (7)")
        assert scalar(pg15.target, "SELECT a FROM pooled") == 7
    finally:
        run_sql(pg15.target, "DROP TABLE pooled")
