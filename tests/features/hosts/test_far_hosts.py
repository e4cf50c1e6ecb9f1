"""Load hosts by ssh, and the workers of a Dask cluster that is there: real sshd, real scheduler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from tests.fixtures.command import Command, Said, eventually, server_options
from tests.fixtures.needs import when_offered
from tests.fixtures.ports import port_of, reserved_port
from tests.fixtures.ssh import SshServer

from pgdyno.features.hosts.certificates import Identity, identities
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

# Dask asks the installed packages for their versions.
OLD_VERSION = """from importlib import metadata
known = metadata.version
metadata.version = lambda name: "2020.1.0" if name == "distributed" else known(name)
"""


def bench(pgdyno: Command, target: Target, hosts: str, env: dict[str, str]) -> Said:
    """Run a short load of four clients on `hosts`."""
    script = pgdyno.store.parent / "read.sql"
    script.write_text("SELECT 1;\n")
    options = ("-f", script, "-c", "4", "-t", "50", "--warmup", "0", "--reset", "none", "--json")
    return pgdyno("bench", *server_options(target), *options, "--hosts", hosts, env=env)


def by_ssh(ssh_server: SshServer) -> dict[str, str]:
    words = ssh_server.shell.split()
    return {"PGDYNO_SSH": " ".join(words[:-1]), "PGDYNO_HOSTS_PYTHON": sys.executable}


def test_hosts_by_ssh_make_one_load_and_leave_nothing(
    pgdyno: Command, database15: Target, ssh_server: SshServer
) -> None:
    said = bench(pgdyno, database15, "dyno-a,dyno-b", by_ssh(ssh_server))
    assert said.code in (0, 3), said.err
    hosts = said.document["hosts"]
    assert [host["name"] for host in hosts] == ["dyno-a", "dyno-b"]
    assert [host["transactions"] for host in hosts] == [100, 100]
    assert [host["lost"] for host in hosts] == [None, None]
    assert eventually(lambda: not _workers())


def test_ssh_that_asks_and_a_python_without_dask_are_named(
    pgdyno: Command, database15: Target, ssh_server: SshServer
) -> None:
    env = by_ssh(ssh_server)
    keyless = f"ssh -F /dev/null -o HostName=127.0.0.1 -o Port={ssh_server.port}"
    keyless += " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    keyless += " -o IdentityFile=/dev/null -o IdentitiesOnly=yes"
    said = bench(pgdyno, database15, "dyno-a", env | {"PGDYNO_SSH": keyless})
    assert said.code == 2
    assert "Permission denied" in said.error
    said = bench(pgdyno, database15, "dyno-a", env | {"PGDYNO_HOSTS_PYTHON": "/no/python3"})
    assert said.code == 2
    assert "Load host dyno-a did not start a worker" in said.error
    assert "/no/python3" in said.error
    said = bench(pgdyno, database15, "nobody.invalid", env | {"PGDYNO_SSH": "ssh -F /dev/null"})
    assert said.code == 2
    assert "Could not resolve hostname" in said.error
    assert "ssh -o BatchMode=yes nobody.invalid true" in said.error


def _has_time_namespaces() -> bool:
    words = ["unshare", "--time", "--fork", "--monotonic=2", "true"]
    return shutil.which("unshare") is not None and not subprocess.run(words).returncode


@when_offered(_has_time_namespaces(), "no time namespaces for this user")
@pytest.mark.parametrize("ahead_s", [2, -2])
def test_a_clock_two_seconds_off_changes_no_figure_and_is_reported(
    pgdyno: Command, database15: Target, ssh_server: SshServer, tmp_path: Path, ahead_s: int
) -> None:
    # The kernel gives worker and engine another CLOCK_MONOTONIC.
    python = tmp_path / "python3"
    shift = f"unshare --time --fork --monotonic={ahead_s} --boottime={ahead_s}"
    python.write_text(f'#!/bin/sh\nexec {shift} {sys.executable} "$@"\n')
    python.chmod(0o755)
    env = by_ssh(ssh_server) | {"PGDYNO_HOSTS_PYTHON": str(python)}
    said = bench(pgdyno, database15, "dyno-a", env)
    assert said.code in (0, 3), said.err
    (host,) = said.document["hosts"]
    assert abs(host["clock_offset_ms"] - ahead_s * 1000) <= host["clock_error_ms"]
    assert host["clock_error_ms"] < 100
    # A start by the wrong clock would be 2 s late, or not wait.
    assert 0 <= host["start_skew_ms"] < 1000
    assert said.document["transactions"] == host["transactions"] == 200
    assert 0 < said.document["duration_seconds"] < 1.9
    assert 0 < said.document["latency_ms"]["mean"]["value"] < 1000


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster with TLS; `environment` names the certificate of a client."""

    address: str
    environment: dict[str, str]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and two workers, started as Dask's own tools start them."""
    with _started_cluster(tmp_path, {}) as started:
        yield started


@contextmanager
def _started_cluster(folder: Path, env_of_workers: dict[str, str]) -> Iterator[Cluster]:
    made = identities(("of a worker",))
    ca = folder / "ca.pem"
    ca.write_text(made.authority)
    own, of_worker = (
        _files(folder / name, identity)
        for name, identity in (("own", made.own), ("worker", made.hosts[0]))
    )
    with ExitStack() as stack:
        holder = stack.enter_context(reserved_port())
        address = f"tls://127.0.0.1:{port_of(holder)}"

        def start(tool: str, files: tuple[str, str], *options: str, **env: str) -> None:
            tls = ("--tls-ca-file", str(ca), "--tls-cert", files[0], "--tls-key", files[1])
            words = [sys.executable, "-m", f"distributed.cli.dask_{tool}", *options, *tls]
            log = stack.enter_context((folder / f"{tool}.log").open("ab"))
            # They are killed, and would leave their files in the folder of the system.
            env = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(folder), **env}
            process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env=env)
            stack.callback(process.wait)
            stack.callback(process.kill)

        port = str(port_of(holder))
        quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        start("scheduler", own, "--host", address, "--port", port, *quiet)
        for name in ("one", "two"):
            worker = ("--name", name, "--nthreads", "1", "--no-nanny", "--resources", "PGDYNO=1")
            where = (address, "--host", "127.0.0.1")
            start("worker", of_worker, *where, *worker, *quiet, **env_of_workers)
        log = folder / "scheduler.log"
        eventually(lambda: log.read_bytes().count(b"Register worker") == 2)
        prefix = "DASK_DISTRIBUTED__COMM__TLS__"
        yield Cluster(
            address,
            {
                f"{prefix}CA_FILE": str(ca),
                f"{prefix}CLIENT__CERT": own[0],
                f"{prefix}CLIENT__KEY": own[1],
            },
        )


def test_workers_of_a_cluster_with_another_version_are_named_with_both_versions(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(OLD_VERSION)
    with _started_cluster(tmp_path, {"PYTHONPATH": str(tmp_path)}) as cluster:
        said = bench(pgdyno, database15, cluster.address, cluster.environment)
    assert said.code == 2, said.err
    words = " ".join(said.error.split())
    assert "Load host one has distributed 2020.1.0 with Python" in words
    assert f"and this host has distributed {metadata.version('distributed')} with" in words
    assert "install the same versions on all hosts" in words
    assert "Mismatch" not in said.err


def test_the_workers_of_a_cluster_make_a_load_and_stay(
    pgdyno: Command, database15: Target, cluster: Cluster, tmp_path: Path
) -> None:
    for _ in range(2):
        said = bench(pgdyno, database15, cluster.address, cluster.environment)
        assert said.code in (0, 3), said.err
        hosts = said.document["hosts"]
        assert [host["name"] for host in hosts] == ["one", "two"]
        assert [host["transactions"] for host in hosts] == [100, 100]
    other = identities(())
    files = _files(tmp_path / "other", other.own)
    prefix = "DASK_DISTRIBUTED__COMM__TLS__CLIENT__"
    foreign = {f"{prefix}CERT": files[0], f"{prefix}KEY": files[1]}
    said = bench(pgdyno, database15, cluster.address, cluster.environment | foreign)
    assert said.code == 2
    assert "cannot be used" in said.error
    assert "TLS__CA_FILE" in said.error


def test_a_scheduler_that_is_not_there_ends_the_command_without_warnings_of_dask(
    pgdyno: Command, database15: Target
) -> None:
    said = bench(pgdyno, database15, "tls://127.0.0.1:1", {"LC_ALL": "C.UTF-8"})
    assert said.code == 2
    assert "The Dask scheduler tls://127.0.0.1:1 cannot be used" in said.error
    assert "Warning" not in said.err


def _files(place: Path, identity: Identity) -> tuple[str, str]:
    certificate, key = place.with_suffix(".pem"), place.with_suffix(".key")
    certificate.write_text(identity.certificate)
    key.touch(mode=0o600)
    key.write_text(identity.key)
    return str(certificate), str(key)


def _workers() -> list[str]:
    """Return the workers that pgdyno started by ssh, and that still run."""
    names = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(sys.executable.encode()) and b"exec(start" in command:
                names.append(entry.name)
    return names
