"""A standby of a scratch cluster: made with pg_basebackup, it follows its primary by streaming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError
from pgdyno.process import signals
from pgdyno.process.child import UserIds, run
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.postmaster import server_environment

_BACKUP_TIMEOUT_S = 300.0
_FOLLOWING_TIMEOUT_NS = 60_000_000_000
_POLL_S = 0.02
# The primary may restart; PostgreSQL's own pause of 5 s would be part of the next run.
_SETTINGS = {"wal_retrieve_retry_interval": "100ms"}


def standby_of(primary: ScratchCluster, request: ScratchRequest) -> ScratchCluster:
    """Make and start a standby of a running primary.

    Args: request, where it lies and what its settings are; it is filled from the primary.
    Raises: ServerError with the words of pg_basebackup or of the server.
    """

    def fill(data_dir: Path, user: UserIds) -> None:
        place = primary.target
        program = primary.binaries.program("pg_basebackup")
        argv: list[str | Path] = [program, "-h", place.host, "-p", place.ports, "-U", place.user]
        argv += ["-D", data_dir, "-R", "-c", "fast", "-X", "stream"]
        environment = server_environment(user)
        done = run(argv, user=user, env=environment, cwd="/", timeout_s=_BACKUP_TIMEOUT_S)
        if done.returncode != 0:
            raise ServerError(
                f"pg_basebackup failed: {done.stderr.strip()[:300]}.",
                hint="check that wal_level is replica and max_wal_senders is at least 2",
            )

    settings = {**_SETTINGS, **request.settings}
    # After a failover it is a primary without a standby, so it waits for none.
    settings.pop("synchronous_standby_names", None)
    return ScratchCluster.create(replace(request, settings=settings, fill=fill))


def await_following(primary: ScratchCluster, *, is_synchronous: bool) -> None:
    """Wait until the standby has received all WAL, and is synchronous if it shall be.

    Raises: ServerError after a minute.
    """
    if is_synchronous:
        primary.apply({**primary.settings, "synchronous_standby_names": "*"})
    wanted = "sync_state = 'sync'" if is_synchronous else "true"
    query = (
        "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
        f" AND flush_lsn >= pg_current_wal_flush_lsn() AND {wanted}"
    )
    deadline_ns = monotonic_ns() + _FOLLOWING_TIMEOUT_NS
    with primary.connect(verb="standby") as connection:
        while connection.execute(query.encode()).fetchone() is None:
            if monotonic_ns() > deadline_ns:
                raise ServerError(
                    "The standby did not follow its primary within 60 s.",
                    hint="check that no setting of the variant turns replication off, such as"
                    " wal_level = minimal or max_wal_senders = 0",
                )
            signals.sleep(_POLL_S)
