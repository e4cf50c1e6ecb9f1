"""What the help of a verb says about programs: from the table of programs, never by their names.

As for the kinds of datasets, the descriptions are read from a file that `make docs` writes, so that
help needs no program. A program that the file does not have is described from its `PROGRAM`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files

from pgdyno.cli import output
from pgdyno.programs.registry import PROGRAMS, program_named

FILE = "program_help.json"


@dataclass(frozen=True, slots=True)
class ProgramHelp:
    """What help says about one program; "" where it says nothing.

    `metric`: the default, as "METRIC for PROGRAM". `target`: of a transaction type. `clients`: how
    many think by default. `option`: the program's word for --clients.
    """

    metric: str
    target: str
    clients: str
    option: str


def own_defaults() -> str:
    """Return the default metric of each program that has its own: "METRIC for PROGRAM"."""
    return "; ".join(own.metric for own in _every_help() if own.metric)


def type_targets() -> str:
    """Return a target of a transaction type of each program: "TYPE.p90=5s with PROGRAM"."""
    return ", ".join(own.target for own in _every_help() if own.target)


def clients_by_size() -> str:
    """Return how many clients think by default: "10 per warehouse if terminals think"."""
    return "; ".join(own.clients for own in _every_help() if own.clients)


def client_options() -> tuple[str, ...]:
    """Return the option of each word that a program uses for clients: "--terminals"."""
    words = dict.fromkeys(own.option for own in _every_help())
    return tuple(word for word in words if word != "--clients")


def program_field(name: str) -> str:
    """Return click's parameter name for an option of a built-in program."""
    return f"program_{name.replace('-', '_')}"


def text_of_programs() -> str:
    """Return the text of program_help.json, from the programs."""
    return json.dumps({name: asdict(_of_program(name)) for name in PROGRAMS}, indent=1)


def _every_help() -> Iterator[ProgramHelp]:
    written = json.loads(files("pgdyno.cli").joinpath(FILE).read_text(encoding="utf-8"))
    for name in PROGRAMS:
        yield ProgramHelp(**written[name]) if name in written else _of_program(name)


def _of_program(name: str) -> ProgramHelp:
    program = program_named(name)
    limited = [kind for kind in program.types if kind.p90_limit_s is not None]
    targets = [f"{kind.name}.p90={kind.p90_limit_s:g}s with {name}" for kind in limited[:1]]
    thinking = f"{program.clients_per_size} per {program.size_word} if {program.client_word}s think"
    return ProgramHelp(
        metric=f"{program.metrics[0].name} for {name}" if program.metrics else "",
        target="".join(targets),
        clients="" if program.clients_per_size is None else thinking,
        option=f"--{program.client_word}s",
    )


if __name__ == "__main__":
    output.data(text_of_programs())
