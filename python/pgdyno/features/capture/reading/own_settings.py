"""Settings of the application: `set_config('app.tenant', $1, true)` for row security or triggers.

The schema says which settings it reads, and with which column it compares each. So the load sets
them again, with values of that column. Other settings of programs stay out of a capture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.trees import alone, function_name

_READ = r"current_setting\(\s*'([A-Za-z_]\w*\.\w+)'"
# Between a column and the setting: casts, NULLIF, an inner query.
_BETWEEN = r"(?:[\s(]|SELECT\b|NULLIF\b|pg_catalog\.)*"
_IS_READ = re.compile(_READ, re.I)
_COMPARED = re.compile(
    rf'(?<!\w)(\w+)"?\)?(?:::\w+)?\s*:?=\s*(?:ANY\s*)?{_BETWEEN}{_READ}'
    rf"|{_READ}[^=;]{{0,80}}?=\s*\(*\"?(?:\w+\.)?(\w+)",
    re.I,
)


def settings_of(
    conditions: Iterable[tuple[str, str]], columns: Mapping[str, list[str]]
) -> dict[str, tuple[str, str]]:
    """Return the settings that a schema reads, with the table and column of their values.

    Args: conditions, of policies by table, and the SQL of other objects with "" as table.
    Returns: ("", "") for a setting that no column is compared with.
    """
    known: dict[str, tuple[str, str]] = {}
    for table, text in conditions:
        if "current_setting" not in text.lower():
            continue
        for name in _IS_READ.findall(text):
            known.setdefault(name.lower(), ("", ""))
        for before, read, also_read, after in _COMPARED.findall(text):
            name, column = (read or also_read).lower(), before or after
            tables = [table] if table else list(columns)
            owner = next((own for own in tables if column in columns.get(own, ())), "")
            if owner and known.get(name, ("", "")) == ("", ""):
                known[name] = (owner, column)
    return known


def set_again(
    node: str, tree: Mapping[str, Any], settings: Mapping[str, tuple[str, str]]
) -> tuple[str, dict[int, Parameter]] | None:
    """Return the text that sets settings of the application, and its parameters; None for others.

    `SET app.tenant = $1` becomes a call of set_config, because SET takes no parameter.
    """
    given = list(_given(node, tree))
    if not given or any(name not in settings or number == 0 for name, number, _ in given):
        return None
    calls = [
        f"pg_catalog.set_config('{name}', ${number}, {'true' if is_local else 'false'})"
        for name, number, is_local in given
    ]
    uses = {}
    for name, number, _ in given:
        table, column = settings[name]
        uses[number] = Parameter("equal", table, column, "=") if table else Parameter("other")
    return "SELECT " + ", ".join(calls), uses


def _given(node: str, tree: Mapping[str, Any]) -> Iterable[tuple[str, int, bool]]:
    """Yield name, number of the parameter (0 for none) and reach of what a statement sets."""
    if node == "VariableSetStmt" and tree["kind"] == "VAR_SET_VALUE":
        numbers = [item.get("ParamRef", {}).get("number", 0) for item in tree.get("args", ())]
        number = numbers[0] if len(numbers) == 1 else 0
        yield str(tree.get("name", "")).lower(), number, bool(tree.get("is_local"))
    if node != "SelectStmt" or "fromClause" in tree or "whereClause" in tree:
        return
    for target in tree.get("targetList", ()):
        call = target["ResTarget"].get("val", {}).get("FuncCall", {})
        arguments = call.get("args", ())
        if not call or function_name(call) != "set_config" or len(arguments) != 3:
            yield "", 0, False
            return
        name, value, reach = arguments
        written = name.get("A_Const", {}).get("sval", {}).get("sval", "")
        local = reach.get("A_Const", {}).get("boolval")
        numbers = alone(value)
        number = numbers[0] if numbers and local is not None else 0
        yield written.lower(), number, bool((local or {}).get("boolval"))
