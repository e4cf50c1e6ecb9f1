"""`pgdyno crash --kind command`: the user's own server, and the command that crashes it."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg
import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, Said, eventually, server_options
from tests.fixtures.tenant import refuse_traces, trapped

from pgdyno.errors import RefusedError
from pgdyno.features.crash.own_server import refuse_unfit_place
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.storage import Mount
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno%'"
COUNT = "SELECT count(*) FROM pgdyno_ledger"


def asks_for(flag: Path) -> str:
    """Return a command that ends when the test has done what its flag asks for."""
    return f"touch {flag}; while [ -e {flag} ]; do sleep 0.02; done"


def crash_own(
    pgdyno: Command,
    cluster: ScratchCluster,
    folder: Path,
    *given: str,
    crashes: bool = True,
    target: Target | None = None,
) -> Said:
    """Run the verb, and be the power switch of the server. Args: target, of another database."""
    switch, recovery = folder / "switch", folder / "recovery"
    commands = ("--crash-command", asks_for(switch), "--recover-command", asks_for(recovery))
    place = ("--kind", "command", "--store", str(folder / "store"))
    where = server_options(target or cluster.target)
    running = pgdyno.start("crash", *where, *place, *commands, *given)
    ended = running.process.poll
    while ended() is None:
        if switch.exists():
            if crashes:
                cluster.kill()
            switch.unlink()
        if recovery.exists():
            if crashes:
                cluster.start()
            recovery.unlink()
        eventually(lambda: switch.exists() or recovery.exists() or ended() is not None)
    return running.wait()


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_crash_of_the_own_server_is_checked_and_its_control_holds(
    version: str, pgdyno: Command, crashing: Make, elsewhere: Path
) -> None:
    needs.postgresql(version)
    cluster = crashing(version, settings={"fsync": "on", "full_page_writes": "on"})
    said = crash_own(pgdyno, cluster, elsewhere, "--crashes", "3", "--json")
    document = said.document
    assert (said.code, document["verdict"]) == (0, "nothing lost"), said.err
    [control] = document["controls"]
    assert (control["name"], control["holds"]) == ("synchronous_commit = off", True)
    assert (document["crashes"], document["lost"]) == (3, 0)
    assert document["acknowledged"] > 0
    assert scalar(cluster.target, COUNT) > document["acknowledged"]  # type: ignore[operator]
    assert document["target"].startswith("local")


@pytest.mark.parametrize("is_first", [True, False], ids=["namesakes", "better"])
@pytest.mark.parametrize("version", ["15", "18"])
def test_a_crash_calls_nothing_of_a_tenant(
    version: str, pgdyno: Command, crashing: Make, elsewhere: Path, is_first: bool
) -> None:
    needs.postgresql(version)
    cluster = crashing(version)

    def extension(target: Target) -> None:
        run_sql(target, "CREATE EXTENSION amcheck SCHEMA public")

    with trapped(cluster, is_first=is_first, prepared=extension) as trap:
        given = ("--crashes", "2", "--json", "--confirm", f"{trap.target.database}@local")
        said = crash_own(pgdyno, cluster, elsewhere, *given, target=trap.target)
        refuse_traces([trap], "crash")
        assert said.document["acknowledged"] > 0, said.err
        checks = {check["name"]: check for check in said.document["checks"]}
        assert checks["amcheck: tables"]["good"] == 2, checks


def test_a_command_that_crashes_nothing_is_an_error(
    pgdyno: Command, crashing: Make, elsewhere: Path
) -> None:
    cluster = crashing("15")
    given = ("--crashes", "1", "--no-controls")
    said = crash_own(pgdyno, cluster, elsewhere, *given, crashes=False)
    assert said.code == 2
    assert "the server did not crash: it has not restarted" in " ".join(said.error.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_crash_command_that_hangs(
    pgdyno: Command, crashing: Make, elsewhere: Path, number: signal.Signals
) -> None:
    cluster, pid = crashing("15"), elsewhere / "pid"
    hangs = f"sleep 600 & echo $! > {pid}.part; mv {pid}.part {pid}; wait"
    place = ("--kind", "command", "--store", str(elsewhere / "store"), "--no-controls")
    running = pgdyno.start(
        *("crash", *server_options(cluster.target), *place, "-c", "1"), "--crash-command", hangs
    )
    eventually(pid.exists, unless=lambda: running.process.poll() is not None)
    left = ProcessIdentity.of(int(pid.read_text()))
    assert left is not None
    running.signal(number)
    said = running.wait(30)
    assert said.code == 128 + number, said.err
    assert "waiting for the end of --crash-command" in " ".join(said.err.split())
    assert not left.is_running()
    eventually(lambda: scalar(cluster.target, SESSIONS) == 0)


def test_a_journal_on_the_disk_that_crashes_is_refused(
    pgdyno: Command, new_cluster: Make, house: Path
) -> None:
    cluster = new_cluster("15", data_dir=house)
    given = ("--kind", "command", "--crash-command", "true", "--store", str(house / "store"))
    said = pgdyno("crash", *server_options(cluster.target), *given)
    assert said.code == 1
    assert "would be on the disk that crashes with" in " ".join(said.error.split())


def test_a_data_directory_on_a_network_file_system_is_refused(
    pg15: ScratchCluster, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mount_of(path: Path) -> Mount:
        is_data = path == pg15.data_dir
        return Mount(path, "nfs4" if is_data else "ext4", "nas:/pg", f"0:{is_data:d}", "rw")

    monkeypatch.setattr("pgdyno.features.crash.own_server.mount_of", mount_of)
    with pg15.connect() as connection:
        with pytest.raises(RefusedError, match=r"is on a network file system \(nfs4\)") as seen:
            refuse_unfit_place(connection, elsewhere)
        assert "let the host of the disk crash" in seen.value.hint


def test_a_server_in_use_needs_a_confirmation(
    pgdyno: Command, crashing: Make, elsewhere: Path
) -> None:
    cluster = crashing("15")
    parameters = {**cluster.target.libpq_parameters(), "application_name": "shop"}
    with psycopg.connect(**parameters):  # type: ignore[arg-type]
        given = ("--kind", "command", "--crash-command", "true", "--store", str(elsewhere / "s"))
        said = pgdyno("crash", *server_options(cluster.target), *given)
    assert said.code == 1
    assert "Other sessions use postgres@" in " ".join(said.error.split())


def test_tables_of_others_are_never_replaced(
    pgdyno: Command, crashing: Make, elsewhere: Path
) -> None:
    cluster = crashing("15")
    run_sql(cluster.target, "CREATE TABLE pgdyno_ledger (mine int)")
    given = ("--kind", "command", "--crash-command", "true", "--store", str(elsewhere / "s"))
    said = pgdyno("crash", *server_options(cluster.target), *given)
    assert said.code == 1
    assert "has pgdyno_ledger, which pgdyno did not make" in " ".join(said.error.split())
