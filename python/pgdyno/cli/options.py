"""Options shared by the verbs: pgbench's and psql's letters mean here what they mean there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pgdyno.cli import speak
from pgdyno.errors import StoreError
from pgdyno.observe.remote.host_session import collector_script

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]


def connection(command: Command) -> Command:
    """Add psql's connection options and one positional conninfo."""
    return _apply(
        command,
        click.argument("conninfo", required=False),
        click.option("-h", "--host", help="Host or socket folder of the server under test."),
        click.option("-p", "--port", help="Port."),
        click.option("-U", "--user", "--username", help="User to connect as."),
        click.option("-d", "--database", "--dbname", help="Database, or a whole conninfo."),
        password_command,
    )


def password_command(command: Command) -> Command:
    """Add --password-command, for verbs that connect."""
    return click.option(
        "--password-command", metavar="CMD", help="Prints the password, when one is needed."
    )(command)


def connections(command: Command) -> Command:
    """Add how the load connects."""
    return _apply(
        command,
        click.option("--idle", type=click.IntRange(0, 1_000_000), help="Idle connections beside."),
        click.option("--active", type=click.IntRange(min=1), help="Connections clients share."),
        click.option("--connect-rate", type=float, help="New connections a second, at most."),
        click.option("-C", "--connect", is_flag=True, help="A connection for each transaction."),
    )


def scratch(command: Command) -> Command:
    """Add what a server of pgdyno's own can be made of."""
    return _apply(
        command,
        click.option("--scratch", is_flag=True, help="A server of its own (default: without -h)."),
        click.option("--pg-version", help="Major version of the scratch server, 14 to 18."),
        click.option("--pg-bin", type=_FOLDER, help="Folder of its binaries."),
        click.option("--data-dir", type=_PATH, help="Folder (disk) for its data."),
        click.option("--wal-dir", type=_PATH, help="Folder (disk) for its WAL."),
        click.option("--allow-tmpfs", is_flag=True, help="Memory may stand in for the disk."),
        click.option("--keep", is_flag=True, help="Keep the loaded cluster for the next command."),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Server setting."
        ),
    )


def dataset(command: Command) -> Command:
    """Add what the pgbench tables can be."""
    return _apply(
        command,
        click.option("-s", "--scale", type=click.IntRange(min=1), help="Scale factor."),
        click.option("-F", "--fillfactor", type=click.IntRange(10, 100), help="Fill factor."),
        click.option("--unlogged-tables", is_flag=True, help="Tables without WAL."),
        click.option("--foreign-keys", is_flag=True, help="Foreign keys between the tables."),
        click.option("--partitions", type=click.IntRange(min=0), default=0, help="Of accounts."),
        click.option(
            "--partition-method",
            type=click.Choice(["range", "hash"]),
            default="range",
            help="How accounts are partitioned.",
        ),
    )


def workload(command: Command) -> Command:
    """Add what the clients do, but not how many they are."""
    return _apply(
        command,
        click.option("-b", "--builtin", multiple=True, metavar="NAME[@W]", help="Built-in script."),
        click.option("-f", "--file", multiple=True, metavar="FILE[@W]", help="Script file."),
        click.option("-S", "--select-only", is_flag=True, help="As -b select-only."),
        click.option("-N", "--skip-some-updates", is_flag=True, help="As -b simple-update."),
        click.option(
            "-M",
            "--protocol",
            type=click.Choice(["simple", "extended", "prepared"]),
            default="simple",
            help="Query protocol.",
        ),
        click.option("-j", "--threads", "--jobs", type=click.IntRange(1, 1024), help="Threads."),
        click.option("-D", "--define", multiple=True, metavar="VAR=VALUE", help="Script variable."),
        click.option("--warmup", default="auto", help="Load before measuring, or auto."),
        click.option(
            "--reset",
            type=click.Choice(["none", "vacuum", "restore"]),
            default="vacuum",
            help="Before every run; restore copies the data anew.",
        ),
        click.option(
            "--cache",
            type=click.Choice(["warm", "prewarm", "cold"]),
            default="warm",
            help="After the reset; cold: a scratch server starts with nothing in memory.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=1, help="Of all randomness."),
        click.option("--allow-shell", is_flag=True, help="The scripts may run \\shell commands."),
        click.option("--allow-write", is_flag=True, help="The scripts may write on that server."),
        click.option("--confirm", metavar="DB@HOST", help="Yes, other sessions work there."),
    )


def rate(command: Command) -> Command:
    """Add the rate of an open loop."""
    return click.option(
        "-R",
        "--rate",
        metavar="RATE",
        help="Offer so many a second (open loop), or phases: 500:30s,500-4000:60s,200.",
    )(command)


def changing(command: Command) -> Command:
    """Add how settings of a server of the user's own may be changed."""
    return _apply(
        command,
        click.option("--admin", metavar="CONNINFO", help="The role that may change settings."),
        click.option("--apply-command", metavar="CMD", help="Gets settings as JSON on stdin."),
        click.option("--restart-command", metavar="CMD", help="Restarts the server."),
        click.option("--recover-command", metavar="CMD", help="Brings it back if it cannot start."),
        click.option(
            "--allow-risk",
            multiple=True,
            type=click.Choice(["durability"]),
            help="What a variant may weaken on that server.",
        ),
    )


def watching(command: Command) -> Command:
    """Add how a server elsewhere is watched: its host, and a pooler in the path."""
    return _apply(
        command,
        click.option("--observe", metavar="CONNINFO", help="Past a pooler, straight to it."),
        click.option(
            "--pooler", metavar="CONNINFO", help="The console of a PgBouncer in the path."
        ),
        host,
        click.option(
            "--host-file",
            "host_files",
            multiple=True,
            type=_PATH,
            help="Made there by hand: collector or CSV.",
        ),
    )


def host(command: Command) -> Command:
    """Add how the server's host is reached, where that is another one."""
    return _apply(
        command,
        click.option("--ssh", metavar="USER@HOST", help="The server's host; nothing is asked."),
        click.option(
            "--host-shell",
            metavar="CMD",
            help='As --ssh, through any command, such as "kubectl exec -i pod --".',
        ),
        click.option(
            "--print-collector",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_collector,
            help="The script that runs on the server's host, and exit.",
        ),
    )


def gates(command: Command) -> Command:
    """Add conditions on the answer, and what is asked without measuring."""
    return _apply(
        command,
        click.option("--check", multiple=True, metavar="COND", help="Exit 4 unless, as p99<20ms."),
        click.option("--abort-if", multiple=True, metavar="COND", help="A brake, as p99>2s."),
        click.option("--print-spec", is_flag=True, help="Print the spec file of this, and exit."),
        click.option("--dry-run", is_flag=True, help="Print the plan, and exit."),
    )


def output(command: Command) -> Command:
    """Add where results go and how they are said."""
    return _apply(
        command,
        click.option("--store", type=_PATH, help="Results folder (default: pgdyno-runs)."),
        click.option("--name", help="Name of the result."),
        json_option,
        click.option("-q", "--quiet", is_flag=True, help="Nothing on standard error."),
    )


def json_option(command: Command) -> Command:
    """Add --json [FILE]."""
    return click.option(
        "--json",
        "json_to",
        is_flag=False,
        flag_value="-",
        metavar="[FILE]",
        callback=_writable,
        help="JSON instead of text; with FILE, beside it.",
    )(command)


def store_option(command: Command) -> Command:
    """Add --store alone, for verbs that only read results."""
    return click.option("--store", type=_PATH, help="Results folder (default: pgdyno-runs).")(
        command
    )


_PATH = click.Path(path_type=Path)
_FOLDER = click.Path(path_type=Path, file_okay=False)


def _apply(command: Command, *decorators: Callable[[Any], Any]) -> Command:
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def write(text: str, document: str, json_to: str | None) -> None:
    """Print the text or the document, or the text and the document to its file."""
    if json_to == "-":
        speak.data(document)
        return
    speak.data(text)
    if json_to is not None:
        write_file(Path(json_to), document + "\n")


def write_file(path: Path, content: str | bytes) -> None:
    """Write what was asked for into the file that was named.

    Raises: StoreError saying why it cannot be.
    """
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}.",
            hint="name another file; what was measured is kept: pgdyno show",
        ) from None


def _print_collector(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        speak.data(collector_script().rstrip())
        context.exit(0)


def _writable(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that could not be written before anything is measured for it."""
    if value is not None and value != "-":
        path = Path(value)
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.BadParameter(f"{value} cannot be written.")
    return value
