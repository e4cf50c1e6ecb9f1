"""`pgdyno completion SHELL`: what the Tab key offers, as a script of the shell.

The script holds every verb, option and word as data, and a small awk program that chooses from
them. Only results are read while the user types: from the index of the store. So Tab starts no
Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import click

from pgdyno.cli import output, wanted
from pgdyno.cli.headings import Verb, first_words
from pgdyno.errors import PgdynoError

if wanted.body(__name__):
    from pgdyno.cli.help import topics
    from pgdyno.engine.engine_facts import engine_facts
    from pgdyno.settings.rule import MAJORS, snapshot
    from pgdyno.store.schema import tables

SHELLS = ("bash", "zsh", "fish")
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/pgdyno",
    "zsh": "_pgdyno in a folder of $fpath, such as ~/.zfunc",
    "fish": "~/.config/fish/completions/pgdyno.fish",
}
# Operands and options whose values are not in their types: by the name of the parameter.
_VALUES = {
    **dict.fromkeys(("result", "first", "second", "resume"), "@result"),
    **dict.fromkeys(("settings", "setting", "searched"), "@setting"),
    "variants": "@variant",
    "conninfo": "@conninfo",
    "builtin": "@builtin",
    "spec": "@file toml",
    **{"host": "@place 1", "port": "@place 2", "database": "@place 3"},
    **dict.fromkeys(("user", "username"), "@place 4"),
}
# The endings of the files of an option: by verb and parameter, or for any verb.
_ENDINGS = {
    ("settings", "file"): "conf",
    ("init capture", "file"): "capture",
    ("capture", "path"): "capture",
    ("capture", "to"): "capture",
    "file": "sql",
    "files": "sql",
    "sql": "sql",
}


@click.command("completion", cls=Verb, short_help="Print the completion of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print a script that lets the Tab key complete verbs, options and values.

    Standard error says where to put the script.
    """
    output.data(script_of(shell).rstrip())
    output.note(f"put it into {_PLACES[shell]}; a new {shell} then completes pgdyno")
    return 0


def script_of(shell: str) -> str:
    """Return the script for one of `SHELLS`."""
    folder = files("pgdyno.cli").joinpath("shells")
    program = folder.joinpath("candidates.awk").read_text(encoding="utf-8")
    text = folder.joinpath(f"completion.{shell}").read_text(encoding="utf-8")
    lines = "\n".join(_lines())
    if shell == "fish":
        program, lines = (
            part.replace("\\", "\\\\").replace("'", "\\'") for part in (program, lines)
        )
    return text.replace("@AWK@", program).replace("@DATA@", lines)


def _lines() -> Iterator[str]:
    """Yield the input of candidates.awk."""
    from pgdyno.cli.main import VERBS, pgdyno

    root = click.Context(pgdyno, info_name="pgdyno")
    for verb in VERBS:
        command = pgdyno.get_command(root, verb)
        assert command is not None
        yield _line("V", verb, VERBS[verb])
        yield from _of_command(command, verb, root)
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=verb, parent=root)
            for kind in command.list_commands(context):
                below = command.get_command(context, kind)
                assert below is not None
                yield _line("V", f"{verb} {kind}", below.get_short_help_str())
                yield from _of_command(below, f"{verb} {kind}", context)
    yield from (_line("S", name) for name in _setting_names())
    try:
        yield from (_line("B", b.name, first_words(b.description)) for b in engine_facts().builtins)
    except PgdynoError:
        return


def _of_command(command: click.Command, verb: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=verb, parent=parent)
    if isinstance(command, click.Group):  # Without a kind, the first one is meant.
        first = command.get_command(context, command.list_commands(context)[0])
        assert first is not None
        yield from _of_command(first, verb, parent)
        return
    place = 0
    for parameter in command.get_params(context):
        kind = _kind_of(parameter, verb)
        if isinstance(parameter, click.Option):
            names = sorted(parameter.opts, key=lambda name: name.startswith("--"))
            long_first = " ".join(sorted(names, key=len))
            yield _line("O", verb, long_first, kind, first_words(parameter.help or ""))
        else:
            place += 1
            yield _line("A", verb, "*" if parameter.nargs == -1 else str(place), kind)


def _kind_of(parameter: click.Parameter, verb: str) -> str:
    """Return the values of a parameter as candidates.awk reads them; "" for a flag."""
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return ""
    name = parameter.name or ""
    if isinstance(parameter.type, click.Choice):
        return "|".join(str(choice) for choice in parameter.type.choices)
    if verb == "export" and name == "name":
        return "|".join(("runs", *tables()))
    if verb == "help" and name == "topic":
        return "|".join(topic for topic in topics() if " " not in topic)
    if name in _VALUES and (verb, name) not in _ENDINGS:
        return _VALUES[name]
    is_path = isinstance(parameter.type, click.Path) or (parameter.metavar or "").startswith("FILE")
    if is_path or (verb, name) in _ENDINGS or name == "json_to":
        if isinstance(parameter.type, click.Path) and not parameter.type.file_okay:
            return "@folder"
        ending = _ENDINGS.get((verb, name)) or _ENDINGS.get(name, "")
        return f"@file {ending}".rstrip()
    if name.endswith(("_dir", "store")):
        return "@folder"
    return "@none"


@cache
def _setting_names() -> tuple[str, ...]:
    return tuple(sorted({name for major in MAJORS for name in snapshot(major)}))


def _line(*parts: str) -> str:
    return "\t".join(" ".join(part.split()) for part in parts)
