"""Options shared by the verbs: pgbench's and psql's letters mean here what they mean there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pgdyno.cli import output
from pgdyno.cli.headings import (
    ANSWER,
    FOREIGN,
    SCRATCH,
    SERVER,
    TABLES,
    WATCHED,
    Operand,
    under,
)
from pgdyno.errors import StoreError
from pgdyno.observe.remote.host_session import collector_script

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]


def connection(command: Command) -> Command:
    """Add psql's connection options and one positional conninfo."""
    option = under(SERVER)
    return apply(
        command,
        click.argument(
            "conninfo",
            required=False,
            cls=Operand,
            heading=SERVER,
            help="All of it in one: a URI, key=value pairs, service=NAME.",
        ),
        option(
            "-h", "--host", metavar="HOST", help="Host or socket folder of the server under test."
        ),
        option("-p", "--port", metavar="PORT", help="Port."),
        option("-U", "--user", "--username", metavar="USER", help="User to connect as."),
        option(
            "-d", "--database", "--dbname", metavar="NAME", help="Database, or a whole conninfo."
        ),
        password_command,
    )


def password_command(command: Command) -> Command:
    """Add --password-command, for verbs that connect."""
    return apply(
        command,
        under(SERVER)(
            "--password-command", metavar="CMD", help="Prints the password, when one is needed."
        ),
    )


def scratch(command: Command) -> Command:
    """Add what a server of pgdyno's own can be made of."""
    option = under(SCRATCH)
    return apply(
        command,
        option(
            "--scratch",
            is_flag=True,
            help="Make a server of its own (the default where none is named).",
        ),
        option("--pg-version", metavar="MAJOR", help="Its major version, 14 to 18."),
        option("--pg-bin", type=_FOLDER, help="Folder of its binaries."),
        option("--data-dir", type=_PATH, help="Folder (disk) for its data."),
        option("--wal-dir", type=_PATH, help="Folder (disk) for its WAL."),
        option("--allow-tmpfs", is_flag=True, help="Memory (tmpfs) may stand in for the disk."),
        option("--keep", is_flag=True, help="Keep the loaded cluster for the next command."),
        option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of it."),
    )


def dataset(command: Command) -> Command:
    """Add what the pgbench tables can be."""
    option = under(TABLES)
    return apply(
        command,
        option(
            "-s",
            "--scale",
            type=click.IntRange(min=1),
            help="Scale factor (init 1, else 10): 100,000 accounts, 15 MB each.",
        ),
        option("-F", "--fillfactor", type=click.IntRange(10, 100), help="Fill factor."),
        option("--unlogged-tables", is_flag=True, help="Tables without WAL."),
        option("--foreign-keys", is_flag=True, help="Foreign keys between the tables."),
        option(
            "--partitions",
            type=click.IntRange(min=0),
            default=0,
            help="Partitions of pgbench_accounts.",
        ),
        option(
            "--partition-method",
            type=click.Choice(["range", "hash"]),
            default="range",
            help="How they are partitioned (range).",
        ),
    )


def allow_write(command: Command) -> Command:
    """Add --allow-write."""
    return apply(
        command, under(FOREIGN)("--allow-write", is_flag=True, help="The scripts may write there.")
    )


def confirm(command: Command) -> Command:
    """Add --confirm DB@HOST."""
    return apply(
        command,
        under(FOREIGN)(
            "--confirm", metavar="DB@HOST", help="Load it, although other sessions work there."
        ),
    )


def progress(command: Command) -> Command:
    """Add -P."""
    return apply(
        command,
        under(ANSWER)(
            "-P",
            "--progress",
            type=click.FloatRange(min=0.1),
            help="Seconds between lines of progress.",
        ),
    )


def changing(command: Command) -> Command:
    """Add how settings of a server of the user's own may be changed."""
    option = under(FOREIGN)
    return apply(
        command,
        option("--admin", metavar="CONNINFO", help="The role that may change settings."),
        option(
            "--apply-command",
            metavar="CMD",
            help="Changes them instead: gets settings as JSON on stdin.",
        ),
        option("--restart-command", metavar="CMD", help="Restarts the server."),
        option("--recover-command", metavar="CMD", help="Brings it back when it cannot start."),
        option(
            "--allow-risk",
            multiple=True,
            type=click.Choice(["durability"]),
            help="What a variant may weaken there.",
        ),
    )


def watching(command: Command) -> Command:
    """Add how a server elsewhere is watched: its host, and a pooler in the path."""
    option = under(WATCHED)
    return apply(
        command,
        option(
            "--observe", metavar="CONNINFO", help="The way past a pooler, straight to the server."
        ),
        option("--pooler", metavar="CONNINFO", help="The console of a PgBouncer in the path."),
        host,
        option(
            "--host-file",
            "host_files",
            multiple=True,
            type=_PATH,
            help="What was recorded there by hand: by the collector's script, or CSV.",
        ),
    )


def host(command: Command) -> Command:
    """Add how the server's host is reached, where that is another one."""
    option = under(WATCHED)
    return apply(
        command,
        option(
            "--ssh", metavar="USER@HOST", help="The server's host, by ssh; it never asks anything."
        ),
        option(
            "--host-shell",
            metavar="CMD",
            help='As --ssh, through any command, such as "kubectl exec -i pod --".',
        ),
        option(
            "--print-collector",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_collector,
            help="Print the script that runs on the server's host, and exit.",
        ),
    )


def gates(command: Command) -> Command:
    """Add conditions on the answer, and what is asked without measuring."""
    option = under(ANSWER)
    return apply(
        command,
        option(
            "--check",
            multiple=True,
            metavar="COND",
            help="A gate: exit 4 unless it holds, such as p99<20ms.",
        ),
        option(
            "--abort-if",
            multiple=True,
            metavar="COND",
            help="A brake: end the run when it holds, such as p99>2s.",
        ),
        option("--print-spec", is_flag=True, help="Print the spec file of this, and exit."),
        option("--dry-run", is_flag=True, help="Print the plan, and exit."),
    )


def results(command: Command) -> Command:
    """Add where results go and how they are said."""
    option = under(ANSWER)
    return apply(
        command,
        option("--store", type=_PATH, help="Results folder (default: pgdyno-runs)."),
        option("--name", help="Name of the result."),
        json_option,
        quiet,
    )


def quiet(command: Command) -> Command:
    """Add -q."""
    return apply(
        command,
        under(ANSWER)("-q", "--quiet", is_flag=True, help="Nothing on standard error but errors."),
    )


def json_option(command: Command) -> Command:
    """Add --json [FILE]."""
    return apply(
        command,
        under(ANSWER)(
            "--json",
            "json_to",
            is_flag=False,
            flag_value="-",
            metavar="[FILE]",
            callback=_writable,
            help="JSON instead of text; with FILE, beside it.",
        ),
    )


def store_option(command: Command) -> Command:
    """Add --store alone, for verbs that only read results."""
    return apply(
        command, under(ANSWER)("--store", type=_PATH, help="Results folder (default: pgdyno-runs).")
    )


_PATH = click.Path(path_type=Path)
_FOLDER = click.Path(path_type=Path, file_okay=False)


def apply(command: Command, *decorators: Callable[[Any], Any]) -> Command:
    """Return the command with the options, in the order given."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def write(text: str, document: str, json_to: str | None) -> None:
    """Print the text or the document, or the text and the document to its file."""
    if json_to == "-":
        output.data(document)
        return
    output.data(text)
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
        output.data(collector_script().rstrip())
        context.exit(0)


def _writable(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that could not be written before anything is measured for it."""
    if value is not None and value != "-":
        path = Path(value)
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.BadParameter(f"{value} cannot be written.")
    return value
