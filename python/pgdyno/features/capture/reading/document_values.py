"""JSON documents of a log whose parts are keys: they are made anew, with keys of the copy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import Constant, Drawn, ListOf, OfColumn, Record, Source
from pgdyno.features.capture.reading.documents import kept_keys
from pgdyno.features.capture.reading.log_distributions import distribution_of, kind_of
from pgdyno.features.capture.reading.observed import Observed
from pgdyno.features.capture.reading.parsed import Parsed

# How many documents show the form, and the share of them that must have it.
_LOOK, _NEARLY_ALL = 1_000, 0.9


def with_documents(
    sources: Sequence[Source], observed: Sequence[Observed], parsed: Parsed
) -> list[Source]:
    """Return the sources of a step. Documents have the keys of rows where it compares them.

    Args: observed, the values of each parameter. A key in the text of the statement stays if the
    documents that it is sent have it.
    """
    made = list(sources)
    if not parsed.document_keys and not parsed.documents:
        return made
    jsons = [own for own in observed if kind_of(own, None, None) == "json"]
    keys = kept_keys([text for own in jsons for text in own.known()])
    for number in parsed.document_keys:
        known = set(observed[number - 1].known()) if number <= len(observed) else set()
        if len(known) == 1 and known <= keys:
            made[number - 1] = Constant(value=known.pop())
    for number, parts in parsed.documents.items():
        if number > len(observed):
            continue
        places = {_name(name, made): place for name, place in parts.items()}
        if source := _document(observed[number - 1], keys, places):
            made[number - 1] = source
    return made


def _name(name: str | int, sources: Sequence[Source]) -> str | None:
    """Return the key of a part; None if it is not known."""
    if isinstance(name, str):
        return name
    source = sources[name - 1] if name <= len(sources) else None
    return source.value if isinstance(source, Constant) else None


def _document(
    observed: Observed, keys: frozenset[str], places: Mapping[str | None, tuple[str, str]]
) -> Source | None:
    """Return how documents of one form are made; None if they have several forms."""
    read = [_read(text) for text in observed.known()[:_LOOK]]
    lists = [[own] if isinstance(own, dict) else own for own in read]
    rows = [row for own in lists if isinstance(own, list) for row in own if isinstance(row, dict)]
    if not rows or len({isinstance(own, list) for own in read}) != 1:
        return None
    [(names, count)] = Counter(tuple(row) for row in rows).most_common(1)
    flat = [row for row in rows if tuple(row) == names and not any(map(_is_nested, row.values()))]
    is_known = set(names) <= keys and set(places) & set(names)
    if not is_known or min(count, len(flat)) < _NEARLY_ALL * len(rows):
        return None
    fields = [
        OfColumn(table=places[name][0], column=places[name][1])
        if name in places
        else _part(observed, [row[name] for row in flat])
        for name in names
    ]
    bare = [at for at, name in enumerate(names) if not any(isinstance(r[name], str) for r in flat)]
    record = Record(fields=tuple(fields), names=names, bare=tuple(bare))
    if not isinstance(read[0], list):
        return record
    sizes = [len(own) for own in lists]
    length = Spread(least=min(sizes), mean=sum(sizes) / len(sizes), most=max(sizes))
    return ListOf(of=record, length=length, is_json=True)


def _part(observed: Observed, values: Sequence[Any]) -> Source:
    texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    own = replace(observed, type="", instances=(), values=texts, times_s=(), sessions=())
    return Drawn(distribution=distribution_of(own, kind_of(own, None, None)))


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
