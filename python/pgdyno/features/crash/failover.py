"""One failover: a primary with a standby crashes under load, and the standby takes over.

The clients follow with `target_session_attrs`. What they lose is the recovery point (RPO), how long
they wait is the recovery time (RTO).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.features.crash import checks
from pgdyno.features.crash.losses import acknowledged_count
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.own_server import silent_from_ns
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import Replication
from pgdyno.features.crash.scratch_crash import ScratchBench, checked, copied, with_stopped_checks
from pgdyno.features.crash.work import CommittingClients, CrashSetup, connected
from pgdyno.process import signals
from pgdyno.process.child import UserIds
from pgdyno.server.connect import Connection
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.scratch.standby import await_following, standby_of
from pgdyno.server.target import Target
from pgdyno.server.user_command import run_command

# A loss must be seen although the standby receives nearly everything at once.
_CUT_OFF_S = 0.3
# The clients work at the new primary so long.
_AFTERWARDS_S = 0.3
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class FailoverPair:
    """A primary and its standby, and how the one crashes and the other takes over.

    `clients`: both servers; a client goes to the one that takes writes. `promote` may return before
    the standby takes writes. `before_crash` is done under load. `data_dir`: of the standby, None if
    its files are out of reach. `is_sudden`: `crash` crashes the primary when it begins, and not
    within the time that it takes.
    """

    clients: Target
    primary: Target
    standby: Target
    crash: Callable[[], None]
    promote: Callable[[], None]
    before_crash: Callable[[], None] = lambda: None
    data_dir: Path | None = None
    is_sudden: bool = True


def failover_once(
    bench: CrashSetup, planned: PlannedCrash, pair: FailoverPair, *, arm: str
) -> CrashRecord:
    """Let the primary of a pair crash and its standby take over, and return what was seen.

    Raises: ServerError or EngineError if the load did not begin, or the user's command failed.
    """
    with CommittingClients(bench, planned, pair.primary, arm=arm, sessions=pair.clients) as work:
        work.until_end_of_load()
        pair.before_crash()
        hit = work.until_moment()
        crashed_ns = bench.clock.now_ns()
        pair.crash()
        restart_ns = bench.clock.now_ns() - crashed_ns
        record = work.record(hit=hit, restart_ns=restart_ns)
        record, next_xid = _promoted(bench, pair, record, crashed_ns)
        promoted_ns = bench.clock.now_ns()
        if not record.recovery_error:
            signals.sleep(_AFTERWARDS_S)
        stopped_ns = bench.clock.now_ns()
        work.stop()
    gap_ns = work.longest_gap_ns(crashed_ns, stopped_ns)
    commits = work.commits()
    record = replace(record, acknowledged=acknowledged_count(commits), longest_gap_ns=gap_ns)
    if record.recovery_error:
        return replace(record, lost=record.acknowledged)
    if not pair.is_sudden:
        crashed_ns = silent_from_ns(commits, crashed_ns, promoted_ns)
    with connected(pair.standby, timeout_s=bench.request.recovery_timeout_s) as connection:
        return checked(
            bench,
            record,
            connection,
            commits,
            crashed_ns=crashed_ns,
            recovered_xid=next_xid,
            data_dir=pair.data_dir,
        )


def _promoted(
    bench: CrashSetup, pair: FailoverPair, record: CrashRecord, crashed_ns: int
) -> tuple[CrashRecord, int]:
    """Promote the standby; return when it took over or why not, and its next transaction."""
    timeout_s = bench.request.recovery_timeout_s
    try:
        pair.promote()
        with connected(pair.standby, timeout_s=timeout_s, is_ready=_takes_writes) as connection:
            answered_ns = bench.clock.now_ns() - crashed_ns
            return replace(record, answered_ns=answered_ns), checks.next_xid(connection)
    except TimeoutError:
        words = f"the standby was not promoted within {timeout_s:g} s"
    except (PgdynoError, psycopg.Error) as error:
        words = " ".join(str(error).split())
    return replace(record, recovery_error=words), 0


def _takes_writes(connection: Connection) -> bool:
    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    return row is not None and not row[0]


def scratch_failover(
    bench: ScratchBench,
    planned: PlannedCrash,
    settings: Mapping[str, str],
    *,
    arm: str,
    replication: Replication,
    promote_command: str = "",
) -> CrashRecord:
    """Let a new primary crash and its new standby take over, and return what was seen.

    Args: replication, whether commits wait for the standby; "cut off" stops it before the crash.
    Raises: ServerError or EngineError if the pair or the load did not begin.
    """

    def fill(data_dir: Path, _user: UserIds) -> None:
        copied(bench.template, data_dir)

    request = bench.server(settings, fill)
    with ScratchCluster.create(request) as primary, standby_of(primary, request) as standby:
        await_following(primary, is_synchronous=replication == "synchronous")
        timeout_s = bench.request.recovery_timeout_s
        pair = FailoverPair(
            clients=both(primary.target, standby.target),
            primary=primary.target,
            standby=standby.target,
            crash=primary.kill,
            promote=partial(_promote, standby, promote_command, timeout_s),
            data_dir=standby.data_dir,
        )
        if replication == "cut off":
            pair = replace(pair, before_crash=partial(_cut_off, standby))
        record = failover_once(bench, planned, pair, arm=arm)
        if record.recovery_error:
            return record
        return with_stopped_checks(bench, standby, record, log_from=0)


def both(primary: Target, standby: Target) -> Target:
    """Return a target with both servers; clients go to the one that takes writes."""
    return replace(
        primary,
        host=f"{primary.host},{standby.host}",
        ports=f"{primary.ports},{standby.ports}",
        parameters={**primary.parameters, "target_session_attrs": "read-write"},
    )


def _promote(standby: ScratchCluster, command: str, timeout_s: float) -> None:
    if command:
        run_command(
            command,
            option="--promote-command",
            timeout_s=timeout_s,
            env={**standby.target.environment(), "PGDATA": str(standby.data_dir)},
        )
        return
    with standby.connect(verb="crash") as connection:
        connection.execute("SELECT pg_catalog.pg_promote(true, %s)", [int(timeout_s)])


def _cut_off(standby: ScratchCluster) -> None:
    """Let the standby receive no more WAL, and wait until commits are lost by a crash."""
    with standby.connect(verb="crash") as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_catalog.pg_reload_conf()")
        while connection.execute("SELECT 1 FROM pg_stat_wal_receiver").fetchone() is not None:
            signals.sleep(_POLL_S)
    signals.sleep(_CUT_OFF_S)
