"""`pgdyno check KIND`: checks that the rows of a dataset are consistent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.kind_help import kind_help
from pgdyno.clock import monotonic_ns
from pgdyno.errors import SpecError
from pgdyno.programs.program import Program
from pgdyno.programs.registry import programs
from pgdyno.quantities import duration_text
from pgdyno.server.dataset.kinds import KINDS

if wanted.body(__name__):
    from pgdyno.answer.own import own_answer
    from pgdyno.cli.from_options import server_named
    from pgdyno.engine.engine_facts import engine_facts
    from pgdyno.server.connect import connect
    from pgdyno.server.dataset import inspection as datasets
    from pgdyno.server.dataset.conditions import Verdict, check
    from pgdyno.server.dataset.kind import DatasetKind

EXIT_CHECK_FAILED = 4
_CHECKED = {name: said for name in KINDS if (said := kind_help(name).check)}


_HELP = f"""Check whether the rows of a dataset fit together.

Only reads. The answer names the first ten rows that violate a condition. If a condition is
violated, the exit code is 4. While a load runs, the answer describes one moment.

{"".join(_CHECKED.values())}
"""


@click.command("check", cls=Verb, help=_HELP, short_help="Check whether a dataset is consistent.")
@click.argument("kind", type=click.Choice(tuple(_CHECKED)))
@options.connection
@options.json_option
@options.quiet
def command(**given: Any) -> int:
    """Check each condition, print the verdicts, and return the exit code."""
    if given["quiet"]:
        output.be_quiet()
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "check needs a server, but the command names none.",
            hint="name the server with -h, -d or a conninfo",
        )
    verdicts: list[Verdict] = []
    kind = KINDS[given["kind"]]
    with connect(resolved.target, verb="check") as connection:
        datasets.require_complete(datasets.inspect(connection, kind))
        datasets.use_tables(connection)
        connection.execute("SET statement_timeout = 0")
        for verdict in check(connection, (*kind.conditions, *kind.conditions_of_load)):
            verdicts.append(verdict)
            output.note(f"condition {verdict.condition.number} {_words(verdict, kind.part_word)}")
        verdicts.sort(key=lambda verdict: verdict.condition.number)
        began_ns = monotonic_ns()
        examined = [own_answer(program).examined(connection) for program in _programs_on(kind)]
        examined_ns = monotonic_ns() - began_ns
    document = {
        "format": "pgdyno.check/1",
        "kind": given["kind"],
        "violations": {str(v.condition.number): v.violation_count for v in verdicts},
        f"{kind.part_word}s": {
            str(v.condition.number): sorted(v.violations_by_part)
            for v in verdicts
            if v.violation_count
        },
        "rows": {str(v.condition.number): list(v.first_rows) for v in verdicts if v.first_rows},
        **{name: value for own in examined for name, value in own.document.items()},
        "seconds": (sum(verdict.duration_ns for verdict in verdicts) + examined_ns) / 1e9,
    }
    lines = [line for own in examined for line in own.lines]
    options.write(
        _text(verdicts, lines, kind.part_word), json.dumps(document, indent=2), given["json_to"]
    )
    is_violated = any(verdict.violation_count for verdict in verdicts)
    return EXIT_CHECK_FAILED if is_violated else 0


def _words(verdict: Verdict, part_word: str) -> str:
    if not verdict.violation_count:
        return f"holds ({duration_text(verdict.duration_ns)})"
    parts = sorted(part for part in verdict.violations_by_part if part)
    if not parts:
        return f"is violated {verdict.violation_count} times"
    shown = ", ".join(str(part) for part in parts[:5])
    more = f" and {len(parts) - 5} more" if len(parts) > 5 else ""
    return f"is violated {verdict.violation_count} times, in {part_word} {shown}{more}"


def _text(verdicts: list[Verdict], examined: list[str], part_word: str) -> str:
    lines: list[str] = []
    for verdict in verdicts:
        condition = verdict.condition
        lines.append(f"{condition.number:>2}  {_words(verdict, part_word):<40}  {condition.rule}")
        lines += [f"      {row}" for row in verdict.first_rows]
        if (rest := verdict.violation_count - len(verdict.first_rows)) and verdict.first_rows:
            lines.append(f"      and {rest} more")
    violated = [str(v.condition.number) for v in verdicts if v.violation_count]
    all_hold = f"all {len(verdicts)} conditions hold"
    last = f"violated: {', '.join(violated)}" if violated else all_hold
    return "\n".join([*lines, *examined, last])


def _programs_on(kind: DatasetKind) -> Iterator[Program]:
    """Yield the programs that use the tables of this kind."""
    facts = engine_facts()
    for program in programs():
        builtin = facts.builtin(program.name)
        if builtin is not None and builtin.dataset == kind.name:
            yield program
