"""`pgdyno pgbench`: the drop-in for pgbench, which is part of the engine."""

from __future__ import annotations

import click

from pgdyno.cli import output
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.engine.executable import engine_path
from pgdyno.process.child import become


class _DropIn(Verb):
    """Leaves every argument to the engine; its options are here only to be explained."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Take all arguments as they are. As in pgbench, help is asked for by the first one."""
        if args[:1] in (["--help"], ["-?"]) and not context.resilient_parsing:
            output.data(context.get_help())
            context.exit()
        context.params["arguments"] = ["--help"] if args[:1] == ["--help-all"] else args
        return []


@click.command(
    "pgbench",
    cls=_DropIn,
    short_help="Do what pgbench does (drop-in).",
    add_help_option=False,
    options_metavar="[OPTION]...",
)
@click.argument("arguments", nargs=-1, metavar="[DBNAME]")
# What a first user needs of pgbench's options; the engine reads them, and explains all of them.
@table("""
    Tables
    -i --initialize *  Load pgbench's tables instead of a run.
    -s --scale NUM *  Scaling factor: 100,000 accounts each.
    Load
    -c --client NUM *  Number of clients (default 1).
    -j --jobs NUM *  Number of threads (default 1).
    -T --time SECONDS *  Duration of the run.
    -t --transactions NUM *  Transactions of each client (default 10).
    -S --select-only *  Only SELECT.
    -f --file FILE[@W] *  Run a script of your own, with weight W.
    -M --protocol NAME *  simple, extended or prepared (default simple).
    -R --rate NUM *  Transactions per second, instead of as many as possible.
    -n --no-vacuum *  No VACUUM before the run.
    Answer
    -P --progress SECONDS *  Print the progress so often.
    -r --report-per-command *  Print the latency of each statement.
    --percentiles *  Print percentiles of the latency (only pgdyno).
    Server
    -h --host HOST *  Host of the server, or folder of its socket.
    -p --port PORT *  Port of the server.
    -U --username ROLE *  Role to connect as.
""")
@click.option("--help-all", is_flag=True, help="Print pgbench's own help, with all options.")
def command(arguments: list[str]) -> None:
    """Do what pgbench 18 does, with the same options, output and exit codes.

    `pgdyno help pgbench` lists all options, with the differences.
    """
    become([engine_path(), "pgbench", *arguments])
