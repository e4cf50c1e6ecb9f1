"""Parts of a statement as PostgreSQL's grammar has them: names, parameters, types, calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Tree = Mapping[str, Any]
# Names of the grammar, as the server shows them.
_SHOWN = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "bool": "boolean",
    "float4": "real",
    "float8": "double precision",
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
    "time": "time without time zone",
    "varchar": "character varying",
    "bpchar": "character",
}


def nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the content of each part of a tree."""
    # A text with thousands of values has a large tree, and is walked many times.
    left: list[tuple[str, Any]] = [("", tree)]
    while left:
        name, part = left.pop()
        if isinstance(part, dict):
            if name:
                yield name, part
            left.extend(reversed(part.items()))
        elif isinstance(part, list):
            left.extend(("", item) for item in reversed(part))


def words_of(parts: Any) -> list[str]:
    """Return the texts of a list, such as the parts of a name."""
    return [part["String"]["sval"] for part in parts or () if "String" in part]


def last_word(parts: Any) -> str:
    """Return the last text of a list, "" of an empty one."""
    return (words_of(parts) or [""])[-1]


def fields_of(tree: Any) -> Any:
    """Return the fields of a reference to a column; none of everything else."""
    reference = tree.get("ColumnRef", {}) if isinstance(tree, Mapping) else {}
    return reference.get("fields", ())


def is_star(item: Tree) -> bool:
    """Return whether a result is all columns."""
    fields = fields_of(item["ResTarget"].get("val", {}))
    return bool(fields) and "A_Star" in fields[-1]


def function_name(call: Tree) -> str:
    """Return the bare name of a function that is called."""
    return last_word(call.get("funcname"))


def operator_of(item: Tree) -> str:
    """Return the name of the operator of an expression."""
    return last_word(item.get("name"))


def call_in_from(item: Tree) -> Tree:
    """Return the call of a function in FROM; nothing if there are several."""
    rows = [row.get("List", {}).get("items", ()) for row in item.get("functions", ())]
    calls: list[Tree] = [part["FuncCall"] for row in rows for part in row if "FuncCall" in part]
    return calls[0] if len(calls) == 1 else {}


def without_cast(tree: Any) -> Any:
    """Return what a cast, or the name of an argument, is about."""
    while isinstance(tree, Mapping) and (part := tree.get("TypeCast") or tree.get("NamedArgExpr")):
        tree = part.get("arg")
    return tree


def alone(tree: Any) -> list[int]:
    """Return the number of a parameter that stands alone or under a cast."""
    bare = without_cast(tree)
    is_parameter = isinstance(bare, Mapping) and "ParamRef" in bare
    return [bare["ParamRef"].get("number", 0)] if is_parameter else []


def parameters_in(tree: Any) -> list[int]:
    """Return the numbers of all parameters."""
    return [item.get("number", 0) for name, item in nodes(tree) if name == "ParamRef"]


def type_of(name: Tree) -> str:
    """Return a type as the server shows it."""
    words = words_of(name.get("names"))
    kind = words[-1] if words and words[0] == "pg_catalog" else ".".join(words)
    return _SHOWN.get(kind, kind) + "[]" * bool(name.get("arrayBounds"))
