"""What a statement does with a parameter that is a text: the types to which it is cast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.capture.reading.trees import function_name, type_of, without_cast
from pgdyno.server.grammar import statements_of

_TEXTS = frozenset({"text", "character varying", "character", "name", "unknown", ""})
# Arguments of these functions are whole queries of another language.
_FUNCTIONS = {
    "to_tsquery": "tsquery",
    "jsonb_path_exists": "jsonpath",
    "jsonb_path_query": "jsonpath",
}
_OF_ARRAYS = ("array", "recordset")


@dataclass(slots=True)
class ParameterForms:
    """By number from 1: types of casts, places that take NULL, documents that are arrays."""

    casts: dict[int, set[str]] = field(default_factory=dict)
    nullables: set[int] = field(default_factory=set)
    arrays: set[int] = field(default_factory=set)


@lru_cache(maxsize=2000)
def forms_of(text: str) -> ParameterForms:
    """Return what a statement says of its parameters; nothing if it cannot be read."""
    forms = ParameterForms()
    try:
        statements = statements_of(text, where="a statement")
    except SpecError:
        return forms
    for name, content in (node for statement in statements for node in statement.nodes()):
        if name == "TypeCast":
            kind = type_of(content["typeName"])
            for number in _direct(content["arg"]):
                forms.casts.setdefault(number, set()).add(kind)
        elif name == "NullTest":
            forms.nullables.update(_direct(without_cast(content["arg"])))
        elif name == "CoalesceExpr":
            forms.nullables.update(n for arg in content["args"] for n in _direct(without_cast(arg)))
        elif name == "FuncCall":
            function = function_name(content)
            numbers = [n for arg in content.get("args", ()) for n in _direct(arg)]
            if function.startswith("json") and any(word in function for word in _OF_ARRAYS):
                forms.arrays.update(numbers)
            elif function in _FUNCTIONS and numbers:
                forms.casts.setdefault(numbers[-1], set()).add(_FUNCTIONS[function])
    return forms


def _direct(tree: Mapping[str, Any]) -> Iterator[int]:
    """Yield the parameters whose value is that of an expression, changed by nothing."""
    [(name, content)] = tree.items()
    if name == "ParamRef":
        yield content["number"]
    elif name == "CoalesceExpr":
        for arg in content["args"]:
            yield from _direct(arg)
    elif name == "TypeCast" and type_of(content["typeName"]) in _TEXTS:
        yield from _direct(content["arg"])
    elif name == "CaseExpr":
        for arg in content.get("args", ()):
            yield from _direct(arg["CaseWhen"]["result"])
        if "defresult" in content:
            yield from _direct(content["defresult"])


def type_in_use(text: str, number: int, declared: str) -> str:
    """Return the type of a parameter: of a text, the type to which the statement casts it.

    If it casts the text to several types, the text may be of none of them.
    """
    casts = forms_of(text).casts.get(number, set()) - _TEXTS
    return next(iter(casts)) if declared in _TEXTS and len(casts) == 1 else declared
