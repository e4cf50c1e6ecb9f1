"""Parameters that a statement passes on: through WITH, a query or VALUES in FROM, unnest, a cast.

In `WITH job AS (SELECT unnest($1::bigint[]) AS id) UPDATE jobs .. FROM job WHERE jobs.id = job.id`
the elements of `$1` are compared with `jobs.id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgdyno.features.capture.reading.trees import (
    Tree,
    call_in_from,
    fields_of,
    function_name,
    last_word,
    without_cast,
    words_of,
)

# The number of a parameter, and whether its elements are passed on, and not the whole.
Passed = tuple[int, bool]


class PassedParameters:
    """The columns of the inner queries of a statement, each with the parameters that it has."""

    def __init__(self, parts: Iterator[tuple[str, Tree]]) -> None:
        """Args: parts, each part of the statement's tree with its name, in their order."""
        self._columns: dict[str, dict[str, tuple[Passed, ...]]] = {}
        self.as_long_as: dict[int, int] = {}
        """Arrays whose elements one query puts side by side: the first of them, by the others."""
        aliases: list[tuple[str, str]] = []
        for name, item in parts:
            alias = item.get("alias", {}) if isinstance(item.get("alias"), Mapping) else {}
            if name == "CommonTableExpr":
                query = item.get("ctequery", {}).get("SelectStmt", {})
                self._add(item["ctename"], query, words_of(item.get("aliascolnames", ())))
            elif name == "RangeSubselect":
                query = item.get("subquery", {}).get("SelectStmt", {})
                self._add(alias.get("aliasname", ""), query, words_of(alias.get("colnames", ())))
            elif name == "RangeFunction":
                self._add_function(item, alias)
            elif name == "RangeVar" and alias:
                aliases.append((alias["aliasname"], item["relname"]))
        for own, of in aliases:
            if of in self._columns:
                self._columns.setdefault(own, self._columns[of])

    def _add(self, name: str, query: Tree, given: list[str]) -> None:
        rows = [row["List"]["items"] for row in query.get("valuesLists", ())]
        own = self._columns.setdefault(name, {})
        for place, values in enumerate(zip(*rows, strict=False)):
            column = given[place] if place < len(given) else f"column{place + 1}"
            own[column] = tuple(passed for value in values for passed in self.of(value))
        targets = [item["ResTarget"] for item in query.get("targetList", ())]
        names = given or [target.get("name") or _last(target.get("val")) for target in targets]
        pairs = zip(names, targets, strict=False)
        known = {own: tuple(self.of(target.get("val"))) for own, target in pairs if own}
        self._columns.setdefault(name, {}).update(known)
        arrays = [
            number
            for target in targets
            for number, is_list in self.of(target.get("val"))
            if is_list and "FuncCall" in without_cast(target.get("val"))
        ]
        self.as_long_as |= {number: arrays[0] for number in arrays[1:] if number > arrays[0]}

    def _add_function(self, item: Tree, alias: Tree) -> None:
        """Note `unnest($1, $2) AS new(id, name)`."""
        call = call_in_from(item)
        if function_name(call) != "unnest":
            return
        name = alias.get("aliasname", "unnest")
        names = words_of(alias.get("colnames", ())) or [name]
        arrays = call.get("args", ())
        for own, array in zip(names, arrays, strict=False):
            passed = tuple((number, True) for number, _ in self.of(array))
            self._columns.setdefault(name, {})[own] = passed

    def of(self, tree: Any) -> Iterator[Passed]:
        """Yield the parameters whose value an expression may have, changed by a cast alone."""
        if not isinstance(tree, Mapping) or not tree:
            return
        [(name, item), *_] = tree.items()
        match name:
            case "ParamRef":
                yield item.get("number", 0), False
            case "TypeCast" | "NamedArgExpr":
                yield from self.of(item.get("arg"))
            case "CoalesceExpr":
                for part in item.get("args", ()):
                    yield from self.of(part)
            case "A_Expr" if item.get("kind") == "AEXPR_NULLIF":
                yield from self.of(item.get("lexpr"))
            case "CaseExpr":
                for part in item.get("args", ()):
                    yield from self.of(part["CaseWhen"].get("result"))
                yield from self.of(item.get("defresult"))
            case "FuncCall" if function_name(item) == "unnest":
                for part in item.get("args", ())[:1]:
                    yield from ((number, True) for number, _ in self.of(part))
            case "ColumnRef":
                yield from self._of_column(item)

    def _of_column(self, reference: Tree) -> tuple[Passed, ...]:
        parts = words_of(reference["fields"])
        if len(parts) > 1:
            return self._columns.get(parts[-2], {}).get(parts[-1], ())
        known = [own[parts[0]] for own in self._columns.values() if parts and parts[0] in own]
        return known[0] if known else ()


def _last(tree: Any) -> str:
    """Return the name that a result has if the statement gives it none."""
    bare = without_cast(tree)
    if fields := fields_of(bare):
        return last_word(fields)
    is_call = isinstance(bare, Mapping) and "FuncCall" in bare
    return function_name(bare["FuncCall"]) if is_call else ""
