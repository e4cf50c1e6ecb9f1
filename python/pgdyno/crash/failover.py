"""One failover: a primary with a standby crashes under load, and the standby takes over.

The clients follow with `target_session_attrs`. What they lose is the recovery point (RPO), how long
they wait is the recovery time (RTO).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.crash import checks
from pgdyno.crash.activity import Activity
from pgdyno.crash.load import LedgerLoad
from pgdyno.crash.moments import PlannedCrash
from pgdyno.crash.record import CrashRecord
from pgdyno.crash.scratch_crash import ScratchBench, checked, copied, with_stopped_checks
from pgdyno.errors import PgdynoError, ServerError
from pgdyno.process import signals
from pgdyno.process.child import UserIds, run
from pgdyno.server.postmaster import server_environment
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
from pgdyno.server.target import Target
from pgdyno.server.user_command import run_command

Replication = Literal["synchronous", "asynchronous", "cut off"]
_BACKUP_TIMEOUT_S = 300.0
_STREAMING_TIMEOUT_NS = 60_000_000_000
# A loss must be seen although the standby receives nearly everything at once.
_CUT_OFF_S = 0.3
# The clients work at the new primary so long.
_AFTERWARDS_S = 0.7
_POLL_S = 0.02


def failover_once(
    bench: ScratchBench,
    planned: PlannedCrash,
    settings: Mapping[str, str],
    *,
    arm: str,
    replication: Replication,
    promote_command: str = "",
) -> CrashRecord:
    """Let one primary crash and its standby take over, and return what was seen.

    Args: replication, whether commits wait for the standby; "cut off" stops it before the crash.
    Raises: ServerError or EngineError if the pair or the load did not begin.
    """
    with _primary(bench, settings) as primary, _standby(bench, primary, settings) as standby:
        _await_streaming(primary, is_synchronous=replication == "synchronous")
        pair = _Pair(primary, standby, replication, promote_command)
        return _course(bench, planned, pair, arm)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A primary, its standby, and how the standby takes over."""

    primary: ScratchCluster
    standby: ScratchCluster
    replication: Replication
    promote_command: str


def _course(bench: ScratchBench, planned: PlannedCrash, pair: _Pair, arm: str) -> CrashRecord:
    primary, standby = pair.primary, pair.standby
    journal = bench.journal(planned, arm)
    activity = Activity(primary.target, planned.phase)
    with LedgerLoad(
        _both(primary, standby),
        journal,
        clients=bench.clients,
        seed=planned.seed,
        clock=bench.clock,
        outlasts_crashes=True,
    ) as load:
        load.await_begin()
        began_ns = monotonic_ns()
        activity.until(began_ns + planned.load_ns)
        if pair.replication == "cut off":
            _cut_off(standby)
            signals.sleep(_CUT_OFF_S)
        hit = activity.until_running(planned.pause_ns) or planned.phase == "load"
        load_ns = monotonic_ns() - began_ns
        crashed_ns = bench.clock.now_ns()
        primary.kill()
        restart_ns = bench.clock.now_ns() - crashed_ns
        record = bench.record(planned, arm, hit=hit, load_ns=load_ns, restart_ns=restart_ns)
        record, next_xid = _promoted(bench, pair, record, crashed_ns)
        if not record.recovery_error:
            signals.sleep(_AFTERWARDS_S)
        stopped_ns = bench.clock.now_ns()
        load.stop()
    activity.close()
    commits = load.commits()
    acknowledged = sum(commit.acknowledged_ns is not None for commit in commits)
    gap_ns = load.longest_gap_ns(crashed_ns - load_ns, stopped_ns)
    record = replace(record, acknowledged=acknowledged, longest_gap_ns=gap_ns)
    journal.unlink(missing_ok=True)
    if record.recovery_error:
        return replace(record, lost=acknowledged)
    with standby.connect(verb="crash") as connection:
        record = checked(
            bench,
            record,
            connection,
            commits,
            crashed_ns=crashed_ns,
            recovered_xid=next_xid,
            data_dir=standby.data_dir,
        )
    return with_stopped_checks(bench, standby, record, log_from=0)


def _primary(bench: ScratchBench, settings: Mapping[str, str]) -> ScratchCluster:
    def fill(data_dir: Path, _user: UserIds) -> None:
        copied(bench.template, data_dir)

    return _cluster(bench, settings, fill)


def _cluster(bench: ScratchBench, settings: Mapping[str, str], fill: object) -> ScratchCluster:
    return ScratchCluster.create(
        ScratchRequest(
            bench.binaries,
            clients=bench.clients,
            settings=settings,
            data_dir=bench.data_dir,
            allow_tmpfs=bench.allow_tmpfs,
            fill=fill,  # type: ignore[arg-type]
        )
    )


def _standby(
    bench: ScratchBench, primary: ScratchCluster, settings: Mapping[str, str]
) -> ScratchCluster:
    def fill(data_dir: Path, user: UserIds) -> None:
        place = primary.target
        program = bench.binaries.program("pg_basebackup")
        argv: list[str | Path] = [program, "-h", place.host, "-p", place.ports, "-U", place.user]
        argv += ["-D", data_dir, "-R", "-c", "fast", "-X", "stream"]
        environment = server_environment(user)
        done = run(argv, user=user, env=environment, cwd="/", timeout_s=_BACKUP_TIMEOUT_S)
        if done.returncode != 0:
            raise ServerError(f"pg_basebackup failed: {done.stderr.strip()[:300]}.")

    # The new primary has no standby, so it waits for none.
    alone = {name: value for name, value in settings.items() if name != "synchronous_standby_names"}
    return _cluster(bench, alone, fill)


def _await_streaming(primary: ScratchCluster, *, is_synchronous: bool) -> None:
    """Wait until the standby receives the WAL, and is synchronous if it shall be.

    Raises: ServerError after a minute.
    """
    if is_synchronous:
        primary.apply({**primary.settings, "synchronous_standby_names": "*"})
    wanted = "sync_state = 'sync'" if is_synchronous else "true"
    query = f"SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND {wanted}"
    deadline_ns = monotonic_ns() + _STREAMING_TIMEOUT_NS
    with primary.connect(verb="crash") as connection:
        while connection.execute(query.encode()).fetchone() is None:
            if monotonic_ns() > deadline_ns:
                raise ServerError("The standby did not follow its primary within 60 s.")
            signals.sleep(_POLL_S)


def _both(primary: ScratchCluster, standby: ScratchCluster) -> Target:
    """Return both servers; clients go to the one that takes writes."""
    hosts = f"{primary.target.host},{standby.target.host}"
    ports = f"{primary.target.ports},{standby.target.ports}"
    attributes = {"target_session_attrs": "read-write"}
    return replace(primary.target, host=hosts, ports=ports, parameters=attributes)


def _cut_off(standby: ScratchCluster) -> None:
    with standby.connect(verb="crash") as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SELECT 1 FROM pg_stat_wal_receiver").fetchone() is not None:
            signals.sleep(_POLL_S)


def _promoted(
    bench: ScratchBench, pair: _Pair, record: CrashRecord, crashed_ns: int
) -> tuple[CrashRecord, int]:
    """Promote the standby; return when it took over or why not, and its next transaction."""
    standby, command, timeout_s = pair.standby, pair.promote_command, bench.recovery_timeout_s
    try:
        if command:
            run_command(
                command,
                option="--promote-command",
                timeout_s=timeout_s,
                env={**standby.target.environment(), "PGDATA": str(standby.data_dir)},
            )
        with standby.connect(verb="crash") as connection:
            if not command:
                connection.execute("SELECT pg_promote(true, %s)", [int(timeout_s)])
            deadline_ns = monotonic_ns() + int(timeout_s * 1e9)
            while _is_standby(connection):
                if monotonic_ns() > deadline_ns:
                    words = f"the standby was not promoted within {timeout_s:g} s"
                    return replace(record, recovery_error=words), 0
                signals.sleep(_POLL_S)
            answered_ns = bench.clock.now_ns() - crashed_ns
            return replace(record, answered_ns=answered_ns), checks.next_xid(connection)
    except (PgdynoError, psycopg.Error) as error:
        return replace(record, recovery_error=" ".join(str(error).split())), 0


def _is_standby(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    return row is not None and bool(row[0])
