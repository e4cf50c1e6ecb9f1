"""Parse `--variant` texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pgdyno.errors import SpecError
from pgdyno.redaction import redacted
from pgdyno.settings.conf_file import read_conf
from pgdyno.settings.rule import nearest
from pgdyno.spec.dataset import DatasetChange
from pgdyno.spec.variant import POOLER_FORM, Variant, pooler_from
from pgdyno.spec.workload import script_named
from pgdyno.user_file import read_text

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
