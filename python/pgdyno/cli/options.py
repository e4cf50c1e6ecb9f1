"""Options shared by the verbs; letters have the meaning that they have in pgbench and psql."""

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
    LOAD,
    SCRATCH,
    SERVER,
    TABLES,
    WATCHED,
    Operand,
    under,
)
from pgdyno.cli.kind_options import decorator_of, kind_help
from pgdyno.errors import SpecError, StoreError
from pgdyno.redaction import redacted_output
from pgdyno.server.dataset_kinds import KINDS
from pgdyno.spec.units import duration_ns

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
            help="Connection: URI, key=value pairs, or service=NAME.",
        ),
        option(
            "-h", "--host", metavar="HOST", help="Host or socket folder of the server.", first=True
        ),
        option("-p", "--port", metavar="PORT", help="Port of the server."),
        option("-U", "--user", "--username", metavar="USER", help="User to connect as."),
        option(
            "-d",
            "--database",
            "--dbname",
            metavar="NAME",
            help="Database name, or a whole conninfo.",
            first=True,
        ),
        password_command,
    )


def password_command(command: Command) -> Command:
    """Add --password-command, for verbs that connect."""
    return apply(
        command,
        under(SERVER)(
            "--password-command",
            metavar="CMD",
            help="Command that prints the password when a connection needs one.",
        ),
    )


def scratch(command: Command) -> Command:
    """Add the options of a scratch server."""
    option = under(SCRATCH)
    return apply(
        command,
        _scratch_place,
        option("--wal-dir", type=_PATH, help="Folder for the WAL; selects the disk."),
        _allow_tmpfs,
        option("--keep", is_flag=True, help="Keep the loaded cluster for the next command."),
        _scratch_settings,
    )


def scratch_that_crashes(command: Command) -> Command:
    """Add the options of a scratch server that is made for one crash, and then removed."""
    return apply(command, _scratch_place, _allow_tmpfs, _scratch_settings)


def _scratch_place(command: Command) -> Command:
    option = under(SCRATCH)
    return apply(
        command,
        option(
            "--scratch",
            is_flag=True,
            help="Create a scratch server (default if no server is named).",
        ),
        option(
            "--pg-version", metavar="MAJOR", help="Major version of the scratch server, 14 to 18."
        ),
        option("--pg-bin", type=_FOLDER, help="Folder of PostgreSQL's programs."),
        option("--data-dir", type=_PATH, help="Folder for the data directory; selects the disk."),
    )


def _allow_tmpfs(command: Command) -> Command:
    option = under(SCRATCH)
    return apply(
        command,
        option("--allow-tmpfs", is_flag=True, help="Allow a folder in memory (tmpfs)."),
    )


def _scratch_settings(command: Command) -> Command:
    return apply(
        command,
        under(SCRATCH)(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Setting of the scratch server.",
        ),
    )


def dataset(command: Command) -> Command:
    """Add the options for the tables of a scratch server: those of all kinds of datasets.

    The seed of the data keeps its default, because --seed belongs to the load. The fraction of a
    capture is an option of `init` alone.
    """
    seen = {"seed", "fraction"}
    decorators = []
    for name in KINDS:
        declared = kind_help(name).options
        decorators.append(
            decorator_of(
                declared, TABLES, without=frozenset(seen), may_be_first=name == next(iter(KINDS))
            )
        )
        seen |= {option.field for option in declared}
    return apply(command, *decorators)


def allow_write(command: Command) -> Command:
    """Add --allow-write."""
    return apply(
        command,
        under(FOREIGN)("--allow-write", is_flag=True, help="Allow scripts that write.", first=True),
    )


def confirm(command: Command) -> Command:
    """Add --confirm DB@HOST."""
    return apply(
        command,
        under(FOREIGN)(
            "--confirm",
            multiple=True,
            metavar="DB@HOST",
            help="Confirm a load on a server that other sessions use. Repeat the option for each"
            " server.",
        ),
    )


def confirm_memory(command: Command) -> Command:
    """Add --confirm-memory."""
    return apply(
        command,
        under(LOAD)(
            "--confirm-memory",
            is_flag=True,
            help="Start even if the connections need more memory than is available.",
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
            help="Seconds between two progress lines (default 10).",
        ),
    )


def changing(command: Command) -> Command:
    """Add the options for changing settings of the user's own server."""
    option = under(FOREIGN)
    return apply(
        command,
        option("--admin", metavar="CONNINFO", help="Role that may change settings."),
        option(
            "--apply-command",
            metavar="CMD",
            help="Command that changes settings instead of --admin; gets JSON on stdin.",
        ),
        option("--restart-command", metavar="CMD", help="Command that restarts the server."),
        option(
            "--recover-command",
            metavar="CMD",
            help="Command that repairs a server that does not start.",
        ),
        command_timeout,
        option(
            "--allow-risk",
            multiple=True,
            type=click.Choice(["durability"]),
            help="Allow variants that weaken durability.",
        ),
    )


def command_timeout(command: Command) -> Command:
    """Add --command-timeout, in seconds; None if it is not given."""
    return apply(
        command,
        under(FOREIGN)(
            "--command-timeout",
            metavar="TIME",
            callback=seconds_of_command,
            help="Longest time for each of these commands (default 5min).",
        ),
    )


def seconds_of_command(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Return the time in seconds. Raises: SpecError for a time below a second."""
    seconds = None if text is None else duration_ns(text, what="--command-timeout") / 1e9
    if seconds is not None and seconds < 1:
        raise SpecError(
            f"--command-timeout {text}: the longest time of a command must be at least 1s.",
            hint="give the longest time that your command may take, such as 10min",
        )
    return seconds


def price_of_loss(heading: str) -> Callable[[Command], Command]:
    """Return the option that measures what crashes take with the settings of the variants."""
    return under(heading)(
        "--price-of-loss",
        type=click.IntRange(1, 1000),
        metavar="N",
        help="After the last run, let scratch servers crash N times with the settings of each"
        " variant, and show what they lose. A search does this only for a winner that"
        " weakens durability.",
    )


def watching(command: Command) -> Command:
    """Add the options for observing a remote server: its host, and a pooler in the path."""
    option = under(WATCHED)
    return apply(
        command,
        option(
            "--observe",
            metavar="CONNINFO",
            help="Connection for observation, directly to the server, if the load uses a pooler.",
        ),
        option(
            "--pooler",
            metavar="CONNINFO",
            help="Console of the PgBouncer between clients and server.",
        ),
        host,
    )


def host(command: Command) -> Command:
    """Add the options for reaching the server's host if it is remote."""
    option = under(WATCHED)
    return apply(
        command,
        option(
            "--ssh",
            metavar="USER@HOST",
            help="Read the server's host by ssh. ssh must connect without asking a question.",
        ),
        option(
            "--host-shell",
            metavar="CMD",
            help=(
                'Read the server\'s host through another command, such as "kubectl exec -i pod --".'
            ),
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
    """Add conditions on the answer, and the options that only print."""
    option = under(ANSWER)
    return apply(
        command,
        option(
            "--check",
            multiple=True,
            metavar="COND",
            help="Exit with code 4 unless this condition is true, for example p99<20ms.",
        ),
        option(
            "--abort-if",
            multiple=True,
            metavar="COND",
            help="End the run when this condition becomes true, for example p99>2s.",
        ),
        option(
            "--print-spec", is_flag=True, help="Print this experiment as a spec file, and exit."
        ),
        option("--dry-run", is_flag=True, help="Print the plan, and exit.", first=True),
    )


def results(command: Command) -> Command:
    """Add the options for the place and the form of results."""
    option = under(ANSWER)
    return apply(
        command,
        option("--store", type=_PATH, help="Results folder (default pgdyno-runs)."),
        option("--name", metavar="NAME", help="Name of the result."),
        json_option,
        quiet,
    )


def verbose(command: Command) -> Command:
    """Add -v."""
    return apply(
        command,
        under(ANSWER)("-v", "--verbose", is_flag=True, help="Print every line of the answer."),
    )


def quiet(command: Command) -> Command:
    """Add -q."""
    return apply(
        command,
        under(ANSWER)("-q", "--quiet", is_flag=True, help="Print only errors on standard error."),
    )


def json_option(command: Command) -> Command:
    """Add --json [FILE]."""
    return _file_option(
        command, "json", "Print JSON instead of text; with FILE, write JSON to FILE and print text."
    )


def conf_option(command: Command) -> Command:
    """Add --conf [FILE]."""
    return _file_option(
        command,
        "conf",
        "Print the proposed values as a postgresql.conf to apply, with how to undo it; with FILE,"
        " write it to FILE and print text.",
    )


def _file_option(command: Command, name: str, words: str) -> Command:
    """Add an option for another form of the answer, printed or in a file."""
    return apply(
        command,
        under(ANSWER)(
            f"--{name}",
            f"{name}_to",
            is_flag=False,
            flag_value="-",
            metavar="[FILE]",
            callback=_writable,
            help=words,
            first=True,
        ),
    )


def store_option(command: Command) -> Command:
    """Add only --store, for verbs that only read results."""
    return apply(
        command,
        under(ANSWER)("--store", type=_PATH, help="Results folder (default pgdyno-runs)."),
    )


_PATH = click.Path(path_type=Path)
_FOLDER = click.Path(path_type=Path, file_okay=False)


def apply(command: Command, *decorators: Callable[[Any], Any]) -> Command:
    """Return the command with the options in the order of the decorators."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def write(text: str, document: str, json_to: str | None) -> None:
    """Print the text or the document; if --json names a file, print the text and write the file."""
    if json_to == "-":
        output.data(document)
        return
    output.data(text)
    if json_to is not None:
        write_file(Path(json_to), document + "\n")


def write_file(path: Path, content: str | bytes) -> None:
    """Write a text without secrets to the file that an option names.

    Raises: StoreError with the reason if this fails.
    """
    try:
        written = redacted_output(content).encode() if isinstance(content, str) else content
        path.write_bytes(written)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}.",
            hint="name another file; the result is kept: pgdyno show",
        ) from None


def _print_collector(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        from pgdyno.observe.remote.host_session import collector_script

        output.data(collector_script().rstrip())
        context.exit(0)


def _writable(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that is not writable, before anything is measured."""
    if value is not None and value != "-":
        path = Path(value)
        leads_nowhere = path.is_symlink() and not path.exists()
        if (
            path.is_dir()
            or leads_nowhere
            or not os.access(path if path.exists() else path.parent, os.W_OK)
        ):
            raise click.BadParameter(f"{value} cannot be written.")
    return value
