"""Options shared by the verbs; letters have the meaning that they have in pgbench and psql."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import output
from pgdyno.cli.headings import SERVER, Operand
from pgdyno.cli.kind_help import kind_help
from pgdyno.cli.option_table import Decorator, lines_of, table, together
from pgdyno.errors import SpecError, StoreError
from pgdyno.redaction import redacted_output
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.spec.units import duration_ns


def seconds_of_command(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Return the time in seconds. Raises: SpecError for a time below a second."""
    seconds = None if text is None else duration_ns(text, what="--command-timeout") / 1e9
    if seconds is not None and seconds < 1:
        raise SpecError(
            f"--command-timeout {text}: the longest time of a command must be at least 1s.",
            hint="give the longest time that your command may take, such as 10min",
        )
    return seconds


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


# An option for another form of the answer, printed or in a file.
_FORM = {"is_flag": False, "flag_value": "-", "callback": _writable}


password_command = table("""
    Server
    --password-command CMD  Command that prints the password when a connection needs one.
""")
connection = together(
    click.argument(
        "conninfo",
        required=False,
        cls=Operand,
        heading=SERVER,
        help="Connection: URI, key=value pairs, or service=NAME.",
    ),
    table("""
        Server
        -h --host HOST *  Host or socket folder of the server.
        -p --port PORT  Port of the server.
        -U --user --username USER  User to connect as.
        -d --database --dbname NAME *  Database name, or a whole conninfo.
    """),
    password_command,
)

_place = table("""
    Scratch server
    --scratch  Create a scratch server (default if no server is named).
    --pg-version MAJOR  Major version of the scratch server, 14 to 18.
    --pg-bin DIRECTORY  Folder of PostgreSQL's programs.
    --data-dir PATH  Folder for the data directory; selects the disk.
""")
_wal = table("""
    Scratch server
    --wal-dir PATH  Folder for the WAL; selects the disk.
""")
_tmpfs = table("""
    Scratch server
    --allow-tmpfs  Allow a folder in memory (tmpfs).
""")
_keep = table("""
    Scratch server
    --keep  Keep the loaded cluster for the next command.
""")
_settings = table("""
    Scratch server
    --set (settings) NAME=VALUE ...  Setting of the scratch server.
""")
scratch = together(_place, _wal, _tmpfs, _keep, _settings)
# A scratch server that is made for one crash, and then removed.
scratch_that_crashes = together(_place, _tmpfs, _settings)


def dataset(command: Any) -> Any:
    """Add the options for the tables of a scratch server: those of all kinds of datasets.

    The seed of the data keeps its default, because --seed belongs to the load. The fraction of a
    capture is an option of `init` alone.
    """
    seen = {"seed", "fraction"}
    decorators = []
    for place, name in enumerate(KINDS):
        for line in lines_of(kind_help(name).options):
            if line.field not in seen:
                decorators.append(line.decorator({"first": False} if place else {}))
                seen.add(line.field)
    return together(*decorators)(command)


allow_write = table("""
    On your own server
    --allow-write *  Allow scripts that write.
""")
confirm = table("""
    On your own server
    --confirm DB@HOST ...
        Confirm a load on a server that other sessions use. Repeat the option for each server.
""")
confirm_memory = table("""
    Load
    --confirm-memory  Start even if the connections need more memory than is available.
""")
command_timeout = table(
    """
    On your own server
    --command-timeout TIME  Longest time for each of these commands (default 5min).
    """,
    command_timeout={"callback": seconds_of_command},
)
changing = together(
    table("""
        On your own server
        --admin CONNINFO  Role that may change settings.
        --apply-command CMD
            Command that changes settings instead of --admin; gets JSON on stdin.
        --restart-command CMD  Command that restarts the server.
        --recover-command CMD  Command that repairs a server that does not start.
    """),
    command_timeout,
    table("""
        On your own server
        --allow-risk durability| ...  Allow variants that weaken durability.
    """),
)


def price_of_loss(heading: str) -> Decorator:
    """Return the option that measures what crashes take with the settings of the variants."""
    return table(f"""
        {heading}
        --price-of-loss N:1..1000
            After the last run, let scratch servers crash N times with the settings of each variant,
            and show what they lose. A search does this only for a winner that weakens durability.
    """)


host = table(
    """
    Observation
    --ssh USER@HOST
        Read the server's host by ssh. ssh must connect without asking a question.
    --host-shell CMD
        Read the server's host through another command, such as "kubectl exec -i pod --".
    --print-collector  Print the script that runs on the server's host, and exit.
    """,
    print_collector={"is_eager": True, "expose_value": False, "callback": _print_collector},
)
watching = together(
    table("""
        Observation
        --observe CONNINFO
            Connection for observation, directly to the server, if the load uses a pooler.
        --pooler CONNINFO  Console of the PgBouncer between clients and server.
    """),
    host,
)

gates = table("""
    Answer
    --check COND ...  Exit with code 4 unless this condition is true, for example p99<20ms.
    --abort-if COND ...  End the run when this condition becomes true, for example p99>2s.
    --print-spec  Print this experiment as a spec file, and exit.
    --dry-run *  Print the plan, and exit.
""")
progress = table("""
    Answer
    -P --progress N:0.1..  Seconds between two progress lines (default 10).
""")
store_option = table("""
    Answer
    --store PATH  Results folder (default pgdyno-runs).
""")
json_option = table(
    """
    Answer
    --json (json_to) [FILE] *
        Print JSON instead of text; with FILE, write JSON to FILE and print text.
    """,
    json_to=_FORM,
)
conf_option = table(
    """
    Answer
    --conf (conf_to) [FILE] *
        Print the values as a postgresql.conf that can be undone; with FILE, write it to FILE and
        print text.
    """,
    conf_to=_FORM,
)
quiet = table("""
    Answer
    -q --quiet  Print only errors on standard error.
""")
verbose = table("""
    Answer
    -v --verbose  Print every line of the answer.
""")
_name = table("""
    Answer
    --name NAME  Name of the result.
""")
results = together(store_option, _name, json_option, quiet)


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
