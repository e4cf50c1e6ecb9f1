"""How to reach the server's host and a pooler's console, from the user's options."""

from __future__ import annotations

from pgdyno.errors import SpecError
from pgdyno.observe.observer import ObservedPooler
from pgdyno.observe.remote.host_session import shell_command, ssh_command
from pgdyno.server.connect import Connection, connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.target import Target


def command_to_host(*, ssh: str | None, host_shell: str | None) -> tuple[str, ...] | None:
    """Return the command that runs a shell on the server's host, or None if none was named.

    Raises: SpecError for an invalid command, or for two commands.
    """
    if ssh is not None and host_shell is not None:
        raise SpecError(
            "--ssh and --host-shell both name a way to the host.", hint="use one of the two"
        )
    if ssh is not None:
        return ssh_command(ssh)
    return None if host_shell is None else shell_command(host_shell)


def way_unused(option: str) -> str:
    """Return the note about an unnecessary option: the server's host is this host."""
    return f"{option} is ignored: the server is on this host, which pgdyno reads directly"


def console_of(pooler: str | None) -> Target | None:
    """Return the console of the user's own pooler: the database pgbouncer, unless another is named.

    Raises: SpecError for a connection string that cannot be read.
    """
    if pooler is None:
        return None
    target = resolve(conninfo=pooler).target
    return target if "pgbouncer" in pooler else target.with_database("pgbouncer")


def observed_pooler(console: Target, run: str) -> ObservedPooler:
    """Return the console as an observer needs it."""

    def open_one() -> Connection:
        return connect(console, verb="observe", run=run, console=True)

    return ObservedPooler(
        open_one, port=int(console.ports.split(",")[0]), is_local=is_here(console)
    )


def is_here(console: Target) -> bool:
    """Return whether the pooler is on this host, so that its processes are visible."""
    return console.is_loopback
