"""One crash of the user's own server by the user's command: a power switch, a cloud API, a kill.

The journal lies on this host, which must not crash with the server. pgdyno waits until the server
answers again, and checks every commit. `failover` crashes one of two servers in the same way.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psycopg
from psycopg import sql

from pgdyno.errors import RefusedError, ServerError
from pgdyno.features.crash.losses import SentCommit, acknowledged_count
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import OwnServer
from pgdyno.features.crash.scratch_crash import checked
from pgdyno.features.crash.work import CommittingClients, CrashSetup, connected
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset.inspection import schemas_of
from pgdyno.server.storage import mount_of
from pgdyno.server.target import Target

LEDGER = "pgdyno_ledger"
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "fuse.sshfs")


def sessions_of(target: Target, server: Target, *, asynchronous: bool) -> Target:
    """Return the target for the load's sessions, which search only the schema of the ledger.

    The ledger's statements are pgdyno's own, so no operator of a user shall take part in them.
    Args: server, which has the ledger now; asynchronous, commits do not wait for the disk.
    Limits: through a pooler they search the path of the database.
    """
    options = [target.options, "-c synchronous_commit=off" if asynchronous else ""]
    with connect(server, verb="crash") as connection:
        if not connection.is_pooled:
            schemas = map(sql.Identifier, schemas_of(connection, [LEDGER]))
            path = ",".join([*(schema.as_string(connection) for schema in schemas), "pg_temp"])
            options.append("-c search_path=" + re.sub(r"[\s\\]", r"\\\g<0>", path))
    return replace(target, options=" ".join(filter(None, options)))


def command_once(
    bench: CrashSetup, planned: PlannedCrash, server: OwnServer, *, arm: str, asynchronous: bool
) -> CrashRecord:
    """Let the user's server crash once, and return what was seen.

    Args: asynchronous, whether the sessions of the load have synchronous_commit = off.
    Raises: ServerError if a command failed, or the server did not restart.
    """
    target = server.target
    sessions = sessions_of(target, target, asynchronous=asynchronous)
    started_at = _started_at(target)
    with CommittingClients(bench, planned, target, arm=arm, sessions=sessions) as work:
        work.until_end_of_load()
        hit = work.until_moment()
        command_ns = bench.clock.now_ns()
        server.run("crash_command")
        work.stop()
        stopped_ns = bench.clock.now_ns()
    commits = work.commits()
    crashed_ns = silent_from_ns(commits, command_ns, stopped_ns)
    record = work.record(
        hit=hit,
        acknowledged=acknowledged_count(commits),
        restart_ns=max(0, bench.clock.now_ns() - crashed_ns),
    )
    if server.recover_command:
        server.run("recover_command")
    try:
        connection = connected(target, timeout_s=bench.request.recovery_timeout_s)
    except ServerError as error:
        words = " ".join(error.message.split())
        return replace(record, recovery_error=words, lost=record.acknowledged)
    with connection:
        answered_ns = bench.clock.now_ns() - crashed_ns
        if _started(connection) == started_at:
            raise ServerError(
                "--crash-command ended, but the server did not crash: it has not restarted.",
                hint="the command must end only after the server has crashed",
            )
        record = replace(record, answered_ns=answered_ns)
        return checked(bench, record, connection, commits, crashed_ns=crashed_ns)


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


def silent_from_ns(commits: list[SentCommit], command_ns: int, stopped_ns: int) -> int:
    """Return the begin of the longest time without an answer, from the command on.

    Nobody knows better when the server crashed. It may be back before the command ends.
    """
    answers = sorted(commit.acknowledged_ns or 0 for commit in commits)
    instants = [command_ns, *(at for at in answers if command_ns < at < stopped_ns), stopped_ns]
    return max(pairwise(instants), key=lambda gap: gap[1] - gap[0])[0]
