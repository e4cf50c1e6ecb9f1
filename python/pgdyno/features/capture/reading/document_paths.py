"""Parameters that are JSON documents, and the columns with which a statement compares their parts.

In `UPDATE jobs .. FROM json_array_elements($1) AS own(el) WHERE id = (el->>'jobId')::bigint` the
part `jobId` of each element of `$1` is a key of `jobs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pgdyno.features.capture.reading.trees import (
    Tree,
    alone,
    call_in_from,
    function_name,
    operator_of,
    words_of,
)

_OPERATORS = ("->", "->>")
_ELEMENTS = ("json_array_elements", "jsonb_array_elements")
_ROWS = ("json_to_recordset", "jsonb_to_recordset")
_ROW = ("json_to_record", "jsonb_to_record")


class DocumentPart(NamedTuple):
    """A part of a document. `name`: its key; of a key that is a parameter itself, its number."""

    number: int
    is_list: bool
    name: str | int | None


class DocumentPaths:
    """The columns of the functions in FROM that are documents or their parts."""

    def __init__(self, parts: Iterator[tuple[str, Tree]]) -> None:
        """Args: parts, each part of the statement's tree with its name."""
        self._columns: dict[tuple[str, str], DocumentPart] = {}
        self.keys: set[int] = set()
        """Parameters that are keys of documents, as in `el->>$1`."""
        for name, item in parts:
            if name == "RangeFunction":
                self._add(item)
            elif name == "A_Expr" and operator_of(item) in _OPERATORS:
                self.keys.update(alone(item.get("rexpr")))

    def _add(self, item: Tree) -> None:
        call = call_in_from(item)
        function = function_name(call)
        numbers = alone(call["args"][0]) if call.get("args") else []
        alias = item.get("alias", {})
        name = alias.get("aliasname", function)
        if not numbers:
            return
        if function in _ELEMENTS:
            own = words_of(alias.get("colnames"))
            for column in (*own[:1], "value", name):
                self._columns[name, column] = DocumentPart(numbers[0], True, None)
        elif function in (*_ROWS, *_ROW):
            for part in item.get("coldeflist", ()):
                column = part["ColumnDef"]["colname"]
                is_list = function in _ROWS
                self._columns[name, column] = DocumentPart(numbers[0], is_list, column)

    def of(self, tree: Any) -> DocumentPart | None:
        """Return the part of a document that an expression is, changed by a cast alone."""
        if not isinstance(tree, Mapping) or not tree:
            return None
        [(name, item), *_] = tree.items()
        if name == "TypeCast":
            return self.of(item.get("arg"))
        if name == "ParamRef":
            return DocumentPart(item.get("number", 0), False, None)
        if name == "ColumnRef":
            words = words_of(item["fields"])
            known = self._columns.items()
            return next(
                (p for (alias, column), p in known if words in ([column], [alias, column])), None
            )
        if name == "A_Expr" and operator_of(item) in _OPERATORS:
            whole = self.of(item.get("lexpr"))
            key = _key(item.get("rexpr"))
            if whole is not None and whole.name is None and key is not None:
                return whole._replace(name=key)
        return None


def _key(tree: Any) -> str | int | None:
    numbers = alone(tree)
    if numbers:
        return numbers[0]
    constant = tree.get("A_Const", {}) if isinstance(tree, Mapping) else {}
    return constant.get("sval", {}).get("sval") if isinstance(constant, Mapping) else None
