"""`pgdyno spec`: makes a spec file from a file of another tool."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.programs.registry import part_of, programs
from pgdyno.redaction import redacted
from pgdyno.user_file import read_text

if wanted.body(__name__):
    from pgdyno.engine.engine_facts import engine_facts
    from pgdyno.spec.file import to_toml
    from pgdyno.spec.translation import Note, Translated

_WIDTH = 98
_TOOLS: dict[str, Callable[..., Translated]] = {
    word: read
    for part in (part_of(program, "translation") for program in programs())
    if part is not None
    for word, read in part.TOOLS.items()
}


@click.command("spec", cls=Verb, short_help="Make a spec file from a file of another tool.")
@click.argument("tool", metavar="|".join(_TOOLS), type=click.Choice(tuple(_TOOLS)))
@click.argument("file", type=click.Path(path_type=Path))
@table(
    """
    Options
    --scratch *  Use a scratch server instead of the file's server.
    -o --output (to) SPEC *  Write the spec to this file instead of standard output.
    """,
    to={"type": click.Path(path_type=Path, dir_okay=False)},
)
def command(tool: str, file: Path, to: Path | None, *, scratch: bool) -> int:
    """Make a spec file from a properties file of BenchmarkSQL or a script of HammerDB.

    The spec contains every key of the file that pgdyno supports. Comments at its start list all
    other keys. It never contains a password. A loop over HammerDB's virtual users becomes a sweep.
    pgdyno evaluates the parts of a HammerDB script that need only the text. Every other value, such
    as an environment variable, is listed with its line.
    """
    translated = _as_the_engine_has_it(_TOOLS[tool](read_text(file), str(file), is_scratch=scratch))
    text = spec_text(translated, file)
    for note in translated.notes:
        output.note(f"note: {note}")
    if to is None:
        output.data(text.rstrip())
    else:
        options.write_file(to, text)
        output.note(f"written: {to}; next: pgdyno run {to}")
    return 0


def _as_the_engine_has_it(translated: Translated) -> Translated:
    """Return the experiment without options that the engine does not have, with notes on them."""
    [script] = translated.experiment.workload.scripts
    builtin = engine_facts().builtin(script.builtin)
    known = {option.name: option for option in builtin.options} if builtin is not None else {}
    notes, options_left = list(translated.notes), {}
    for name, value in script.options.items():
        option = known.get(name)
        if option is not None and (option.range is not None or value in option.values):
            options_left[name] = value
        else:
            default = f"{option.values[0]} is used" if option is not None else "it is left out"
            notes.append(Note(name, value, f"this version does not have it, so {default}."))
    scripts = (script.model_copy(update={"options": options_left}),)
    workload = translated.experiment.workload.model_copy(update={"scripts": scripts})
    experiment = translated.experiment.model_copy(update={"workload": workload})
    return replace(translated, experiment=experiment, notes=tuple(notes))


def spec_text(translated: Translated, file: Path) -> str:
    """Return the spec file: comments on what does not correspond, then the experiment."""
    lines = [f"# From {file.name} of {translated.tool}."]
    if translated.notes:
        lines.append("# Not as in that file:")
    for note in translated.notes:
        # A broken word would hide a secret from the check of what is written.
        lines += textwrap.wrap(
            redacted(str(note)), _WIDTH, initial_indent="# - ", subsequent_indent="#   "
        )
    return "\n".join([*lines, "", to_toml(translated.experiment)])
