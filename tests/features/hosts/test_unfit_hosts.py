"""Load hosts that cannot take part: each is named before a load begins, with the reason."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.fixtures.command import Command, server_options
from tests.fixtures.needs import offered
from tests.fixtures.small_disks import file_system
from tests.fixtures.ssh import SshServer

from pgdyno.features.hosts.there.agent import claim
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg


def load_of(target: Target, folder: Path) -> tuple[str | Path, ...]:
    script = folder / "read.sql"
    script.write_text("SELECT 1;\n")
    return ("bench", *server_options(target), "-f", script, "-c", "1", "-T", "1s")


def test_a_host_without_room_for_the_engine_is_named(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    with file_system(tmp_path / "small", megabytes=1) as small:
        load = load_of(database15, tmp_path)
        said = pgdyno(*load, "--hosts", "local:1", env={"TMPDIR": str(small)})
        assert said.code in (1, 2), said.err
        assert "Load host local-1: the engine needs" in said.error
        assert f"MB in {small}: No space left on device" in " ".join(said.error.split())
        assert "set TMPDIR" in said.error
        assert list(small.iterdir()) == []


def test_another_processor_and_another_version_are_named(
    pgdyno: Command, database15: Target, ssh_server: SshServer, tmp_path: Path
) -> None:
    def error(python_line: str) -> str:
        python = tmp_path / "python3"
        python.write_text(f'#!/bin/sh\n{python_line} "$@"\n')
        python.chmod(0o755)
        ssh = " ".join(ssh_server.shell.split()[:-1])
        env = {"PGDYNO_SSH": ssh, "PGDYNO_HOSTS_PYTHON": str(python)}
        said = pgdyno(*load_of(database15, tmp_path), "--hosts", "dyno-a", env=env)
        assert said.code in (1, 2), said.err
        return " ".join(said.error.split())

    # The kernel tells this process, and no other, that the processor is another one.
    other = subprocess.run(["setarch", "linux32", "uname", "-m"], capture_output=True, check=False)
    offered(other.returncode == 0, "no other personality of the kernel")
    words = error(f"exec setarch linux32 {sys.executable}")
    assert f"Load host dyno-a is Linux {other.stdout.decode().strip()}, but this engine" in words

    (tmp_path / "sitecustomize.py").write_text(
        "import distributed\ndistributed.__version__ = '2020.1.0'\n"
    )
    words = error(f"PYTHONPATH={tmp_path} exec {sys.executable}")
    assert "it has distributed 2020.1.0 with Python" in words
    assert "install the same versions there" in words


def test_the_next_experiment_removes_what_a_killed_worker_has_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    agent = "pgdyno.features.hosts.there.agent"
    code = f"import os; from {agent} import claim; claim('a-1-0'); os.kill(0, 9)"
    subprocess.run([sys.executable, "-c", code], start_new_session=True, check=False)
    own = claim("a-2-0")
    assert sorted(path.name for path in own.parent.iterdir()) == ["a-1-0", "a-2-0"]
    with pytest.raises(FileExistsError):
        claim("a-1-0")
    next_one = claim("b-1-0")
    # The worker of a-2-0 lives: it is this process.
    assert sorted(path.name for path in next_one.parent.iterdir()) == ["a-2-0", "b-1-0"]
