"""JSON documents of a column, with stand-ins for their texts, numbers and keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,29}")
# A document with more brackets than this is taken as one text.
_BRACKETS_MAX = 200


def texts_of(documents: Sequence[str]) -> set[str]:
    """Return the texts in these documents, without keys that stay."""
    kept = kept_keys(documents)
    return {v for d in documents for v in _leaves(_read(d)) if isinstance(v, str)} - kept


def numbers_of(documents: Sequence[str]) -> list[Decimal]:
    """Return the different numbers in these documents, ascending."""
    leaves = (leaf for document in documents for leaf in _leaves(_read(document)))
    return sorted({leaf for leaf in leaves if isinstance(leaf, Decimal)})


def kept_keys(documents: Sequence[str], names: AbstractSet[str] = frozenset()) -> frozenset[str]:
    """Return the keys that most documents share: part of the schema, not of a row.

    Args: names, of the schema; such a key stays in any case.
    """
    seen: dict[str, int] = {}
    for document in documents:
        for name in set(re.findall(r'"((?:[^"\\]|\\.)*)"\s*:', document)):
            seen[name] = seen.get(name, 0) + 1
    half = len(documents) / 2
    return frozenset(
        name
        for name, count in seen.items()
        if name in names or (len(documents) > 1 and count > half and _KEY.fullmatch(name))
    )


def replaced(
    document: str,
    keys: AbstractSet[str],
    text: Callable[[str], str],
    numbers: Mapping[Decimal, Decimal],
) -> str:
    """Return the document with stand-ins.

    Args: keys, that stay; text and numbers, the stand-ins of texts and of numbers.
    """

    def other(value: Any) -> Any:
        if isinstance(value, dict):
            return {(k if k in keys else text(k)): other(item) for k, item in value.items()}
        if isinstance(value, list):
            return [other(item) for item in value]
        if isinstance(value, Decimal):
            moved = numbers.get(value, Decimal(0))
            return int(moved) if moved == int(moved) else float(moved)
        return text(value) if isinstance(value, str) else value

    return json.dumps(other(_read(document)), ensure_ascii=False)


def place_of(document: str) -> Any:
    """Return what orders documents as jsonb does.

    Limits: texts are compared by their characters.
    """
    return _place(_read(document))


def _place(value: Any) -> tuple[Any, ...]:
    # From jsonb's manual: object > array > boolean > number > string > null.
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: (len(pair[0].encode()), pair[0]))
        return (5, len(pairs), *((k, *_place(item)) for k, item in pairs))
    if isinstance(value, list):
        return (4, len(value), *map(_place, value))
    rank = {bool: 3, Decimal: 2, str: 1}.get(type(value), 0)
    return (rank, value if rank else 0)


def _read(document: str) -> Any:
    """Return the parsed document; any other text stands for itself."""
    if document.count("[") + document.count("{") > _BRACKETS_MAX:
        return document
    try:
        return json.loads(document, parse_float=Decimal, parse_int=Decimal)
    except ValueError:
        return document


def _leaves(value: Any) -> Iterator[Any]:
    """Yield all texts, numbers and keys."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
