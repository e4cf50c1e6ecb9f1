"""A postgresql.conf as the settings it sets: for variants given as `@proposed.conf`."""

from __future__ import annotations

import re
from pathlib import Path

from pgdyno.errors import SpecError
from pgdyno.spec.script_files import read_text

_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_$.]*)\s*(?:=\s*|\s+)"
    r"(?:'(?P<quoted>(?:[^'\\]|\\.|'')*)'|(?P<bare>[^\s'#=][^\s'#]*))\s*(?:#.*)?"
)
_INCLUDES = ("include", "include_if_exists", "include_dir")


def read_conf(path: Path) -> dict[str, str]:
    """Return name -> value; of a name given twice the last counts, as in the server.

    Raises: SpecError with file and line for what the server would not read, and for an include.
    """
    text = read_text(path)
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise SpecError(
                f"{path}:{number}: {line.strip()!r} is not name = value.",
                hint="quote values that have blanks: name = 'value'",
            )
        name = found["name"].lower()
        if name in _INCLUDES:
            raise SpecError(
                f"{path}:{number}: {name} is not followed.", hint="copy the file's settings here"
            )
        quoted = found["quoted"]
        settings[name] = found["bare"] if quoted is None else _unquoted(quoted)
    return settings


def _unquoted(text: str) -> str:
    return re.sub(r"''|\\(.)", lambda match: match[1] or "'", text)
