"""The table of programs, from what features declare; ARCHITECTURE.md says how to add one.

A program is declared in parts: `load` (its PROGRAM), `data`, `translation`, `job`, `recorded`,
`answer`, `shown`. The room that needs a part asks for it here, so no import points to a feature.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType

from pgdyno.feature import Metric, features
from pgdyno.programs.program import Program, TransactionType

SCRIPTS: Mapping[str, str] = {"load": "pgdyno.programs.scripts.load"}
PROGRAMS: dict[str, Mapping[str, str]] = {
    name: {part: f"{feature.package}.{module}" for part, module in modules.items()}
    for feature in features()
    for name, modules in feature.programs.items()
}
"""The modules of each program that is not a text script: built-in -> part -> module."""
METRICS: dict[str, tuple[Metric, ...]] = {
    name: metrics for feature in features() for name, metrics in feature.metrics.items()
}
"""What only one program measures, by the name of the program."""


FILE_PROGRAM = next((name for name, modules in PROGRAMS.items() if "job" in modules), None)
"""The program that carries out the load of a file; None if no feature brings it."""


@cache
def program_named(name: str | None) -> Program:
    """Return the program of a built-in; of any other name, text scripts."""
    program = import_module(PROGRAMS.get(name or "", SCRIPTS)["load"]).PROGRAM
    assert isinstance(program, Program), f"PROGRAM of {name} is not a Program"
    return replace(program, metrics=METRICS.get(program.name, ()))


def program_of(builtins: Collection[str | None]) -> Program:
    """Return the program of a load whose scripts have these names; text scripts for a mixture."""
    names = set(builtins)
    return program_named(names.pop() if len(names) == 1 else None)


def part_of(program: Program, name: str) -> ModuleType | None:
    """Return the module of a part of the program, such as `answer`; None if it has none."""
    module = PROGRAMS.get(program.name, SCRIPTS).get(name)
    return None if module is None else import_module(module)


def part_of_files(name: str) -> ModuleType | None:
    """Return a part of the program that carries out the load of a file, if there is one."""
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
