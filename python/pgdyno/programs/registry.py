"""The table of programs: what the clients of a load can do, and which modules know about it.

There are two kinds of programs. *Text scripts* are files in the language of pgbench, and all of
them are one program, whose name is "". Every other program has its transactions in Rust, inside of
the engine, and `-b NAME` calls them; NAME is the *built-in*.

The lab has one module for each *part* of a program: one says how the data are checked, another one
what the answer of a run shows. A feature declares them by name, and they are imported when they are
first needed. So the core asks a program for a part without importing a feature:

    part_of(program_named("toy-like"), "answer")   -> the module of the toy's answer
    part_of(program_named("my.sql"), "answer")     -> None: text scripts have no such module
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType

from pgdyno.feature import Metric, ProgramWords, features
from pgdyno.programs.program import Program, TransactionType

PARTS: Mapping[str, str] = {
    "load": "PROGRAM, a programs.program.Program; the only part that every program has",
    "data": "DATA, a server.own_data.OwnData: notes and checks the data around a run",
    "translation": "TOOLS: name of another tool -> function from its file to a spec",
    "job": "mirror_load, digest_at: the load of a file, for the engine",
    "source": "source_document: what a run keeps of such a file",
    "recorded": "is_recorded, rate_of, options_of: the arrivals that such a file recorded",
    "probe": "probed: (setup, planned, under_test, folder) -> setup, tries a file before a run",
    "answer": "ANSWER, an answer.own.OwnAnswer: findings that only this program has",
    "shown": "shown_of, shown_of_cells: these findings as a report.blocks.BlockSection",
}
"""Part -> the names that its module must have, and what they are."""
SCRIPTS: Mapping[str, str] = {"load": "pgdyno.programs.scripts.load"}
"""The only part of text scripts."""
PROGRAMS: dict[str, Mapping[str, str]] = {
    name: {part: f"{feature.package}.{module}" for part, module in modules.items()}
    for feature in features()
    for name, modules in feature.programs.items()
}
"""Built-in -> part -> name of the module, for every program but text scripts."""
METRICS: dict[str, tuple[Metric, ...]] = {
    name: metrics for feature in features() for name, metrics in feature.metrics.items()
}
"""What only one program measures, by the name of the program."""
PROGRAM_WORDS: dict[str, ProgramWords] = {
    name: words for feature in features() for name, words in feature.program_words.items()
}
"""What help says of a program whose clients have another name, by the name of the program."""
FILE_PROGRAM = next((name for name, modules in PROGRAMS.items() if "job" in modules), None)
"""The built-in that carries out a file of the user (`--load FILE`); None without one."""


@cache
def program_named(name: str | None) -> Program:
    """Return the program of a built-in; of any other name, text scripts."""
    program = import_module(PROGRAMS.get(name or "", SCRIPTS)["load"]).PROGRAM
    assert isinstance(program, Program), f"PROGRAM of {name} is not a Program"
    return replace(program, metrics=METRICS.get(program.name, ()))


def program_of(builtins: Collection[str | None]) -> Program:
    """Return the program of a load with these built-ins; None is a script without one.

    Several different ones count as text scripts, because no program knows about all of them.
    """
    names = set(builtins)
    return program_named(names.pop() if len(names) == 1 else None)


def part_of(program: Program, name: str) -> ModuleType | None:
    """Return the module of a part of the program, such as `answer`; None if it has none.

    Args: name, a key of `PARTS`.
    """
    assert name in PARTS, f"{name} is not a part"
    module = PROGRAMS.get(program.name, SCRIPTS).get(name)
    return None if module is None else import_module(module)


def part_of_files(name: str) -> ModuleType | None:
    """Return a part of the program whose load is a file; None without such a program."""
    return None if FILE_PROGRAM is None else import_module(PROGRAMS[FILE_PROGRAM][name])


def programs() -> tuple[Program, ...]:
    """Return all programs that are not text scripts, in the order of the table."""
    return tuple(program_named(name) for name in PROGRAMS)


def metric_names() -> tuple[str, ...]:
    """Return the metrics that can decide a comparison: the usual ones, and those of programs."""
    return ("tps", *own_metrics(), "p50", "p99", "mean", "cpu_per_tx", "wal_per_tx", "duration")


def own_metrics() -> Mapping[str, Metric]:
    """Return the metrics of all programs by their names; the usual ones are not among them."""
    return {metric.name: metric for metrics in METRICS.values() for metric in metrics}


def types_by_name() -> Mapping[str, tuple[Program, TransactionType]]:
    """Return each transaction type with a name for readers, and its program."""
    return {kind.name: (program, kind) for program in programs() for kind in program.types}
