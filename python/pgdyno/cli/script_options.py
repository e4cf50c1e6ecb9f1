"""Reads the options that choose scripts: -b, -f, -S, -N, and the options of built-in programs.

It makes the scripts of a load, and chooses their default protocol.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgdyno.cli.program_help import program_field
from pgdyno.engine.engine_facts import engine_facts
from pgdyno.errors import SpecError
from pgdyno.programs.registry import FILE_PROGRAM
from pgdyno.quantities import is_whole
from pgdyno.spec.experiment import Protocol, Script
from pgdyno.spec.workload import default_script, weight_from
from pgdyno.user_file import read_text


def scripts_of(options: dict[str, Any], *, is_scratch: bool) -> tuple[Script, ...]:
    """Return the scripts of a load; without an option, the default script.

    Args: options, of the command line; is_scratch, whether pgdyno starts the server.
    Raises: SpecError for an unknown built-in, an option that no script uses, or a wrong weight.
    """
    own = pairs_of(options.get("builtin_option", ()), "--builtin-option") | _of_program(options)
    only_reads = bool(options.get("read_only"))
    divided = {name: tuple(options.get(name) or ()) for name in ("only", "without")}
    scripts = [_builtin(text, own, only_reads=only_reads) for text in options["builtin"]]
    scripts = [script.model_copy(update=divided if script.capture else {}) for script in scripts]
    scripts += [_builtin("select-only")] * bool(options["select_only"])
    scripts += [_builtin("simple-update")] * bool(options["skip_some_updates"])
    scripts += [_file(text) for text in options["file"]]
    _refuse_unused(own, scripts)
    if only_reads and not any(script.capture for script in scripts):
        raise SpecError(
            "--read-only has no effect: no script of this load is a capture.",
            hint="leave it out, or name the file of a capture: -b FILE",
        )
    for name, given in divided.items():
        if given and not any(script.capture for script in scripts):
            raise SpecError(
                f"--{name} has no effect: no script of this load is a capture.",
                hint="leave it out, or name the file of a capture: -b FILE",
            )
    return tuple(scripts or [default_script(is_scratch=is_scratch)])


def names_script(options: dict[str, Any]) -> bool:
    """Return whether the options of a command line choose a script."""
    return any(
        options.get(name) for name in ("builtin", "select_only", "skip_some_updates", "file")
    )


def _builtin(
    text: str, options: dict[str, str] | None = None, *, only_reads: bool = False
) -> Script:
    asked, weight = _weighted(text, "-b")
    if engine_facts().builtin(asked) is None and ({".", "/"} & set(asked) or Path(asked).exists()):
        if not Path(asked).is_file():
            raise SpecError(f"-b {asked}: no file has this name.", hint="pgdyno capture makes it")
        file = Path(asked).absolute()
        if FILE_PROGRAM is None:
            raise SpecError(
                f"-b {asked}: this installation of pgdyno cannot run a capture.",
                hint="install pgdyno with all its features, or give a script with -f",
            )
        return Script(builtin=FILE_PROGRAM, capture=file, reads_only=only_reads, weight=weight)
    builtin = engine_facts().builtin_beginning(asked)
    if builtin.name == FILE_PROGRAM:
        raise SpecError(
            f"-b {asked} needs the file of a capture.", hint="give the file: -b core.capture"
        )
    names = {option.name for option in builtin.options}
    own = {name: value for name, value in (options or {}).items() if name in names}
    return Script(builtin=builtin.name, weight=weight, options=own)


def _refuse_unused(own: dict[str, str], scripts: list[Script]) -> None:
    used = {name for script in scripts for name in script.options}
    for name in own.keys() - used:
        raise SpecError(
            f"--{name} {own[name]}: no built-in of this load has this option.",
            hint="-b list shows the options of each built-in; name the built-in with -b",
        )


def protocol_of(scripts: tuple[Script, ...]) -> Protocol:
    """Return the default protocol; native programs cannot use the simple protocol."""
    builtins = [script.builtin for script in scripts if script.builtin]
    known = engine_facts() if builtins else None
    programs = [known.builtin(name) for name in builtins] if known else []
    return "prepared" if any(builtin and builtin.is_native for builtin in programs) else "simple"


def _file(text: str) -> Script:
    name, weight = _weighted(text, "-f")
    path = Path(name)
    return Script(file=path, text=read_text(path), weight=weight)


def _weighted(text: str, option: str) -> tuple[str, int]:
    name, at, weight = text.rpartition("@")
    if not at:
        return text, 1
    if not is_whole(weight):
        raise SpecError(
            f"{option} {text}: the weight after @ must be a whole number, got {weight!r}.",
            hint=f"write {option} {name}@3, or {option} {text}@1 if the name contains an @",
        )
    return name, weight_from(weight, of=f"{option} {text}")


def pairs_of(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return NAME -> VALUE for an option with values NAME=VALUE, which can be repeated.

    Raises: SpecError for another form, or if a name is given twice.
    """
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise SpecError(
                f"{option} {text} must have the form NAME=VALUE.", hint=f"{option} name=value"
            )
        if name.strip() in pairs:
            raise SpecError(f"{option} {name.strip()} is given twice.", hint="set it once")
        pairs[name.strip()] = value.strip()
    return pairs


def _of_program(options: dict[str, Any]) -> dict[str, str]:
    """Return the options of built-in programs that the command line names."""
    names = {option.name for builtin in engine_facts().builtins for option in builtin.options}
    given = {name: options.get(program_field(name)) for name in sorted(names)}
    return {name: str(value) for name, value in given.items() if value is not None}
