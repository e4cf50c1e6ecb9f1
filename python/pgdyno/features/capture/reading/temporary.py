"""Temporary tables of a load: made, used and dropped within one transaction of a mirror.

A client of a mirror is a session that repeats its transactions. So a table must be gone when its
transaction ends: by ON COMMIT DROP, or by a DROP TABLE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pgdyno.features.capture.reading.names import TEMPORARY, Names

Tree = Mapping[str, Any]
_BEGINNING = re.compile(
    r"CREATE\s+(?:(?:LOCAL|GLOBAL)\s+)?TEMP(?:ORARY)?\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r'(?:pg_temp\s*\.\s*)?([a-z_]\w*|"[^"]+")\s*',
    re.I,
)
_MADE = re.compile(r"CREATE TEMP TABLE IF NOT EXISTS (\S+) (.*)", re.S)
_DROPPED = re.compile(r"DROP TABLE IF EXISTS pg_temp\.(\S+)")
_ON_COMMIT = re.compile(r"\bON\s+COMMIT\s+DROP\b", re.I)
# A longer number in a name may be a value.
_NUMBERED = re.compile(r"\d{4}")


def created(text: str, node: str, tree: Tree, names: Names) -> str:
    """Return the text that makes a temporary table, and note its columns; "" if it cannot be sent.

    With IF NOT EXISTS: if a transaction failed, the table may be there from the time before.
    """
    relation = tree["relation"] if node == "CreateStmt" else tree["into"]["rel"]
    matched, name = _BEGINNING.match(text), relation["relname"]
    is_known = names.table(None, name).startswith(f"{TEMPORARY}.") or not names.table(None, name)
    if matched is None or _NUMBERED.search(name) or '"' in matched[1] or not is_known:
        return ""
    columns = list(_columns(tree, names) if node == "CreateStmt" else _results(tree, names))
    if "" in columns or tree.get("inhRelations"):
        return ""
    names.add_temporary(name, columns)
    return f"CREATE TEMP TABLE IF NOT EXISTS {name} {text[matched.end() :]}"


def dropped(tree: Tree, names: Names) -> str:
    """Return the text that drops a temporary table; "" for other tables, and for several."""
    objects = [item["List"]["items"] for item in tree["objects"] if "List" in item]
    if tree["removeType"] != "OBJECT_TABLE" or len(objects) != 1:
        return ""
    parts = [part["String"]["sval"] for part in objects[0]]
    schema = parts[0] if len(parts) > 1 else None
    table = names.table(schema, parts[-1])
    return f"DROP TABLE IF EXISTS {table}" if table.startswith(f"{TEMPORARY}.") else ""


def is_temporary(node: str, tree: Tree) -> bool:
    """Return whether a statement makes a temporary table."""
    relation = {"CreateStmt": tree.get("relation"), "CreateTableAsStmt": tree.get("into", {})}
    made = relation.get(node) or {}
    return bool(made.get("rel", made).get("relpersistence") == "t")


def tables_begun(text: str) -> int:
    """Return 1 if a statement makes a table that another one must drop, -1 if it drops one."""
    made = _MADE.match(text)
    if made is not None:
        return 0 if _ON_COMMIT.search(made[2]) else 1
    return -1 if _DROPPED.match(text) else 0


def can_be_sent(texts: Sequence[str], used: Iterable[Iterable[str]]) -> Iterator[bool]:
    """Yield for each statement of a transaction whether its temporary tables are there, and go.

    Args: used, the temporary tables that each statement uses.
    """
    is_block = bool(texts) and texts[0].upper().startswith(("BEGIN", "START"))
    there = set[str]()
    drops = [(place, drop[1]) for place, t in enumerate(texts) if (drop := _DROPPED.match(t))]
    for place, (text, names) in enumerate(zip(texts, used, strict=True)):
        made, dropped_ = _MADE.match(text), _DROPPED.match(text)
        if made is not None:
            goes = is_block and _ON_COMMIT.search(made[2]) is not None
            goes |= any(at > place and name == made[1] for at, name in drops)
            there |= {made[1]} if goes else set()
            yield goes and set(names) <= there
        elif dropped_ is not None:
            yield dropped_[1] in there
            there.discard(dropped_[1])
        else:
            yield set(names) <= there


def _columns(tree: Tree, names: Names) -> Iterator[str]:
    """Yield the columns of CREATE TABLE; "" for a part that is not known."""
    for item in tree.get("tableElts", ()):
        if "ColumnDef" in item:
            yield item["ColumnDef"]["colname"]
        elif "TableLikeClause" in item:
            other = item["TableLikeClause"]["relation"]
            yield from names.columns(names.table(other.get("schemaname"), other["relname"])) or (
                "",
            )


def _results(tree: Tree, names: Names) -> Iterator[str]:
    """Yield the columns of CREATE TABLE AS; "" for one that has no name in the text."""
    named = [item["String"]["sval"] for item in tree["into"].get("colNames", ())]
    if named:
        yield from named
        return
    select = tree["query"].get("SelectStmt", {})
    ranges = [item["RangeVar"] for item in select.get("fromClause", ()) if "RangeVar" in item]
    for item in select.get("targetList", ()):
        target = item["ResTarget"]
        value = target.get("val", {})
        fields = value.get("ColumnRef", {}).get("fields", ({},))
        if "A_Star" in fields[-1]:
            for other in ranges:
                yield from names.columns(names.table(other.get("schemaname"), other["relname"]))
        elif "FuncCall" in value and "name" not in target:
            yield value["FuncCall"]["funcname"][-1]["String"]["sval"]
        else:
            yield target.get("name") or fields[-1].get("String", {}).get("sval", "")
