"""The table of programs: a line for each folder. ARCHITECTURE.md says how to add a program.

A file of a program's folder belongs to the room that its name states (`tests/tidy` has the names),
and code of that room finds it here by its name, so that no import points to a later room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from pgdyno.programs.program import Metric, Program, TransactionType

SCRIPTS = "pgdyno.programs.scripts"
PROGRAMS = {
    "tpcc-like": "pgdyno.features.tpcc",
    "ledger": "pgdyno.features.crash.ledger",
    "mirror": "pgdyno.features.capture.mirror",
}
"""The folder of each program that is not a text script, by the name of the built-in."""


@cache
def program_named(name: str | None) -> Program:
    """Return the program of a built-in; of any other name, text scripts."""
    program = import_module(f"{PROGRAMS.get(name or '', SCRIPTS)}.load").PROGRAM
    assert isinstance(program, Program), f"PROGRAM of {name} is not a Program"
    return program


def program_of(builtins: Collection[str | None]) -> Program:
    """Return the program of a load whose scripts have these names; text scripts for a mixture."""
    names = set(builtins)
    return program_named(names.pop() if len(names) == 1 else None)


def part_of(program: Program, name: str) -> ModuleType | None:
    """Return a file of the program's folder, such as `answer`; None if it has no such file."""
    module = f"{PROGRAMS.get(program.name, SCRIPTS)}.{name}"
    return import_module(module) if find_spec(module) else None


def programs() -> tuple[Program, ...]:
    """Return all programs that are not text scripts, in the order of the table."""
    return tuple(program_named(name) for name in PROGRAMS)


def own_metrics() -> Mapping[str, Metric]:
    """Return the metrics of all programs by their names; the usual ones are not among them."""
    return {metric.name: metric for program in programs() for metric in program.metrics}


def types_by_name() -> Mapping[str, tuple[Program, TransactionType]]:
    """Return each transaction type with a name for readers, and its program."""
    return {kind.name: (program, kind) for program in programs() for kind in program.types}
