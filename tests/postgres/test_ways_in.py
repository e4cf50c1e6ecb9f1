"""Less common ways to a server: abstract sockets, and passwords that a file has for each host."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.engine_process import Engine, load_job

from pgdyno.engine.executable import engine_path
from pgdyno.measure.jobs import engine_target
from pgdyno.server.connect import connect, pinned
from pgdyno.server.conninfo import resolve
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
TRANSACTIONS = 10


@pytest.fixture
def abstract(new_cluster: Make) -> Target:
    """A server that listens at an abstract socket too, which has no file."""
    cluster = new_cluster("15")
    name = f"@pgdyno-test-{os.getpid()}"
    folder = cluster.target.host
    # ALTER SYSTEM counts after the file that the cluster is started with.
    run_sql(cluster.target, f"ALTER SYSTEM SET unix_socket_directories = '{folder}', '{name}'")
    cluster.restart()
    return replace(cluster.target, host=name)


def test_an_abstract_socket_is_as_good_as_one_in_a_folder(
    abstract: Target, engine: Engine, pgdyno: Command
) -> None:
    end = engine(load_job(abstract, "SELECT 1;", transactions=TRANSACTIONS))
    assert (end.exit_code, end.summary.counts.completed) == (0, 2 * TRANSACTIONS)
    way = ("-h", abstract.host, "-p", abstract.ports, "-U", abstract.user, "-d", abstract.database)
    assert pgdyno("init", *way, "-s", "1").code == 0
    said = pgdyno("doctor", *way, "--all")
    assert "target  local:" in said.out
    dropin = subprocess.run(
        [engine_path(), "pgbench", "-n", "-S", "-t", "5", *way],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (dropin.returncode, dropin.stderr) == (0, "")
    assert "processed: 5/5" in dropin.stdout


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens: bound here, so that nobody else takes it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def of_file(
    pg15: ScratchCluster, nobody: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Variables of two hosts, the second the server; a file has a password for each of them."""
    target = pg15.tcp_target
    assert target.password is not None
    file = tmp_path / "passwords"
    file.write_text(
        f"127.0.0.1:{nobody}:*:*:of the first\n"
        f"localhost:{target.ports}:*:*:{target.password.get_secret_value()}\n"
    )
    file.chmod(0o600)
    for name in [name for name in os.environ if name.startswith("PG")]:
        if not name.startswith("PGDYNO"):
            monkeypatch.delenv(name)
    variables = {
        "PGHOST": "127.0.0.1,localhost",
        "PGHOSTADDR": "127.0.0.1,127.0.0.1",
        "PGPORT": f"{nobody},{target.ports}",
        "PGUSER": target.user,
        "PGDATABASE": target.database,
        "PGSSLMODE": "disable",
        "PGPASSFILE": str(file),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


def test_the_password_file_is_looked_up_for_each_of_several_hosts(
    of_file: dict[str, str], engine: Engine
) -> None:
    target = resolve().target
    assert target.password is None
    passwords = [password.get_secret_value() for password in target.host_passwords.values()]
    assert [password == "of the first" for password in passwords] == [True, False]
    with connect(target, verb="test") as connection:
        at_one = pinned(target, connection)
    assert scalar(at_one, "SELECT 1") == 1
    for asked in (target, at_one):
        job = load_job(at_one, "SELECT 1;", transactions=TRANSACTIONS)
        job = job.model_copy(update={"target": engine_target(asked, "test")})
        assert "of the first" not in str(job.without_secrets())
        end = engine(job)
        assert (end.exit_code, end.summary.counts.completed) == (0, 2 * TRANSACTIONS)
    assert of_file["PGPASSFILE"] not in str(target.as_document())


def test_the_drop_in_looks_the_password_file_up_for_each_host_too(
    of_file: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    said = subprocess.run(
        [engine_path(), "pgbench", "-n", "-f", script, "-t", "5"],
        env={**os.environ, **of_file},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "processed: 5/5" in said.stdout
