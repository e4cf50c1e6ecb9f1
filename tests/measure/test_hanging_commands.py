"""A signal ends a command of the user that hangs, with all that it started; settings are back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.own_servers import MakeOwn, OwnServer, command_of

from pgdyno.process.processes import ProcessIdentity

pytestmark = pytest.mark.pg
ENTRIES = "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno%'"
QUICK = ("-T", "10s", "--warmup", "0s")


def hanging(folder: Path, *before: str) -> str:
    """Return a command that ignores signals, as does what it started; that would restart later."""
    later = f"sh -c 'trap \"\" TERM INT; sleep 600; touch {folder}/restarted'"
    lines = ("trap '' TERM INT", f"{later} &", f"echo $! > {folder}/pid.part")
    return command_of(
        folder / "hangs.sh", *lines, *before, f"mv {folder}/pid.part {folder}/pid", "wait"
    )


def ended_while_it_hangs(
    own: OwnServer,
    pgdyno: Command,
    folder: Path,
    number: signal.Signals,
    *words: str,
) -> str:
    """Signal a verb while its command hangs; return what it said after that nothing is left."""
    (folder / "reads.sql").write_text("SELECT 1;\n")
    before = run_sql(own.target, ENTRIES)
    verb, *rest = words
    load = ("-f", f"{folder}/reads.sql", *QUICK, "--admin", own.conninfo)
    running = pgdyno.start(verb, *server_options(own.target), *load, *rest)
    eventually(lambda: (folder / "pid").exists() or running.process.poll() is not None)
    assert running.process.poll() is None, running.wait()
    left = ProcessIdentity.of(int((folder / "pid").read_text()))
    assert left is not None
    running.signal(number)
    said = running.wait(30)
    assert said.code == 128 + number, said.err
    assert "Traceback" not in said.err
    assert not left.is_running()
    assert run_sql(own.target, ENTRIES) == before
    eventually(lambda: scalar(own.target, SESSIONS) == 0)
    assert "nothing to undo" in pgdyno("undo").out
    return " ".join(said.err.split())


def test_a_signal_ends_a_restart_that_hangs_and_nothing_restarts_later(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    restarts = ("--restart-command", hanging(tmp_path))
    compared = ("--variant", "a", "--variant", "b: shared_buffers=24MB")
    said = ended_while_it_hangs(
        own, pgdyno, tmp_path, signal.SIGINT, "compare", *restarts, *compared
    )
    assert f"waiting for the end of {' '.join(restarts)} (at most 3 s)" in said
    (tmp_path / "pid").unlink()
    tuned = ("--setting", "shared_buffers=24MB,32MB", "--budget", "10min")
    ended_while_it_hangs(own, pgdyno, tmp_path, signal.SIGTERM, "tune", *restarts, *tuned)
    assert scalar(own.target, "SHOW shared_buffers") == "32MB"


def test_a_signal_ends_an_apply_command_that_hangs(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    # It hangs once: the second call restores.
    hangs = hanging(tmp_path, f"test -e {tmp_path}/once && exit 0", f"touch {tmp_path}/once")
    words = ("--apply-command", hangs, "--variant", "a", "--variant", "b: checkpoint_timeout=9min")
    said = ended_while_it_hangs(own, pgdyno, tmp_path, signal.SIGTERM, "compare", *words)
    assert "waiting for the end of --apply-command" in said


def test_a_command_has_the_limit_of_its_option(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    hangs = hanging(tmp_path)
    (tmp_path / "reads.sql").write_text("SELECT 1;\n")
    said = pgdyno(
        *("compare", *server_options(own.target), "-f", tmp_path / "reads.sql", *QUICK),
        *("--admin", own.conninfo, "--restart-command", hangs, "--command-timeout", "2s"),
        *("--variant", "a: shared_buffers=24MB", "--variant", "b: shared_buffers=25MB"),
    )
    words = " ".join((said.out + said.err).split())
    assert f"--restart-command {hangs} did not end within 2 s" in words
    assert "--command-timeout" in words
    assert run_sql(own.target, ENTRIES) == []


@pytest.mark.parametrize("verb", ["compare --variant a --variant b", "tune", "run x.toml", "undo"])
def test_a_limit_of_zero_is_refused(verb: str, pgdyno: Command) -> None:
    said = pgdyno(*verb.split(), "--command-timeout", "0")
    assert said.code == 1
    assert "--command-timeout 0: the longest time of a command must be at least 1s" in " ".join(
        said.error.split()
    )
