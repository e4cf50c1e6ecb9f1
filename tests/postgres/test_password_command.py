"""A password that a command prints: run again when the server refuses what it printed before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql
from pydantic import SecretStr
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually
from tests.fixtures.engine_process import Engine, load_job

from pgdyno.errors import ServerError
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

ROLE = "rotating"


class Vault:
    """A role whose password changes, and the file that a command reads it from."""

    def __init__(self, cluster: ScratchCluster, file: Path) -> None:
        self._cluster, self._file = cluster, file
        self.target: Target = replace(
            cluster.tcp_target, user=ROLE, password=None, password_command=f"cat {file}"
        )

    def rotate(self, password: str) -> None:
        """Give the role a new password."""
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
        role = sql.Identifier(ROLE)
        run_sql(self._cluster.target, statement.format(role, sql.Literal(password)))
        self._file.write_text(password + "\n")

    def end_sessions(self) -> None:
        """End every session of the role, as an administrator would."""
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
        run_sql(self._cluster.target, end, ROLE)


@pytest.fixture
def vault(pg15: ScratchCluster, tmp_path: Path) -> Iterator[Vault]:
    """A role with the password `first`."""
    run_sql(pg15.target, f"CREATE ROLE {ROLE} LOGIN")
    made = Vault(pg15, tmp_path / "password")
    made.rotate("first-secret")
    yield made
    made.end_sessions()
    run_sql(pg15.target, f"DROP ROLE {ROLE}")


def test_a_control_connection_asks_again_when_the_password_was_changed(vault: Vault) -> None:
    for password in ("first-secret", "second-secret"):
        vault.rotate(password)
        with connect(vault.target, verb="test") as session:
            assert session.execute("SELECT current_user").fetchone() == (ROLE,)


def test_the_error_of_a_failed_command_does_not_show_its_output(
    vault: Vault, tmp_path: Path
) -> None:
    for command, why in (("echo shh; exit 3", "exit status 3"), ("printf 'a\\nb'", "2 lines")):
        with pytest.raises(ServerError) as caught:
            connect(replace(vault.target, password_command=command), verb="test")
        assert why in caught.value.message
        assert "shh" not in f"{caught.value.message}{caught.value.hint}"


def test_the_engine_connects_again_with_the_new_password(
    vault: Vault, pg15: ScratchCluster, engine: Engine
) -> None:
    job = load_job(vault.target, "SELECT 1;", clients=3, measure_s=600)
    update = {"password_command": SecretStr(vault.target.password_command)}
    running = engine.start(job.model_copy(update={"target": job.target.model_copy(update=update)}))
    running.await_record(record="phase", phase="measure", event="begin")
    vault.rotate("second-secret")
    # An ended backend is still there for a moment: those that come after it are waited for.
    theirs = "FROM pg_stat_activity WHERE usename = %s"
    last = scalar(pg15.target, f"SELECT max(backend_start)::text {theirs}", ROLE)
    vault.end_sessions()
    fresh = f"SELECT count(*) {theirs} AND backend_start > '{last}' AND query <> ''"
    eventually(
        lambda: scalar(pg15.target, fresh, ROLE) == 3,
        unless=lambda: running.process.poll() is not None,
    )
    running.stop()
    end = running.wait()
    assert end.exit_code == 0, end
    assert (end.summary.connections.lost_count, end.summary.connections.reconnect_count) == (3, 3)
    assert "secret" not in f"{end.raw} {end.stderr}"


def test_every_part_of_the_lab_uses_the_command_and_keeps_nothing_of_it(
    vault: Vault, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT pg_sleep(0.005);\n")
    target = vault.target
    said = pgdyno(
        *("bench", "-h", target.host, "-p", target.ports, "-U", ROLE, "-d", target.database),
        *("--password-command", target.password_command, "-f", script, "-c", "3", "-t", "50"),
        *("--warmup", "0", "--json"),
    )
    assert said.code in (0, 3), said.err
    assert said.document["transactions"] == 150
    kept = [path.read_bytes() for path in pgdyno.store.rglob("*") if path.is_file()]
    assert kept
    assert not any(b"first-secret" in content for content in kept)
    assert not any(str(tmp_path / "password").encode() in content for content in kept)


def test_an_experiment_from_a_file_has_its_password_from_the_environments_command(
    vault: Vault, pgdyno: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = vault.target
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(0.005);\n")
    spec = tmp_path / "spec.toml"
    dsn = f"host={target.host} port={target.ports} user={ROLE} dbname={target.database}"
    spec.write_text(
        f'[experiment]\nname = "vault"\n[server]\ndsn = "{dsn}"\n'
        '[dataset]\nkind = "existing"\n'
        '[workload]\nscripts = [{ file = "one.sql" }]\nclients = 2\ntransactions_per_client = 20\n'
        'warmup = "0s"\n[design]\nkind = "bench"\n'
    )
    monkeypatch.setenv("PGDYNO_PASSWORD_COMMAND", target.password_command)
    said = pgdyno("run", spec, "--json")
    assert said.code in (0, 3), said.err
    kept = [path.read_bytes() for path in pgdyno.store.rglob("*") if path.is_file()]
    assert kept
    assert not any(b"first-secret" in content for content in kept)
    assert not any(str(tmp_path / "password").encode() in content for content in kept)
