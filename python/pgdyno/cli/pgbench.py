"""`pgdyno pgbench`: the drop-in for pgbench, which is part of the engine."""

from __future__ import annotations

import click

from pgdyno.cli import output
from pgdyno.cli.headings import ANSWER, LOAD, SERVER, TABLES, Headed, Verb
from pgdyno.engine.executable import engine_path
from pgdyno.process.child import become

# What a first user needs of pgbench's options; the engine reads them, and explains all of them.
_FIRST = (
    (TABLES, ("-i", "--initialize"), "", "Load pgbench's tables instead of a run."),
    (TABLES, ("-s", "--scale"), "NUM", "Scaling factor: 100,000 accounts each."),
    (LOAD, ("-c", "--client"), "NUM", "Number of clients (default 1)."),
    (LOAD, ("-j", "--jobs"), "NUM", "Number of threads (default 1)."),
    (LOAD, ("-T", "--time"), "SECONDS", "Duration of the run."),
    (LOAD, ("-t", "--transactions"), "NUM", "Transactions of each client (default 10)."),
    (LOAD, ("-S", "--select-only"), "", "Only SELECT."),
    (LOAD, ("-f", "--file"), "FILE[@W]", "Run a script of your own, with weight W."),
    (LOAD, ("-M", "--protocol"), "NAME", "simple, extended or prepared (default simple)."),
    (LOAD, ("-R", "--rate"), "NUM", "Transactions per second, instead of as many as possible."),
    (LOAD, ("-n", "--no-vacuum"), "", "No VACUUM before the run."),
    (ANSWER, ("-P", "--progress"), "SECONDS", "Print the progress so often."),
    (ANSWER, ("-r", "--report-per-command"), "", "Print the latency of each statement."),
    (ANSWER, ("--percentiles",), "", "Print percentiles of the latency (only pgdyno)."),
    (SERVER, ("-h", "--host"), "HOST", "Host of the server, or folder of its socket."),
    (SERVER, ("-p", "--port"), "PORT", "Port of the server."),
    (SERVER, ("-U", "--username"), "ROLE", "Role to connect as."),
)


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
@click.option("--help-all", is_flag=True, help="Print pgbench's own help, with all options.")
def command(arguments: list[str]) -> None:
    """Do what pgbench 18 does, with the same options, output and exit codes.

    `pgdyno help pgbench` lists all options, with the differences.
    """
    become([engine_path(), "pgbench", *arguments])


command.params[1:1] = [
    Headed(
        names, heading=heading, first=True, is_flag=not value, metavar=value or None, help=meaning
    )
    for heading, names, value, meaning in _FIRST
]
