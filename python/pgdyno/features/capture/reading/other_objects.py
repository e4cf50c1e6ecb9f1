"""Objects that others need: ranges, collations, aggregates, text search; and what is not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from pgdyno.features.capture.reading import catalog
from pgdyno.features.capture.schema import SchemaObject, as_literal

Fetch = Callable[[str], list[tuple[Any, ...]]]
_PROVIDERS = {"i": "icu", "c": "libc", "b": "builtin"}
_PARALLEL = {"s": "safe", "r": "restricted"}
_LISTED_MAX = 10
_BIGINT_MAX, _BIGINT_MIN = 2**63 - 1, -(2**63)


def other_objects(fetch: Fetch, notes: list[str]) -> Iterator[SchemaObject]:
    """Yield collations, ranges, aggregates and text search; add a note for what is not kept."""
    yield from _collations(fetch)
    for name, subtype, collation, difference, multirange in fetch(catalog.RANGES_SQL):
        options = [f"subtype = {subtype}"]
        options += [f"collation = {collation}"] if collation else []
        options += [f"subtype_diff = {difference}"] if difference else []
        options += [f"multirange_type_name = {multirange}"] if multirange else []
        sql = f"CREATE TYPE {name} AS RANGE ({', '.join(options)})"
        yield SchemaObject(kind="type", name=name, sql=sql)
    yield from _aggregates(fetch)
    yield from _text_search(fetch)
    for kind, rows in groupby(fetch(catalog.NOT_KEPT_SQL), key=lambda row: row[0]):
        names = [str(row[1]) for row in rows]
        listed = ", ".join(names[:_LISTED_MAX]) + (", ..." if len(names) > _LISTED_MAX else "")
        notes.append(f"{kind}: not in the capture: {listed}")


def sequence_options(
    increment: int, cache: int, cycles: bool, least: int, most: int, start: int
) -> str:
    """Return the options of a sequence as SQL. Bounds that follow from its type are left out."""
    usual = {_BIGINT_MAX, 2**31 - 1, 2**15 - 1} if increment > 0 else {-1}
    usual_least = {1} if increment > 0 else {_BIGINT_MIN, -(2**31), -(2**15)}
    sql = f" INCREMENT {increment}"
    sql += f" MINVALUE {least}" if least not in usual_least else ""
    sql += f" MAXVALUE {most}" if most not in usual else ""
    sql += f" START {start}" if start != (least if increment > 0 else most) else ""
    return sql + f" CACHE {cache}" + (" CYCLE" if cycles else "")


def _collations(fetch: Fetch) -> Iterator[SchemaObject]:
    for name, provider, locale, ctype, is_deterministic in fetch(catalog.COLLATIONS_SQL):
        options = [f"provider = {_PROVIDERS.get(provider, 'libc')}"]
        if provider == "c" and ctype != locale:
            options += [f"lc_collate = {as_literal(locale)}", f"lc_ctype = {as_literal(ctype)}"]
        else:
            options.append(f"locale = {as_literal(locale)}")
        options += [] if is_deterministic else ["deterministic = false"]
        sql = f"CREATE COLLATION {name} ({', '.join(options)})"
        yield SchemaObject(kind="collation", name=name, sql=sql)


def _aggregates(fetch: Fetch) -> Iterator[SchemaObject]:
    for name, arguments, change, state, final, combine, first, parallel in fetch(
        catalog.AGGREGATES_SQL
    ):
        options = [f"sfunc = {change}", f"stype = {state}"]
        options += [f"finalfunc = {final}"] if final else []
        options += [f"combinefunc = {combine}"] if combine else []
        options += [f"initcond = {as_literal(first)}"] if first is not None else []
        options += [f"parallel = {_PARALLEL[parallel]}"] if parallel in _PARALLEL else []
        sql = f"CREATE AGGREGATE {name}({arguments or '*'}) ({', '.join(options)})"
        signature = f"{name}({arguments or '*'})"
        yield SchemaObject(kind="aggregate", name=signature, sql=sql)


def _text_search(fetch: Fetch) -> Iterator[SchemaObject]:
    for name, template, options in fetch(catalog.SEARCH_DICTIONARIES_SQL):
        more = f", {options}" if options else ""
        sql = f"CREATE TEXT SEARCH DICTIONARY {name} (TEMPLATE = {template}{more})"
        yield SchemaObject(kind="search_dictionary", name=name, sql=sql)
    rows = fetch(catalog.SEARCH_CONFIGURATIONS_SQL)
    for (name, parser), tokens in groupby(rows, key=lambda row: (row[0], row[1])):
        sql = f"CREATE TEXT SEARCH CONFIGURATION {name} (PARSER = {parser})"
        yield SchemaObject(kind="search_configuration", name=name, sql=sql)
        for dictionaries, own in groupby(
            sorted((row[3] or "", row[2]) for row in tokens), key=lambda row: row[0]
        ):
            if dictionaries:
                listed = ", ".join(alias for _, alias in own)
                sql = f"ALTER TEXT SEARCH CONFIGURATION {name} ADD MAPPING FOR {listed}"
                sql += f" WITH {dictionaries}"
                yield SchemaObject(kind="search_configuration", name=name, sql=sql)
