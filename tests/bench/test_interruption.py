"""Ctrl-C at a bench: said, with its exit code, and nothing remains of what was started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bench.yardsticks import NullServer, program_path
from tests.fixtures import needs
from tests.fixtures.command import eventually

from bench import processes
from pgdyno.errors import InterruptedByUser
from pgdyno.process import signals

ROOT = Path(__file__).resolve().parents[2]


def test_a_null_server_that_somebody_killed_leaves_no_folder() -> None:
    with NullServer() as server:
        os.kill(server.pid, signal.SIGKILL)
        folder = server.folder
        assert folder.exists()
    assert not folder.exists()


def test_a_null_server_that_cannot_start_leaves_no_folder() -> None:
    server = NullServer(["--no-such-option"])
    with pytest.raises(ValueError, match="Expecting value"):
        server.__enter__()
    assert not server.folder.exists()


def test_a_measured_program_ends_with_the_wait_for_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = ["sh", "-c", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 600"]

    def interrupt_when_begun() -> None:
        eventually(pid_file.exists)
        os.kill(os.getpid(), signal.SIGINT)

    with signals.handled():
        thread = threading.Thread(target=interrupt_when_begun)
        thread.start()
        with pytest.raises(InterruptedByUser):
            processes.run(program, timeout_s=300)
        thread.join()
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


def socket_of_bare_loop(parent: int) -> Path | None:
    """Return the socket that a child of this process is a bare loop on."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_text().split("\0")
            if int(fields[1]) == parent and words[0].endswith("pgdyno-bare-loop"):
                return Path(words[1])
    return None


@pytest.mark.pg
@needs.POSTGRESQL_15
def test_ctrl_c_is_a_sentence_an_exit_code_and_no_leftovers(house: Path) -> None:
    program_path("pgdyno-bare-loop")
    on_disk = house / "bench"
    on_disk.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "bench", "--quick", "--scale", "1", "bare-loop"],
        cwd=ROOT,
        env={**os.environ, "PGDYNO_DATA": str(on_disk)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as bench:
        socket = eventually(
            lambda: socket_of_bare_loop(bench.pid), unless=lambda: bench.poll() is not None
        )
        os.killpg(bench.pid, signal.SIGINT)
        _, said = bench.communicate(timeout=120)
    assert bench.returncode == 130, said
    assert "Interrupted by SIGINT.\nhint: nothing was kept\n" in said
    assert "Traceback" not in said
    assert not socket.parent.exists()
