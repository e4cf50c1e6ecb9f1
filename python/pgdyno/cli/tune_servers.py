"""The user's own servers in a tuning: equal servers, their rights, applying the settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgdyno.cli import output
from pgdyno.cli.from_options import Asked
from pgdyno.cli.headings import FOREIGN, under
from pgdyno.cli.measure import Measured
from pgdyno.cli.options import Command, apply
from pgdyno.errors import RefusedError, SpecError
from pgdyno.measure.changes import apply_for_good
from pgdyno.process import signals
from pgdyno.quantities import counted
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.system_settings import SystemSettings, not_alterable
from pgdyno.spec.experiment import OF_ONE_SERVER, EqualServer, Experiment, Server
from pgdyno.tune.catalogue import needs_of
from pgdyno.tune.design import Tune
from pgdyno.tune.findings import TuneFindings
from pgdyno.tune.space import Dimension


def also(command: Command) -> Command:
    """Add the options for further servers that are equal to the first."""
    option = under(FOREIGN)
    return apply(
        command,
        option(
            "--also",
            multiple=True,
            metavar="CONNINFO",
            help="A further server, equal to the first; the rounds are spread over all of them.",
        ),
        option(
            "--also-admin",
            multiple=True,
            metavar="CONNINFO",
            help="--admin of that server, once for each --also.",
        ),
        option(
            "--also-restart-command",
            multiple=True,
            metavar="CMD",
            help="--restart-command of that server, once for each --also.",
        ),
        option(
            "--at-once/--in-turn",
            default=None,
            help="Measure all servers at the same time, or one after another. Default: at the same"
            " time if each is on another host.",
        ),
    )


def equal_servers(asked: Asked, given: dict[str, Any]) -> tuple[EqualServer, ...]:
    """Return the servers of --also. Raises: SpecError if a server lacks an option of the first."""
    dsns, server = given["also"], asked.experiment.server
    if dsns and asked.resolved is None:
        raise SpecError(
            "--also names a further server of your own, but the command names no first one.",
            hint="name the first server with -h, -d or a conninfo",
        )
    if dsns and server.apply_command is not None:
        raise SpecError(
            "--apply-command does not know which of several servers it changes.",
            hint="use a spec file, with dsn and apply_command as lists",
        )
    of_one = [name for name in OF_ONE_SERVER if dsns and getattr(server, name)]
    if of_one:
        option = of_one[0].replace("_", "-").replace("files", "file")
        raise SpecError(
            f"--{option} belongs to one server, but --also names further ones.",
            hint=f"leave out --{option} or --also",
        )
    columns = {"admin": given["also_admin"], "restart_command": given["also_restart_command"]}
    for name, values in columns.items():
        wanted = len(dsns) if getattr(server, name) is not None else 0
        if len(values) != wanted:
            option = name.replace("_", "-")
            raise SpecError(
                f"--also-{option} is given {counted(len(values), 'time')}, but must be given"
                f" {counted(wanted, 'time')}: once for each --also if there is --{option}.",
                hint=f"--{option} VALUE --also CONNINFO --also-{option} VALUE",
            )
    return tuple(
        EqualServer(dsn=dsn, **{name: values[i] for name, values in columns.items() if values})
        for i, dsn in enumerate(dsns)
    )


def order_of(experiment: Experiment) -> str:
    """Return how several servers are measured, in words; "" for one server."""
    count = len(experiment.server.numbers)
    if count < 2:
        return ""
    if Tune(Tune(experiment).settled()).is_at_once:
        return f"servers  {count}, measured at the same time"
    why = "" if Tune(experiment).asked.at_once is False else ", because not each names another host"
    return f"servers  {count}, measured in turn{why}"


def refuse_without_rights(
    servers: Iterable[Server | EqualServer], space: tuple[Dimension, ...], *, is_applied: bool
) -> None:
    """Raise RefusedError for settings that the role of --admin may not change on a server."""
    for server in servers:
        _refuse_without_right(server, space, is_applied=is_applied)


def _refuse_without_right(
    server: Server | EqualServer, space: tuple[Dimension, ...], *, is_applied: bool
) -> None:
    if server.dsn is None or server.admin is None or server.apply_command is not None:
        return
    names = [
        dimension.name for dimension in space if is_applied or needs_of(dimension.rule) != "session"
    ]
    admin = resolve(conninfo=server.admin).target
    with connect(admin, verb="tune") as connection:
        missing = not_alterable(connection, names)
    if missing:
        raise RefusedError(
            f"{admin.user} may not change {', '.join(missing)} on {admin.place}.",
            hint=f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(missing)} TO {admin.user}"
            " (PostgreSQL 15 or later), or name another role with --admin",
        )


def apply_proved(asked: Asked, done: Measured) -> None:
    """Apply the proved settings permanently, with a journal, and print which need a restart."""
    tuned = done.findings.own if done.findings is not None else None
    if not isinstance(tuned, TuneFindings) or done.folder is None:
        return
    if tuned.verdict != "better":
        output.note("applied nothing: no settings were proved")
        return
    if done.ended_by is not None:
        output.note("applied nothing, because the tuning ended with an error")
        return
    assert asked.resolved is not None, "settings are applied to a server of the user's"
    wanted = {setting.name: setting.new for setting in tuned.settings}
    listed = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    lost = {server.number for server in tuned.servers if server.lost}
    for number, server in enumerate(asked.experiment.server.each, 1):
        if number in lost:
            output.note(f"applied nothing on server {number}, which was lost")
            continue
        signals.check()
        admin = resolve(conninfo=server.admin).target if server.admin else asked.resolved.target
        commands = (server.apply_command, server.restart_command, server.recover_command)
        restarts = bool(tuned.needs_restart) and server.restart_command is not None
        system = SystemSettings(admin, "tune", *commands)
        apply_for_good(done.folder, system, wanted, restarts=restarts)
        on = f" on server {number}" if tuned.servers else ""
        output.note(
            f"applied {listed}{on}; pgdyno undo {done.folder.number} restores the old values"
        )
        if tuned.needs_restart and not restarts:
            output.note(f"a restart is needed{on} for {', '.join(tuned.needs_restart)}")
