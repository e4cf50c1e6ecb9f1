"""Options of the load: the clients' work, their connections, the reset before each run."""

from __future__ import annotations

from textwrap import wrap

import click

from pgdyno.cli import options
from pgdyno.cli.headings import LOAD, HeadedOption, Verb
from pgdyno.cli.option_table import table, together
from pgdyno.cli.output import data
from pgdyno.cli.program_help import client_options, clients_by_size, program_field
from pgdyno.engine.engine_facts import BuiltinFacts, OptionFacts, engine_facts
from pgdyno.errors import PgdynoError


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


# The number of clients, for verbs with one number.
clients = table(f"""
    Load
    {" ".join(("-c --clients --client", *client_options()))} N:1..100000 *
        Number of clients (default 1; {clients_by_size()}).
""")
connections = table(
    """
    Load
    --idle N:0..1000000
        Number of idle connections, in addition to those of the clients (default 0).
    --active --connections N:1..
        Number of connections that the clients share (default: one per client).
    --connect-rate N:float  Highest number of new connections per second (default: no limit).
    -C --connect  Open a new connection for each transaction.
    --servers-in-turns
        Load all servers of -h a,b,c: each new connection goes to the next server. Without this
        option the list is for failover: all connections go to one server.
    """,
)
HOSTS_HELP = (
    "Hosts that make the load: a,b,c (by ssh), tls://SCHEDULER:8786 (Dask), or local:N (N workers"
    " on this host)."
)
rate = table("""
    Load
    -R --rate RATE *
        Transactions per second to offer (open loop), or phases such as
        500:30s,500-4000:60s,200. For a capture: 1x repeats the recorded rate second by second, 2x
        doubles this rate, flat uses its mean.
""")
# The clients' work, without their number.
workload = together(
    table("""
        Load
        -f --file FILE[@W] ... *  Script file and its weight.
        -S --select-only  Same as -b select-only.
        -N --skip-some-updates  Same as -b simple-update.
        -M --protocol simple|extended|prepared
            Query protocol (default simple; prepared for a built-in program that is not a script).
        -j --threads --jobs N:1..1024  Number of threads (default: half the cores, at most 8).
        -D --define VAR=VALUE ...  Variable of the scripts.
        Before each run
        --warmup TIME =auto
            Duration of the warm-up. auto: a pilot run finds it; bench takes a tenth of the
            duration, 2 s to 10 s (default auto).
        --reset none|vacuum|restore =vacuum
            How to reset the data before each run. vacuum: empty the history table, then VACUUM what
            changed. restore: copy the database again. none: no reset (default vacuum).
        --no-check  Do not check the consistency of the data after the load and after every run.
        --cache warm|prewarm|cold =warm
            State of the caches before each run. warm: as the previous run left them; filled after a
            start of a scratch server. prewarm: pgdyno reads tables and indexes into shared_buffers.
            cold: no file of the server is in memory; only on a scratch server (default warm).
        Load
        --seed N:0..
            Seed of the random number generator of the load (default 1). The order of runs is drawn
            anew for each experiment.
        --allow-shell  Allow \\shell commands in the scripts.
    """),
    options.allow_write,
    options.confirm,
    options.confirm_memory,
    table(
        f"""
        Load
        --hosts HOSTS  {HOSTS_HELP}
        -b --builtin NAME[@W] ... *
            Built-in script or capture file, and its weight; -b list shows the built-ins.
        --read-only  With a capture: run only the read-only transactions.
        --only STATEMENT ...
            With a capture: run only these statements, by number or a part of their text.
        --without STATEMENT ...
            With a capture: leave these statements out, by number or a part of their text.
        --builtin-option NAME=VALUE ...
            Option of the built-in program; -b list shows the options of each program.
        --think-factor (think_ratio) N:0.0..1.0 =0.0
            Factor for the keying and think times of the program, such as 1 for the specified times
            (default 0: no times).
        """,
        builtin={"callback": _list_builtins},
    ),
)
_loaded = together(workload, connections, options.dataset, options.scratch)
_carried_out = together(
    options.watching, options.gates, options.progress, options.results, options.verbose
)
# What every verb with a load has, and what those have that change settings of a server.
one_server = together(_loaded, _carried_out)
variants = together(_loaded, options.changing, _carried_out)


def program_options() -> list[HeadedOption]:
    """Return an option for each option of a built-in program, with the engine's names.

    Without an engine the list is empty, and the verb reports the missing engine.
    """
    try:
        builtins = engine_facts().builtins
    except PgdynoError:
        return []
    return [_option_of(builtin, option) for builtin in builtins for option in builtin.options]


def _option_of(builtin: BuiltinFacts, option: OptionFacts) -> HeadedOption:
    kind = click.IntRange(*option.range) if option.range else click.Choice(option.values)
    words = option.description.rstrip(".")
    default = "" if option.range else f" (default {option.values[0]})"
    return HeadedOption(
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
