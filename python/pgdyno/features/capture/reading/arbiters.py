"""The unique index that ON CONFLICT names, as the schema has it: its constants are the schema's.

The server looks for the index when it plans, so a parameter in place of a constant finds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pgparse

from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.trees import nodes
from pgdyno.features.capture.schema import SchemaObject

_NUMBERED = re.compile(r"\$(\d+)")
_PREDICATE = re.compile(r"\)\s*(?:NULLS NOT DISTINCT\s*)?WHERE\s")
_ORDER = re.compile(r"\s+(?:ASC|DESC)\b|\s+NULLS (?:FIRST|LAST)\b")
# A quoted name or text, a word, or one other character.
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$?\w+|.""", re.S)


@dataclass(frozen=True, slots=True)
class Arbiter:
    """What ON CONFLICT may name. `columns`: of its keys and of its predicate. `constants`: both."""

    text: str
    columns: tuple[frozenset[str], frozenset[str]]
    constants: tuple[str, ...]


def arbiters_of(objects: Iterable[SchemaObject]) -> dict[str, list[Arbiter]]:
    """Return the unique indexes of each table that have a constant."""
    made: dict[str, list[Arbiter]] = {}
    for item in objects:
        if item.kind != "index" or not item.sql.startswith("CREATE UNIQUE"):
            continue
        try:
            index = pgparse.parse(item.sql)[0]["stmt"]["IndexStmt"]
        except pgparse.PGQueryError:
            continue
        if not index.get("indexParams") or not (constants := _constants(index)):
            continue
        tokens = list(_TOKEN.finditer(item.sql))
        start = next(t.start() for t in tokens if t[0] == "(")
        keys = item.sql[start : _closed(item.sql, start)]
        where = _PREDICATE.search(item.sql) if "whereClause" in index else None
        text = _ORDER.sub("", keys) + (f" WHERE {item.sql[where.end() :]}" if where else "")
        columns = _columns(index["indexParams"]), _columns(index.get("whereClause"))
        made.setdefault(item.table, []).append(Arbiter(text, columns, constants))
    return made


def places_of(sql: str) -> list[tuple[int, int]]:
    """Return where a text names the index of an ON CONFLICT, in characters."""
    try:
        return [(start, end) for start, end, _ in _named(sql, pgparse.parse(sql))]
    except (pgparse.PGQueryError, RecursionError):
        return []


def with_index(sql: str, tree: Any, names: Names) -> str:
    """Return a statement whose ON CONFLICT has the text of the schema.

    Parameters that go are not counted: the others have numbers without a gap.
    """
    made, last = "", 0
    for start, end, insert in _named(sql, tree):
        if (chosen := _chosen(insert, names)) is not None:
            made += f"{sql[last:start]}{chosen.text} "
            last = end
    if not last:
        return sql
    made += sql[last:]
    left = sorted({int(number) for number in _NUMBERED.findall(made)})
    numbers = {old: new for new, old in enumerate(left, 1)}
    return _NUMBERED.sub(lambda n: f"${numbers[int(n[1])]}", made)


def without_index(tree: Any, names: Names) -> Any:
    """Return a tree without what ON CONFLICT names, where that is the schema's own text."""
    if isinstance(tree, list):
        return [without_index(part, names) for part in tree]
    if not isinstance(tree, dict) or not names.arbiters:
        return tree
    made = {name: without_index(part, names) for name, part in tree.items()}
    clause = tree.get("onConflictClause", {})
    if (infer := clause.get("infer")) is not None and "relation" in tree:
        chosen = _chosen(tree, names)
        if chosen is not None and chosen.constants == _constants(infer):
            made["onConflictClause"] = {**made["onConflictClause"], "infer": {}}
    return made


def _named(sql: str, tree: Any) -> list[tuple[int, int, Mapping[str, Any]]]:
    """Return the places, in their order, and the INSERT of each."""
    raw, places = sql.encode(), []
    for name, insert in nodes(tree):
        infer = insert.get("onConflictClause", {}).get("infer") if name == "InsertStmt" else None
        if infer is not None and "conname" not in infer:
            start = len(raw[: infer["location"]].decode(errors="ignore"))
            places.append((start, _end(sql, start), insert))
    return sorted(places, key=lambda place: place[0])


def _chosen(insert: Mapping[str, Any], names: Names) -> Arbiter | None:
    relation, infer = insert["relation"], insert["onConflictClause"]["infer"]
    known = names.arbiters.get(names.table(relation.get("schemaname"), relation["relname"]), ())
    columns = _columns(infer.get("indexElems")), _columns(infer.get("whereClause"))
    fitting = [arbiter for arbiter in known if arbiter.columns == columns]
    constants = _constants(infer)
    exact = [arbiter for arbiter in fitting if arbiter.constants == constants]
    has_numbers = any(name == "ParamRef" for name, _ in nodes(infer))
    # A constant that no index has is a value. Without constants, one index is meant.
    chosen = exact if constants and not has_numbers else fitting
    return chosen[0] if len(chosen) == 1 else None


def _columns(tree: Any) -> frozenset[str]:
    columns: set[str] = set()
    for name, part in nodes({"": tree}):
        if name == "IndexElem" and "name" in part:
            columns.add(part["name"])
        elif name == "ColumnRef":
            columns |= {last["String"]["sval"] for last in part["fields"][-1:] if "String" in last}
    return frozenset(columns)


def _constants(tree: Any) -> tuple[str, ...]:
    parts = (part for name, part in nodes(tree) if name == "A_Const" and not part.get("isnull"))
    values = ((part.get("sval") or part.get("ival") or part.get("fval")) for part in parts)
    # A list in an index has another form than in the statement, but the same values.
    texts = (str(next(iter(value.values()))) for value in values if value)
    return tuple(sorted(text.lstrip("-") for text in texts))


def _closed(sql: str, start: int) -> int:
    """Return the end of the parentheses that open at a place."""
    depth = 0
    for token in _TOKEN.finditer(sql, start):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 and token[0] == ")":
            return token.end()
    return len(sql)


def _end(sql: str, start: int) -> int:
    """Return the place of the DO that ends what ON CONFLICT names."""
    depth = 0
    for token in _TOKEN.finditer(sql, start):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 and token[0].upper() == "DO":
            return token.start()
    return len(sql)
