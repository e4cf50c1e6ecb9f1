"""How the engine gets in: each method over TCP, and what it says when it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql
from pydantic import SecretStr
from tests.fixtures.clusters import make_cluster, run_sql
from tests.fixtures.engine_process import Engine, EngineEnd, load_job

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

# With a sharp s, a soft hyphen (dropped by SASLprep) and a letter that normalises.
PASSWORDS = ("plain", "with blank and 'quote'", "Stra\u00dfe\u00ad\u00bd", "p" * 200)
METHODS = {"trust": "scram-sha-256", "password": "scram-sha-256", "md5": "md5"}
METHODS["scram-sha-256"] = "scram-sha-256"


@pytest.fixture(scope="module", params=["15", "18"])
def doors(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server with one user for each method, named after it."""
    with make_cluster(request.param) as cluster:
        rules = [f'host all "{method}" 127.0.0.1/32 {method}\n' for method in METHODS]
        rules += ["host all postgres 127.0.0.1/32 scram-sha-256\n", "local all all trust\n"]
        (cluster.path / "pg_hba.conf").write_text("".join(rules))
        run_sql(cluster.target, "SELECT pg_reload_conf()")
        for method in METHODS:
            user = sql.Identifier(method)
            run_sql(cluster.target, sql.SQL("CREATE ROLE {} LOGIN").format(user))
        yield cluster


def _set_password(cluster: ScratchCluster, method: str, password: str) -> None:
    statement = sql.SQL("SET password_encryption = {}; ALTER ROLE {} PASSWORD {}").format(
        sql.Literal(METHODS[method]), sql.Identifier(method), sql.Literal(password)
    )
    run_sql(cluster.target, statement)


def _enter(engine: Engine, cluster: ScratchCluster, user: str, password: str | None) -> EngineEnd:
    secret = None if password is None else SecretStr(password)
    target: Target = replace(cluster.tcp_target, user=user, password=secret)
    return engine(load_job(target, "SELECT 1;", clients=3, transactions=2))


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("method", METHODS)
def test_the_right_password_opens(
    method: str, password: str, doors: ScratchCluster, engine: Engine
) -> None:
    _set_password(doors, method, password)
    end = _enter(engine, doors, method, None if method == "trust" else password)
    assert end.exit_code == 0, end
    assert end.summary.counts.completed == 6


@pytest.mark.parametrize("method", ["password", "md5", "scram-sha-256"])
def test_the_error_of_a_wrong_password_never_shows_it(
    method: str, doors: ScratchCluster, engine: Engine
) -> None:
    _set_password(doors, method, "right")
    end = _enter(engine, doors, method, "wrong-and-secret")
    [failure] = end.failures
    assert (failure.kind, failure.sqlstate) == ("authentication", "28P01")
    assert method in failure.message
    assert failure.hint
    assert end.exit_code == 2
    assert "wrong-and-secret" not in f"{end.raw} {end.stderr}"


@pytest.mark.parametrize("method", ["password", "md5", "scram-sha-256"])
def test_the_error_of_a_missing_password_says_where_to_give_it(
    method: str, doors: ScratchCluster, engine: Engine
) -> None:
    _set_password(doors, method, "right")
    [failure] = _enter(engine, doors, method, None).failures
    assert failure.kind == "authentication"
    assert "password" in failure.message + failure.hint


def test_a_user_that_pg_hba_does_not_know_is_refused(doors: ScratchCluster, engine: Engine) -> None:
    end = _enter(engine, doors, "stranger", "x")
    assert [(f.kind, f.sqlstate) for f in end.failures] == [("authentication", "28000")]
    assert end.exit_code == 2
