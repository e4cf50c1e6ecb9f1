"""Options of the load: the clients' work, their connections, the reset before each run."""

from __future__ import annotations

from textwrap import wrap

import click

from pgdyno.cli import options
from pgdyno.cli.headings import BEFORE, LOAD, Headed, Verb, under
from pgdyno.cli.options import Command, allow_write, apply, confirm, confirm_memory
from pgdyno.cli.output import data
from pgdyno.cli.program_help import client_options, clients_by_size, program_field
from pgdyno.engine.engine_facts import BuiltinFacts, OptionFacts, engine_facts
from pgdyno.errors import PgdynoError


def one_server(command: Command) -> Command:
    """Add the options that every verb with a load has."""
    return apply(command, *_LOADED, *_CARRIED_OUT)


def variants(command: Command) -> Command:
    """Add the options of `one_server`, and those for changing settings of a server."""
    return apply(command, *_LOADED, options.changing, *_CARRIED_OUT)


def clients(command: Command) -> Command:
    """Add the number of clients, for verbs with one number."""
    return apply(
        command,
        under(LOAD)(
            "-c",
            "--clients",
            "--client",
            *client_options(),
            type=click.IntRange(1, 100_000),
            help=f"Number of clients (default 1; {clients_by_size()}).",
            first=True,
        ),
    )


def connections(command: Command) -> Command:
    """Add the options for the connections of the load."""
    option = under(LOAD)
    return apply(
        command,
        option(
            "--idle",
            type=click.IntRange(0, 1_000_000),
            help="Number of idle connections, in addition to those of the clients (default 0).",
        ),
        option(
            "--active",
            "--connections",
            type=click.IntRange(min=1),
            help="Number of connections that the clients share (default: one per client).",
        ),
        option(
            "--connect-rate",
            type=float,
            metavar="N",
            help="Highest number of new connections per second (default: no limit).",
        ),
        option("-C", "--connect", is_flag=True, help="Open a new connection for each transaction."),
        option(
            "--servers-in-turns",
            is_flag=True,
            help="Load all servers of -h a,b,c: each new connection goes to the next server."
            " Without this option the list is for failover: all connections go to one server.",
        ),
    )


def programs(command: Command) -> Command:
    """Add the options for the built-ins that clients run."""
    option = under(LOAD)
    return apply(
        command,
        option(
            "-b",
            "--builtin",
            multiple=True,
            metavar="NAME[@W]",
            callback=_list_builtins,
            help="Built-in script or capture file, and its weight; -b list shows the built-ins.",
            first=True,
        ),
        option(
            "--read-only",
            is_flag=True,
            help="With a capture: run only the read-only transactions.",
        ),
        option(
            "--only",
            multiple=True,
            metavar="STATEMENT",
            help="With a capture: run only these statements, by number or a part of their text.",
        ),
        option(
            "--without",
            multiple=True,
            metavar="STATEMENT",
            help="With a capture: leave these statements out, by number or a part of their text.",
        ),
        option(
            "--builtin-option",
            multiple=True,
            metavar="NAME=VALUE",
            help="Option of the built-in program; -b list shows the options of each program.",
        ),
        option(
            "--think-factor",
            "think_ratio",
            type=click.FloatRange(0.0, 1.0),
            default=0.0,
            help="Factor for the keying and think times of the program, such as 1 for the"
            " specified times (default 0: no times).",
        ),
    )


HOSTS_HELP = (
    "Hosts that make the load: a,b,c (by ssh), tls://SCHEDULER:8786 (Dask), or local:N (N workers"
    " on this host)."
)


def load_hosts(command: Command) -> Command:
    """Add the option for the hosts that make the load."""
    return apply(
        command,
        under(LOAD)(
            "--hosts",
            metavar="HOSTS",
            help=HOSTS_HELP,
        ),
    )


_script_file = under(LOAD)(
    "-f",
    "--file",
    multiple=True,
    metavar="FILE[@W]",
    help="Script file and its weight.",
    first=True,
)


def workload(command: Command) -> Command:
    """Add the options for the clients' work, without their number."""
    option, before = under(LOAD), under(BEFORE)
    return apply(
        load_hosts(programs(command)),
        _script_file,
        option("-S", "--select-only", is_flag=True, help="Same as -b select-only."),
        option("-N", "--skip-some-updates", is_flag=True, help="Same as -b simple-update."),
        option(
            "-M",
            "--protocol",
            type=click.Choice(["simple", "extended", "prepared"]),
            help="Query protocol (default simple; prepared for a built-in program that is not a"
            " script).",
        ),
        option(
            "-j",
            "--threads",
            "--jobs",
            type=click.IntRange(1, 1024),
            help="Number of threads (default: half the cores, at most 8).",
        ),
        option(
            "-D", "--define", multiple=True, metavar="VAR=VALUE", help="Variable of the scripts."
        ),
        before(
            "--warmup",
            default="auto",
            metavar="TIME",
            help="Duration of the warm-up. auto: a pilot run finds it; bench takes a tenth of the"
            " duration, 2 s to 10 s (default auto).",
        ),
        before(
            "--reset",
            type=click.Choice(["none", "vacuum", "restore"]),
            default="vacuum",
            help="How to reset the data before each run. vacuum: empty the history table, then"
            " VACUUM what changed. restore: copy the database again. none: no reset (default"
            " vacuum).",
        ),
        before(
            "--no-check",
            is_flag=True,
            help="Do not check the consistency of the data after the load and after every run.",
        ),
        before(
            "--cache",
            type=click.Choice(["warm", "prewarm", "cold"]),
            default="warm",
            help=(
                "State of the caches before each run. warm: as the previous run left them; filled"
                " after a start of a scratch server. prewarm: pgdyno reads tables and indexes into"
                " shared_buffers. cold: no file of the server is in memory; only on a scratch"
                " server (default warm)."
            ),
        ),
        option(
            "--seed",
            type=click.IntRange(min=0),
            help=(
                "Seed of the random number generator of the load (default 1). The order of runs is"
                " drawn anew for each experiment."
            ),
        ),
        option("--allow-shell", is_flag=True, help="Allow \\shell commands in the scripts."),
        allow_write,
        confirm,
        confirm_memory,
    )


def rate(command: Command) -> Command:
    """Add the rate of an open loop."""
    return apply(
        command,
        under(LOAD)(
            "-R",
            "--rate",
            metavar="RATE",
            help="Transactions per second to offer (open loop), or phases such as"
            " 500:30s,500-4000:60s,200. For a capture: 1x repeats the recorded rate second by"
            " second, 2x doubles this rate, flat uses its mean.",
            first=True,
        ),
    )


def _list_builtins(
    context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    """Print the built-ins for `-b list`, as pgbench does, and end the command."""
    if given == ("list",):
        for builtin in engine_facts().builtins:
            data("\n".join(_described(builtin)))
        context.exit(0)
    return given


def _described(builtin: BuiltinFacts) -> list[str]:
    effect = "reads" if builtin.reads_only else "writes"
    lines = [f"{builtin.name:<15} {builtin.description} ({effect}; dataset {builtin.dataset})"]
    for option in builtin.options:
        text = f"{option.name}: {_values_of(option)}. {option.description}"
        lines += [" " * 16 + line for line in wrap(text, 80)]
    return lines


def _values_of(option: OptionFacts) -> str:
    if option.range is not None:
        return f"{option.range[0]} to {option.range[1]}"
    return ", ".join((f"{option.values[0]} (default)", *option.values[1:]))


def program_options() -> list[Headed]:
    """Return an option for each option of a built-in program, with the engine's names.

    Without an engine the list is empty, and the verb reports the missing engine.
    """
    try:
        builtins = engine_facts().builtins
    except PgdynoError:
        return []
    return [_option_of(builtin, option) for builtin in builtins for option in builtin.options]


def _option_of(builtin: BuiltinFacts, option: OptionFacts) -> Headed:
    kind = click.IntRange(*option.range) if option.range else click.Choice(option.values)
    words = option.description.rstrip(".")
    default = "" if option.range else f" (default {option.values[0]})"
    return Headed(
        [f"--{option.name}", program_field(option.name)],
        heading=f"Program {builtin.name}",
        type=kind,
        help=f"{words}{default}.",
    )


class LoadVerb(Verb):
    """A verb that also has the options of the built-in programs."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Return the verb's parameters; the options of programs follow the options of the load."""
        parameters = super().get_params(context)
        taken = {name for parameter in parameters for name in parameter.opts}
        added = [option for option in program_options() if not taken & {*option.opts}]
        headings = [getattr(parameter, "heading", None) for parameter in parameters]
        place = len(headings) - headings[::-1].index(LOAD)
        return [*parameters[:place], *added, *parameters[place:]]


_LOADED = (workload, connections, options.dataset, options.scratch)
_CARRIED_OUT = (options.watching, options.gates, options.progress, options.results, options.verbose)
