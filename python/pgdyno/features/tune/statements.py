"""Values to apply, each with its reason and its undo: postgresql.conf and ALTER SYSTEM."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pgdyno.settings.rule import Needs

CONF_BEGINS = "# pgdyno "
"""The first characters of a file that a later --conf may replace."""
_COLUMNS = 96
NEEDS_WORDS: dict[Needs, str] = {
    "session": "needs a reload, or SET in a session",
    "reload": "needs a reload",
    "restart": "needs a restart",
    "new cluster": "needs new tables or a new cluster",
}


@dataclass(frozen=True, slots=True)
class Proposed:
    """A value to apply; `value` is empty, or `is_left`, if a person must decide."""

    name: str
    old: str
    value: str
    why: str
    needs: Needs = "reload"
    is_left: bool = False


def conf_text(head: Iterable[str], every: Sequence[Proposed], kept: Iterable[str] = ()) -> str:
    """Return the values as a file of postgresql.conf.

    Args: head, its first sentences; kept, about settings that keep their value.
    """
    restart = restart_words(every)
    then = f"then SELECT pg_catalog.pg_reload_conf(){f', and {restart}' if restart else ''}."
    said = (
        *head,
        "Apply: copy this file into the folder of postgresql.conf, add a last line"
        f" include 'NAME-OF-THIS-FILE', {then}",
        f"Undo: remove that line, {then} The old value is above each line.",
        "What ALTER SYSTEM set has precedence over this file: ALTER SYSTEM RESET NAME.",
    )
    lines = [line for words in said for line in _comment("#", words)]
    lines += [line for words in kept for line in ("", *_comment("#", words))]
    for proposed in every:
        value = quoted(proposed.value) if proposed.value else "..."
        mark = "# " if proposed.is_left else ""
        lines += ["", *_comment("#", f"{proposed.name} {_about(proposed)}")]
        if proposed.needs != "new cluster":
            lines.append(f"{mark}{proposed.name} = {value}")
    return "\n".join(lines) + "\n"


def alter_system(every: Sequence[Proposed]) -> str:
    """Return the statements that set everything, and those that undo them."""
    restarts = ", ".join(value.name for value in every if value.needs == "restart")
    lines = [f"-- needs a restart: {restarts}"] if restarts else []
    for proposed in every:
        lines += _comment("--", _about(proposed))
        if _is_by_hand(proposed):
            lines.append(f"-- {proposed.name} = {proposed.value}")
        else:
            lines.append(f"ALTER SYSTEM SET {proposed.name} = {quoted(proposed.value)};")
    names = [proposed.name for proposed in every if not _is_by_hand(proposed)]
    reload = "SELECT pg_catalog.pg_reload_conf();"
    undo = [*(f"ALTER SYSTEM RESET {name};" for name in names), reload]
    # No line ends within a statement.
    whole = " ".join(statement.replace(" ", "\0") for statement in undo)
    undone = [line.replace("\0", " ") for line in _comment("-- undo:", whole)]
    return "\n".join([*lines, reload, *(undone if names else [])])


def restart_words(every: Iterable[Proposed]) -> str:
    """Return "restart the server, for shared_buffers"; "" if nothing needs a restart."""
    names = [value.name for value in every if value.needs == "restart" and not _is_by_hand(value)]
    return f"restart the server, for {', '.join(names)}" if names else ""


def quoted(value: str) -> str:
    """Return a value as postgresql.conf and SQL write it."""
    return "'" + value.replace("'", "''") + "'"


def _about(proposed: Proposed) -> str:
    return f"was {proposed.old}; {NEEDS_WORDS[proposed.needs]}; {proposed.why}"


def _is_by_hand(proposed: Proposed) -> bool:
    return proposed.is_left or proposed.needs == "new cluster"


def _comment(mark: str, said: str) -> Iterator[str]:
    words = " ".join(said.split())
    yield from (
        f"{mark} {line}"
        for line in textwrap.wrap(words, _COLUMNS + 3 - len(mark), break_on_hyphens=False)
    )
