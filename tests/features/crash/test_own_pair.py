"""`pgdyno crash --kind failover` on two servers of the user's own, with the user's commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.features.crash.test_own_server import asks_for
from tests.fixtures.clusters import Make
from tests.fixtures.command import Command, Said, eventually, server_options

from pgdyno.features.crash.failover import both
from pgdyno.process.child import run
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.postmaster import server_environment
from pgdyno.server.scratch.standby import await_following, standby_of

pytestmark = pytest.mark.pg
SETTINGS = {"fsync": "on", "full_page_writes": "on"}
CLIENTS = 20


class OwnPair:
    """Two servers of one user: it crashes one, promotes the other, and repairs the pair."""

    def __init__(self, primary: ScratchCluster) -> None:
        self.primary = primary
        request = ScratchRequest(
            primary.binaries,
            clients=CLIENTS,
            settings=primary.settings,
            data_dir=primary.path.parent,
            allow_tmpfs=True,
        )
        self.standby = standby_of(primary, request)
        await_following(primary, is_synchronous=True)
        self.hosts = both(primary.target, self.standby.target)

    def __enter__(self) -> OwnPair:
        return self

    def __exit__(self, *_: object) -> None:
        # The fixture removes the first primary.
        for server in (self.primary, self.standby):
            server.remove()

    def crash(self) -> None:
        self.primary.kill()

    def promote(self) -> None:
        with self.standby.connect() as connection:
            connection.execute("SELECT pg_promote()")

    def recover(self) -> None:
        """Make the failed primary the standby of the new one."""
        failed, primary = self.primary, self.standby
        for path in failed.data_dir.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        backup = [primary.binaries.program("pg_basebackup"), "-R", "-c", "fast"]
        place = ["-h", primary.target.host, "-p", primary.target.ports, "-U", "postgres"]
        environment = server_environment(failed.user)
        argv = [*backup, *place, "-D", failed.data_dir]
        made = run(argv, user=failed.user, env=environment, cwd="/", timeout_s=120)
        assert made.returncode == 0, made.stderr
        failed.restart(SETTINGS)  # As a primary without a standby it would wait for none.
        await_following(primary, is_synchronous=True)
        self.primary, self.standby = primary, failed


def fail_over(pgdyno: Command, pair: OwnPair, folder: Path, *given: str) -> Said:
    """Run the verb, and do what its commands ask for."""
    flags = {folder / name: getattr(pair, name) for name in ("crash", "promote", "recover")}
    commands: list[str] = []
    for flag in flags:
        if flag.name != "recover" or "--no-controls" not in given:
            commands += [f"--{flag.name}-command", asks_for(flag)]
    place = ("--kind", "failover", "--store", str(folder / "store"))
    running = pgdyno.start("crash", *server_options(pair.hosts), *place, *commands, *given)
    ended = running.process.poll
    while ended() is None:
        for flag, act in flags.items():
            if flag.exists():
                act()
                flag.unlink()
        eventually(lambda: any(flag.exists() for flag in flags) or ended() is not None)
    return running.wait()


def test_a_failover_of_the_own_servers_loses_nothing_and_its_control_holds(
    pgdyno: Command, crashing: Make, elsewhere: Path
) -> None:
    with OwnPair(crashing("15", clients=CLIENTS, settings=SETTINGS)) as pair:
        first = pair.primary
        said = fail_over(pgdyno, pair, elsewhere, "--crashes", "1", "--json")
        document = said.document
        assert (said.code, document["verdict"]) == (0, "nothing lost"), said.err
        [control] = document["controls"]
        assert (control["name"], control["holds"]) == ("synchronous_commit = off", True)
        assert (document["standby"], document["crashes"]) == ("synchronous", 1)
        assert document["gap_seconds_max"] > 0
        # Every failover swapped the roles: those of the control, and one more.
        assert (pair.primary is first) == (control["crashes"] % 2 == 1)
        # One failover needs no command that repairs the pair, but the next one then finds no pair.
        given = ("--crashes", "1", "--no-controls", "--json")
        said = fail_over(pgdyno, pair, elsewhere, *given)
        assert (said.code, said.document["verdict"]) == (0, "nothing lost"), said.err
        again = fail_over(pgdyno, pair, elsewhere, *given, "--recovery-timeout", "1s")
        assert again.code == 1
        assert "--recover-command must make the failed server a standby again" in again.error


def test_a_second_failover_needs_the_command_that_repairs_the_pair(pgdyno: Command) -> None:
    own = ("-h", "db1,db2", "--kind", "failover", "--crash-command", "true")
    said = pgdyno("crash", *own)
    assert said.code == 1
    assert "there is no --recover-command" in " ".join(said.error.split())
    alone = pgdyno("crash", "-h", "db1", *own[2:], "--recover-command", "true")
    assert alone.code == 1
    assert "needs a primary and its standby, got 1 server" in " ".join(alone.error.split())
