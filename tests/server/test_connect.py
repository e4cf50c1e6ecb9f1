from __future__ import annotations

import socket
from dataclasses import replace
from types import SimpleNamespace

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr
from tests.fixtures.clusters import make_cluster

from pgdyno.errors import ServerError
from pgdyno.server import connect as connecting
from pgdyno.server import server_facts
from pgdyno.server.configuration import live_settings
from pgdyno.server.connect import connect, pinned, took_too_long
from pgdyno.server.failures import failure, statement_failure
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


def test_a_session_is_named_after_verb_and_run(cluster: ScratchCluster) -> None:
    with connect(cluster.target, verb="bench", run="7") as connection:
        assert connection.autocommit
        row = connection.execute("SHOW application_name").fetchone()
    assert row == ("pgdyno/bench/7",)


def test_a_reading_session_is_bounded_and_cannot_write(cluster: ScratchCluster) -> None:
    with connect(
        cluster.target, verb="watch", statement_timeout_ms=2000, lock_timeout_ms=100, read_only=True
    ) as connection:
        row = connection.execute(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        ).fetchone()
        assert row == ("2s", "100ms")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE t ()")


def test_the_password_over_tcp_is_checked(cluster: ScratchCluster) -> None:
    with connect(cluster.tcp_target, verb="test") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    wrong = replace(cluster.tcp_target, password=SecretStr("not-sesame"))
    with pytest.raises(ServerError, match="password authentication failed") as caught:
        connect(wrong, verb="test")
    assert caught.value.sqlstate == "28P01"
    assert ".pgpass" in caught.value.hint
    assert "not-sesame" not in caught.value.message


def test_a_missing_password_is_the_same_trouble(cluster: ScratchCluster) -> None:
    with pytest.raises(ServerError, match="no password supplied") as caught:
        connect(replace(cluster.tcp_target, password=None), verb="test")
    assert caught.value.sqlstate == "28P01"


def test_errors_name_a_missing_database_and_a_missing_role(cluster: ScratchCluster) -> None:
    with pytest.raises(ServerError, match='database "nowhere" does not exist') as caught:
        connect(cluster.target.with_database("nowhere"), verb="test")
    assert caught.value.sqlstate == "3D000"
    with pytest.raises(ServerError, match='role "nobody_here" does not exist'):
        connect(replace(cluster.target, user="nobody_here"), verb="test")


def test_the_error_of_an_unreachable_server_has_its_address() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else can take it.
        port = closed.getsockname()[1]
        target = Target(host="127.0.0.1", ports=str(port), user="me", database="core")
        with pytest.raises(ServerError, match=f"127.0.0.1:{port}/core as user me") as caught:
            connect(target, verb="test")
    assert "Connection refused" in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ('pg_hba.conf rejects connection for host "h", user "u", no encryption', "sslmode=require"),
        ('no pg_hba.conf entry for host "h", user "u", no encryption', "sslmode=require"),
        ('no pg_hba.conf entry for host "h", user "u", SSL encryption', "pg_hba.conf must allow"),
        ('root certificate file "/root.crt" does not exist', "sslrootcert"),
    ],
)
def test_the_error_of_a_server_that_wants_tls_names_the_option(said: str, step: str) -> None:
    target = Target(host="h", ports="5432", user="u", database="d")
    assert step in failure(target, psycopg.OperationalError(f"FATAL: {said}")).hint


def test_an_error_names_a_missing_socket() -> None:
    target = Target(host="/nowhere", ports="5432", user="me", database="core")
    with pytest.raises(ServerError, match="No such file or directory") as caught:
        connect(target, verb="test")
    assert "-h and -p" in caught.value.hint


def test_an_error_says_that_the_server_has_no_free_connection(cluster: ScratchCluster) -> None:
    with cluster.connect(verb="test") as connection:
        connection.execute("CREATE ROLE plain LOGIN CONNECTION LIMIT 1")
    plain = replace(cluster.target, user="plain")
    try:
        with connect(plain, verb="test"), pytest.raises(ServerError) as caught:
            connect(plain, verb="test")
        assert caught.value.sqlstate == "53300"
    finally:
        with cluster.connect(verb="test") as connection:
            connection.execute("SELECT pg_sleep(0.1) FROM pg_stat_activity WHERE usename = 'plain'")
            connection.execute("DROP ROLE plain")


def test_the_hint_for_a_starting_server_is_to_try_again() -> None:
    target = Target(host="db1", ports="5432", user="me", database="core")
    said = psycopg.OperationalError("connection failed: FATAL:  the database system is starting up")
    error = failure(target, said)
    assert error.sqlstate == "57P03"
    assert error.message.endswith("the database system is starting up (SQLSTATE 57P03).")


def test_the_environment_has_no_say_in_a_resolved_target(
    cluster: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICE", "nowhere")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=9MB")
    monkeypatch.setenv("PGSSLMODE", "require")
    with cluster.connect(verb="test") as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("4MB",)


def test_a_pinned_target_names_the_one_host_that_answered(cluster: ScratchCluster) -> None:
    tcp = cluster.tcp_target
    several = replace(tcp, host="127.0.0.1,127.0.0.1", ports=f"1,{tcp.port}")
    with connect(several, verb="test") as connection:
        first = pinned(several, connection)
    assert (first.host, first.hostaddr, first.port) == ("127.0.0.1", "127.0.0.1", tcp.port)


def test_the_error_of_a_refused_statement_has_server_statement_and_next_step(
    cluster: ScratchCluster,
) -> None:
    with pytest.raises(ServerError) as caught, connect(cluster.target, verb="test") as connection:
        connection.execute("SELECT *\n  FROM nowhere_at_all WHERE x = %s", ["sesame"])
    place = f"{cluster.target.place} as user {cluster.target.user}"
    assert caught.value.message == (
        f'{place}: relation "nowhere_at_all" does not exist (SQLSTATE 42P01),'
        " for: SELECT * FROM nowhere_at_all WHERE x = %s."
    )
    assert caught.value.sqlstate == "42P01"
    assert caught.value.hint


def test_a_session_that_the_server_ended_gives_the_same_error(cluster: ScratchCluster) -> None:
    end = sql.SQL("SELECT pg_terminate_backend({})").format(sql.SQL("pg_backend_pid()"))
    with pytest.raises(ServerError) as caught, connect(cluster.target, verb="test") as connection:
        connection.execute(end)
    assert "for: SELECT pg_terminate_backend" in caught.value.message
    assert caught.value.sqlstate == "57P01"
    assert "see the server's log" in caught.value.hint


def test_the_error_of_two_connections_names_the_failed_statement(cluster: ScratchCluster) -> None:
    with (
        pytest.raises(ServerError, match="for: SELECT 1 / 0"),
        connect(cluster.target, verb="test") as first,
        connect(cluster.target, verb="test"),
    ):
        first.execute("SELECT 1 / 0")


def test_a_password_in_a_statement_is_not_told(cluster: ScratchCluster) -> None:
    with pytest.raises(ServerError) as caught, connect(cluster.target, verb="test") as connection:
        connection.execute("ALTER ROLE nobody_here PASSWORD 'open sesame' VALID UNTIL 'never'")
    assert "sesame" not in caught.value.message
    assert "ALTER ROLE nobody_here PASSWORD '***' VALID" in caught.value.message


def test_a_connection_that_is_lost_while_it_is_opened_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Lost(Stub):
        @property
        def autocommit(self) -> bool:
            return False

        @autocommit.setter
        def autocommit(self, on: bool) -> None:
            raise psycopg.OperationalError("the connection is lost")

    lost = Lost()
    monkeypatch.setattr(connecting, "_begun", lambda _: lost)
    with pytest.raises(ServerError, match="the connection is lost"):
        connect(NOWHERE, verb="test")
    assert lost.is_closed


def test_a_connection_is_closed_when_its_settings_are_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(Stub):
        info = SimpleNamespace(backend_pid=1, server_version=150000, parameter_status=str)

        def execute(self, query: object, parameters: object = None) -> None:
            raise KeyboardInterrupt

    interrupted = Interrupted()
    monkeypatch.setattr(connecting, "_begun", lambda _: interrupted)
    with pytest.raises(KeyboardInterrupt):
        connect(NOWHERE, verb="test", statement_timeout_ms=1)
    assert interrupted.is_closed


def test_a_timeout_and_a_refusal_are_different_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, expected in (
        (psycopg.errors.ConnectionTimeout("connection timeout expired"), True),
        (psycopg.OperationalError("Connection refused"), False),
    ):

        def fail(_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(connecting, "_begun", fail)
        with pytest.raises(ServerError) as caught:
            connect(NOWHERE, verb="test")
        assert took_too_long(caught.value) == expected


NOWHERE = Target(host="127.0.0.1", ports="1", user="u", database="d")


class Stub:
    """Keeps whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.pg
def test_own_statements_are_never_compiled_and_jit_is_shown_as_the_load_has_it() -> None:
    always = {"jit": "on", "jit_above_cost": "0"}
    with make_cluster("15", settings=always) as cluster:
        with connect(cluster.target, verb="test") as connection:
            assert connection.execute("SHOW jit").fetchone() == ("off",)
            facts = server_facts.collect(connection, cluster.target)
            assert connection.execute("SHOW jit").fetchone() == ("off",)
            assert live_settings(connection, ["jit"])["jit"].show == "on"
        assert facts.settings["jit"] == "on"
        assert "conf" in facts.setting_sources["jit"], "its source is shown, too"


def test_a_session_compiles_nothing_after_a_statement_that_showed_jit_failed(
    either_server: ScratchCluster,
) -> None:
    with connect(either_server.target, verb="test") as connection:
        with pytest.raises(psycopg.Error), connection.as_the_load():
            connection.execute("SELECT 1 / 0")
        assert connection.execute("SHOW jit").fetchone() == ("off",)
        with (
            pytest.raises(psycopg.Error),
            connection.transaction(),
            connection.as_the_load(),
        ):
            connection.execute("SELECT 1 / 0")
        assert connection.execute("SHOW jit").fetchone() == ("off",)


def test_a_message_that_the_server_refuses_starts_no_node(either_server: ScratchCluster) -> None:
    target = either_server.target
    with connect(target, verb="test") as connection:
        answer = connection.as_it_is(
            connection.pgconn.send_query_params, b"SELECT $1::int + $2::int", [b"1"]
        )
        refused = psycopg.errors.error_from_result(answer)
    assert refused.sqlstate == "08P01"
    error = statement_failure(target, refused)
    assert "refused a message" in error.hint
    assert error.sqlstate == "08P01"


@pytest.mark.parametrize("said", ["No such file or directory", "Connection refused"])
def test_a_missing_socket_is_no_matter_of_a_firewall(said: str) -> None:
    target = Target(host="/tmp/nowhere", ports="5432", user="u", database="d")
    error = failure(target, psycopg.OperationalError(f"connection failed: {said}"))
    assert "/tmp/nowhere/.s.PGSQL.5432" in str(error)
    assert "firewall" not in error.hint
    assert "unix_socket_directories" in error.hint
