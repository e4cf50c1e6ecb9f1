"""A server of the user's own that a variant keeps from starting is brought back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command

from pgdyno.server.target import Target

ENTRIES = "SELECT count(*) FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
pytestmark = pytest.mark.pg


@dataclass(frozen=True)
class OwnServer:
    """A server that its owner starts and stops with pg_ctl."""

    target: Target
    data_dir: Path
    pg_ctl: str

    def script(self, path: Path, *lines: str) -> str:
        """Write a command of the owner's, return its path."""
        path.write_text("\n".join(["#!/bin/sh", "set -e", *lines]) + "\n")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def own(new_cluster: Make) -> Iterator[OwnServer]:
    cluster = new_cluster("15", listens_tcp=False)
    become = "" if cluster.user.is_current else (
        f"setpriv --reuid {cluster.user.name} --regid {cluster.user.gid} --clear-groups "
    )  # fmt: skip
    log = cluster.data_dir / "own.log"
    pg_ctl = (
        f"{become}{cluster.binaries.program('pg_ctl')} -s -w -t 60 -D {cluster.data_dir} -l {log}"
        f" -o --config-file={cluster.path / 'postgresql.conf'}"
    )
    cluster.stop()
    subprocess.run(f"{pg_ctl} start", shell=True, cwd="/", check=True, timeout=60)
    yield OwnServer(cluster.target, cluster.data_dir, pg_ctl)
    subprocess.run(f"{pg_ctl} stop -m immediate", shell=True, cwd="/", check=False, timeout=60)


def test_a_variant_that_keeps_the_server_down_is_left_out_and_the_others_go_on(
    own: OwnServer, pgdyno: Command, tmp_path: Path
) -> None:
    restart = own.script(tmp_path / "restart.sh", "cd /", f"{own.pg_ctl} restart -m fast >&2")
    recover = own.script(
        tmp_path / "recover.sh",
        f"cat > {tmp_path}/given.json",
        f": > {own.data_dir}/postgresql.auto.conf",
        "cd /",
        f"{own.pg_ctl} start >&2",
    )
    admin = f"host={own.target.host} port={own.target.ports} user={own.target.user} dbname=postgres"
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    said = pgdyno(
        "compare",
        *("-h", own.target.host, "-p", own.target.ports, "-U", own.target.user, "-d", "postgres"),
        *("-f", tmp_path / "one.sql", "-c", "1", "-T", "1s", "--warmup", "0s", "--budget", "1s"),
        *("--admin", admin, "--restart-command", restart, "--recover-command", recover),
        *("--variant", "as it is", "--variant", "never: shared_buffers=8000GB"),
        *("--variant", "fine: shared_buffers=24MB", "--json"),
    )
    by_name = {variant["name"]: variant for variant in said.document["variants"]}
    assert "brought back by the recover command" in by_name["never"]["cannot_start"], said.err
    assert (by_name["as it is"]["runs"], by_name["fine"]["runs"]) == (1, 1)
    assert json.loads((tmp_path / "given.json").read_text()) == {"shared_buffers": None}
    assert scalar(own.target, ENTRIES) == 0
    assert run_sql(own.target, "SHOW shared_buffers") == [("32MB",)]
