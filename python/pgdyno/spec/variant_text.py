"""Parse `--variant` texts, and a postgresql.conf given as `@proposed.conf`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pgdyno.errors import SpecError
from pgdyno.redaction import redacted
from pgdyno.spec.dataset import DatasetChange
from pgdyno.spec.setting_rules import nearest
from pgdyno.spec.variant import POOLER_FORM, Variant, pooler_from
from pgdyno.spec.workload import script_named
from pgdyno.user_file import read_text

_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_$.]*)\s*(?:=\s*|\s+)"
    r"(?:'(?P<quoted>(?:[^'\\]|\\.|'')*)'|(?P<bare>[^\s'#=][^\s'#]*))\s*(?:#.*)?"
)
_INCLUDES = ("include", "include_if_exists", "include_dir")
# CONF_FILE_MAX_DEPTH of the server.
_DEPTH_MAX = 10


def read_conf(path: Path, *, depth: int = 0) -> dict[str, str]:
    """Return name -> value; if a name occurs twice the last value counts, as in the server.

    Included files are read where they are named, relative to the file that names them.
    Args: depth, how many files include this one, at most 10 as in the server.
    Raises: SpecError with file and line, for a line that the server would refuse.
    Source: PostgreSQL manual, "Managing Configuration File Contents".
    """
    text = read_text(path)
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SpecError(
                f"{path}:{number}: {line.strip()!r} is not name = value.",
                hint="quote values that contain blanks: name = 'value'",
            )
        name, quoted = match["name"].lower(), match["quoted"]
        value = match["bare"] if quoted is None else _conf_file_unquoted(quoted)
        if name not in _INCLUDES:
            settings[name] = value
            continue
        for included in _included_files(name, path.parent / value, place=f"{path}:{number}"):
            if depth == _DEPTH_MAX:
                raise SpecError(
                    f"{path}:{number}: {name}: files include each other more than "
                    f"{_DEPTH_MAX} deep.",
                    hint="remove the circle of includes",
                )
            settings |= read_conf(included, depth=depth + 1)
    return settings


def _included_files(name: str, named: Path, *, place: str) -> list[Path]:
    """Return the files that an include reads; of a folder those that the server reads, in order."""
    if name == "include_dir" and named.is_dir():
        try:
            names = sorted(file.name for file in named.iterdir() if not file.is_dir())
        except OSError as error:
            raise SpecError(
                f"{place}: {name}: {named} cannot be read: {error.strerror}.",
                hint="check the privileges on that folder",
            ) from None
        return [named / n for n in names if n.endswith(".conf") and not n.startswith(".")]
    if name == "include_if_exists" and not named.exists():
        return []
    if name == "include_dir" or not named.exists():
        kind = "folder" if name == "include_dir" else "file"
        raise SpecError(
            f"{place}: {name}: there is no {kind} {named}.",
            hint=f"copy that {kind} to this place, or remove the line",
        )
    return [named]


def _conf_file_unquoted(text: str) -> str:
    return re.sub(r"''|\\(.)", lambda match: match[1] or "'", text)


_FORM = '--variant "NAME: KEY=VALUE; KEY=VALUE"'
_PLACES = {
    "bin": "bin",
    "data-dir": "data_dir",
    "wal-dir": "wal_dir",
    "wal-segment": "wal_segment",
}
_PLAIN = (
    "version",
    "dsn",
    "admin",
    "path",
    "standby",
    "clients",
    "idle",
    "active",
    "protocol",
    "checksums",
    "price",
)
_DATASET = tuple(DatasetChange.model_fields)
KEYS = (*_PLACES, *_PLAIN, *_DATASET, "pooler", "sql", "script")
_IS_CHANGE = re.compile(r"\s*(@|[A-Za-z_][\w.-]*\s*=)")
_NAME_LENGTH = 60
# The text between semicolons; a semicolon within quotes does not end a part.
_PARTS = re.compile(r"""((?:[^;'"]|'[^']*'|"[^"]*")*)(?:;|$)""")


def variant_from(text: str) -> Variant:
    """Parse one --variant; its name ends at the first colon.

    A variant without a name (`work_mem=1MB`) is named after its changes. KEY is one of `KEYS`,
    `@FILE` (a postgresql.conf), or else a setting. `sql` and `@` may name files. Quotes protect a
    semicolon inside a value.
    Raises: SpecError that quotes the wrong part.
    """
    name, rest = _name_and_rest(text)
    fields: dict[str, Any] = {"name": name, "settings": {}, "dataset": {}}
    seen: set[str] = set()
    for part in (text_of_part.strip() for text_of_part in _PARTS.findall(rest)):
        if part.startswith("@"):
            fields["settings"] |= read_conf(Path(part[1:].strip()))
        elif part:
            _take(part, fields, text, seen)
    try:
        return Variant.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        if first["type"] == "string_too_short":
            raise SpecError(f"--variant {text!r}: the {place} is empty.", hint=_FORM) from None
        said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        raise SpecError(
            f"--variant {text!r}: {place} {said}, got {first['input']!r}.",
            hint=POOLER_FORM if place.startswith("pooler") else _FORM,
        ) from None


def _name_and_rest(text: str) -> tuple[str, str]:
    """Return the name and the changes; a text without a name is its own name."""
    name, colon, rest = text.partition(":")
    is_named = colon and all(_IS_CHANGE.match(p) for p in _PARTS.findall(rest) if p.strip())
    if is_named or not _IS_CHANGE.match(text):
        return name.strip(), rest
    words = redacted(" ".join(text.split()))
    return words if len(words) <= _NAME_LENGTH else f"{words[: _NAME_LENGTH - 3]}...", text


def _take(part: str, fields: dict[str, Any], text: str, seen: set[str]) -> None:
    key, equals, value = part.partition("=")
    key, value = key.strip(), _variant_text_unquoted(value.strip())
    if not equals or not key:
        raise SpecError(f"--variant {text!r}: {part!r} is not KEY=VALUE.", hint=_FORM)
    plain = key.replace("-", "_")
    if plain.lower() in seen and key != "script":
        raise SpecError(f"--variant {text!r}: {key} is given twice.", hint="leave out one of them")
    seen.add(plain.lower())
    if (dashed := key.replace("_", "-")) in _PLACES:
        fields[_PLACES[dashed]] = value
    elif key in _PLAIN:
        fields[key] = value
    elif plain in _DATASET:
        fields["dataset"][plain] = value
    elif key == "pooler":
        fields["pooler"] = pooler_from(value)
    elif key == "sql":
        fields["sql"] = read_text(Path(value[1:])) if value.startswith("@") else value
    elif key == "script":
        fields["scripts"] = [*fields.get("scripts", []), script_named(value)]
    elif "-" in key:
        like = nearest(key, list(KEYS))
        raise SpecError(
            f"--variant {text!r}: {key} is not a known "
            f"key{f': did you mean {like}?' if like else ''}",
            hint=f"a setting, @FILE, or one of {', '.join(KEYS)}",
        )
    else:
        fields["settings"][key.lower()] = value


def _variant_text_unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
