"""A failover of the user's own two servers: the user's commands crash, promote and repair them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError, SpecError
from pgdyno.features.crash.failover import FailoverPair, failover_once
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.own_server import sessions_of
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import OwnServer
from pgdyno.features.crash.work import CrashSetup
from pgdyno.process import signals
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

_POLL_S = 0.1
# Without the right to see the state of a standby it is NULL.
_STREAMING = "SELECT 1 FROM pg_stat_replication WHERE coalesce(state, 'streaming') = 'streaming'"
_SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"


@dataclass(frozen=True, slots=True)
class Roles:
    """Which of two servers is the primary now, and whether commits wait for the other."""

    primary: Target
    standby: Target
    is_synchronous: bool


def clients_of(target: Target) -> Target:
    """Return the target of clients, who go to the server that takes writes."""
    return replace(target, parameters={**target.parameters, "target_session_attrs": "read-write"})


def refuse_no_pair(target: Target) -> None:
    """Raise SpecError if the target does not name two servers."""
    if (count := len(target.hosts())) != 2:
        raise SpecError(
            f"--kind failover on servers of your own needs a primary and its standby, got {count} "
            f"server{'s' if count != 1 else ''}.",
            hint="name both, as in -h db1,db2",
        )


def await_roles(target: Target, timeout_s: float) -> Roles:
    """Wait until one server takes writes and the other follows it; return which is which.

    Raises: ServerError after `timeout_s`, with what is missing.
    """
    deadline_ns = monotonic_ns() + int(timeout_s * 1e9)
    while True:
        try:
            roles = _roles(target)
        except ServerError as error:
            roles = error.message
        if isinstance(roles, Roles):
            return roles
        if monotonic_ns() > deadline_ns:
            raise ServerError(
                f"{target.place} is not a primary with its standby: {roles.rstrip('.')}.",
                hint="--recover-command must make the failed server a standby again",
            )
        signals.sleep(_POLL_S)


def own_failover(
    bench: CrashSetup,
    planned: PlannedCrash,
    own: OwnServer,
    *,
    arm: str,
    asynchronous: bool,
) -> CrashRecord:
    """Let the present primary crash once, and repair the pair if there is a command for it.

    Without its `promote_command`, this waits until the user's own tool has promoted the standby.
    Raises: ServerError if the servers are no pair, or a command failed.
    """
    roles = await_roles(own.target, bench.request.recovery_timeout_s)
    primary, standby = roles.primary, roles.standby
    clients = clients_of(own.target)
    names = {"PGPRIMARY": primary.place, "PGSTANDBY": standby.place}

    def promote() -> None:
        if own.promote_command:
            own.run("promote_command", standby, names)

    pair = FailoverPair(
        clients=sessions_of(clients, primary, asynchronous=asynchronous),
        primary=primary,
        standby=standby,
        crash=partial(own.run, "crash_command", primary, names),
        promote=promote,
        is_sudden=False,
    )
    record = failover_once(bench, planned, pair, arm=arm)
    if own.recover_command:
        own.run("recover_command", primary, names)
    return record


def _roles(target: Target) -> Roles | str:
    """Return which server is which, or what is missing."""
    primaries: list[Target] = []
    standbys: list[Target] = []
    has_standby = is_synchronous = False
    for host, address, port in target.hosts():
        parameters = {**target.parameters}
        parameters.pop("target_session_attrs", None)
        server = replace(target, host=host, hostaddr=address, ports=port, parameters=parameters)
        with connect(server, verb="crash") as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            if row is not None and row[0]:
                standbys.append(server)
                continue
            primaries.append(server)
            has_standby = connection.execute(_STREAMING).fetchone() is not None
            is_synchronous = connection.execute(_SYNCHRONOUS).fetchone() is not None
    if len(primaries) != 1:
        return f"{len(primaries) or 'none'} of the two servers takes writes"
    if not has_standby:
        return f"no standby follows {primaries[0].place}"
    return Roles(primaries[0], standbys[0], is_synchronous)
