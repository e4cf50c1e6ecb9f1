"""The text of an array as PostgreSQL writes it, such as `{1,NULL,"a,b"}`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"{}]+)', re.DOTALL)
_SPECIAL = re.compile(r'(["\\])')


def items_in(array: str) -> list[str | None]:
    """Return the elements; None for NULL. Those of inner arrays follow each other."""
    return [
        re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        if not bare
        else (None if bare.upper() == "NULL" else bare)
        for quoted, bare in _ELEMENT.findall(array)
    ]


def quoted_items(items: Iterable[str | None], *, null: str) -> str:
    """Return elements or fields in quotes, with commas between them. Args: null, for None."""
    return ",".join(null if i is None else '"' + _SPECIAL.sub(r"\\\1", i) + '"' for i in items)
