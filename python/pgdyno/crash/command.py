"""One crash of the user's own server by the user's command: a power switch, a cloud API, a kill.

The journal lies on this host, which must not crash with the server. pgdyno waits until the server
answers again, and checks every commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.crash import checks
from pgdyno.crash.activity import Activity
from pgdyno.crash.load import LedgerLoad
from pgdyno.crash.losses import SentCommit
from pgdyno.crash.moments import PlannedCrash
from pgdyno.crash.record import CrashRecord
from pgdyno.crash.scratch_crash import Bench, checked
from pgdyno.errors import RefusedError, ServerError
from pgdyno.process import signals
from pgdyno.server.connect import Connection, connect
from pgdyno.server.storage import mount_of
from pgdyno.server.target import Target
from pgdyno.server.user_command import COMMAND_TIMEOUT_S, run_command

_POLL_S = 0.1
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "fuse.sshfs")


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The user's server, and the commands that crash it and bring it back."""

    target: Target
    crash_command: str
    recover_command: str = ""
    command_timeout_s: float = COMMAND_TIMEOUT_S

    def run(self, option: str) -> None:
        """Run the command of an option, which finds the server in its environment."""
        run_command(
            getattr(self, option),
            option=f"--{option.replace('_', '-')}",
            timeout_s=self.command_timeout_s,
            env=self.target.environment(),
        )


def command_once(
    bench: Bench, planned: PlannedCrash, server: OwnServer, *, arm: str, asynchronous: bool
) -> CrashRecord:
    """Let the user's server crash once, and return what was seen.

    Args: asynchronous, whether the sessions of the load have synchronous_commit = off.
    Raises: ServerError if a command failed, or the server did not restart.
    """
    target = server.target
    off = f"{target.options} -c synchronous_commit=off".strip()
    journal = bench.journal(planned, arm)
    started_at = _started_at(target)
    activity = Activity(target, planned.phase)
    with LedgerLoad(
        replace(target, options=off) if asynchronous else target,
        journal,
        clients=bench.clients,
        seed=planned.seed,
        clock=bench.clock,
        outlasts_crashes=True,
    ) as load:
        load.await_begin()
        began_ns = monotonic_ns()
        activity.until(began_ns + planned.load_ns)
        hit = activity.until_running(planned.pause_ns) or planned.phase == "load"
        load_ns = monotonic_ns() - began_ns
        command_ns = bench.clock.now_ns()
        server.run("crash_command")
        load.stop()
        stopped_ns = bench.clock.now_ns()
    activity.close()
    commits = load.commits()
    journal.unlink(missing_ok=True)
    crashed_ns = _silent_from_ns(commits, command_ns, stopped_ns)
    record = bench.record(
        planned,
        arm,
        hit=hit,
        load_ns=load_ns,
        acknowledged=sum(commit.acknowledged_ns is not None for commit in commits),
        restart_ns=max(0, bench.clock.now_ns() - crashed_ns),
    )
    if server.recover_command:
        server.run("recover_command")
    return _recovered(bench, target, record, commits, crashed_ns, started_at)


def _recovered(
    bench: Bench,
    target: Target,
    record: CrashRecord,
    commits: list[SentCommit],
    crashed_ns: int,
    started_at: object,
) -> CrashRecord:
    """Wait until the server answers, and check it.

    Raises: ServerError if it is the same server process as before: nothing crashed.
    """
    deadline_ns = monotonic_ns() + int(bench.recovery_timeout_s * 1e9)
    while True:
        try:
            connection = connect(target, verb="crash")
            break
        except ServerError as error:
            if monotonic_ns() > deadline_ns:
                words = " ".join(error.message.split())
                return replace(record, recovery_error=words, lost=record.acknowledged)
        signals.sleep(_POLL_S)
    with connection:
        answered_ns = bench.clock.now_ns() - crashed_ns
        if _started(connection) == started_at:
            raise ServerError(
                "--crash-command ended, but the server did not crash: it has not restarted.",
                hint="the command must end only after the server has crashed",
            )
        record = replace(record, answered_ns=answered_ns)
        return checked(
            bench,
            record,
            connection,
            commits,
            crashed_ns=crashed_ns,
            recovered_xid=checks.next_xid(connection),
            data_dir=None,
        )


def refuse_unfit_place(connection: Connection, journal: Path) -> None:
    """Raise RefusedError if the crash would take the journal, or if the disk is not the server's.

    Only for a server on this host: the files of others cannot be seen.
    """
    try:
        row = connection.execute("SELECT current_setting('data_directory')").fetchone()
    except psycopg.Error:
        return  # This role may not read it.
    data = Path(str(row[0])) if row is not None else Path("/nowhere")
    place, kept = mount_of(data), mount_of(journal)
    if not data.exists() or place is None or kept is None:
        return
    if place.file_system.startswith(_NETWORK_FILE_SYSTEMS):
        raise RefusedError(
            f"{data} is on a network file system ({place.file_system}): a crash of this host does "
            "not show what its disk loses.",
            hint="let the host of the disk crash, with the journal on another host",
        )
    if place.device_number == kept.device_number:
        raise RefusedError(
            f"The journal in {journal} would be on the disk that crashes with {data}.",
            hint="name a folder on another disk with --store, or run pgdyno on another host",
        )


def _started_at(target: Target) -> object:
    with connect(target, verb="crash") as connection:
        return _started(connection)


def _started(connection: Connection) -> object:
    row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
    return row[0] if row is not None else None


def _silent_from_ns(commits: list[SentCommit], command_ns: int, stopped_ns: int) -> int:
    """Return the begin of the longest time without an answer, from the command on.

    Nobody knows better when the server crashed. It may be back before the command ends.
    """
    answers = sorted(commit.acknowledged_ns or 0 for commit in commits)
    instants = [command_ns, *(at for at in answers if command_ns < at < stopped_ns), stopped_ns]
    return max(pairwise(instants), key=lambda gap: gap[1] - gap[0])[0]
