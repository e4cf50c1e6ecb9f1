"""Commands of Tcl that only compute: lists, strings and numbers as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from pgdyno.features.tpcc.tcl_expr import is_true
from pgdyno.features.tpcc.tcl_words import list_of


def quoted(value: str) -> str:
    """Return a value as an element of a list."""
    is_plain = value and not any(c in value for c in ' \t\n{}[]$";\\')
    return value if is_plain else "{" + value + "}"


def _place(text: str, length: int) -> int:
    base, sign, offset = text.partition("-")
    if not base:
        return int(text)
    at = length - 1 if base == "end" else int(base)
    return at - int(offset) if sign else at


def _lindex(text: str, *places: str) -> str:
    for place in places:
        items = list_of(text)
        at = _place(place, len(items))
        text = items[at] if 0 <= at < len(items) else ""
    return text


def _lrange(text: str, first: str, last: str) -> str:
    items = list_of(text)
    end = _place(last, len(items)) + 1
    return list_text(*items[max(0, _place(first, len(items))) : max(0, end)])


def list_text(*items: str) -> str:
    """Return a list of these elements."""
    return " ".join(map(quoted, items))


def _split(text: str, separators: str = " \n\t\r") -> str:
    made = [""]
    for character in text:
        if character in separators or not separators:
            made.append("" if separators else character)
        else:
            made[-1] += character
    return list_text(*(made if separators else made[1:]))


def _string(what: str, *words: str) -> str:
    if what == "is":
        kind, value = words[0], words[-1]
        if kind not in ("integer", "double", "boolean"):
            raise ValueError(f"string is {kind}")
        try:
            _KINDS[kind](value)
        except ValueError:
            return "0"
        return "1"
    return str(_STRINGS[what](*words)) if what in _STRINGS else _refuse(f"string {what}")


def _refuse(words: str) -> str:
    raise ValueError(f"{words} is not known")


def _format(form: str, *values: str) -> str:
    if re.search(r"\d{4}|\*", form):
        raise ValueError("a format that wide")
    try:
        return form % tuple(float(v) if "." in v else _whole(v) for v in values)
    except (TypeError, ValueError) as error:
        raise ValueError(str(error)) from None


def _whole(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


_KINDS: dict[str, Callable[[str], object]] = {
    "integer": lambda v: int(v, 0),
    "double": float,
    "boolean": is_true,
}
_STRINGS: dict[str, Callable[..., object]] = {
    "tolower": str.lower,
    "toupper": str.upper,
    "trim": str.strip,
    "trimleft": str.lstrip,
    "trimright": str.rstrip,
    "length": len,
    "equal": lambda a, b: int(a == b),
    "compare": lambda a, b: (a > b) - (a < b),
    "match": lambda pattern, text: int(fnmatchcase(text, pattern)),
    "index": lambda text, at: text[_place(at, len(text))],
    "range": lambda text, a, b: text[_place(a, len(text)) : _place(b, len(text)) + 1],
    "first": lambda part, text: text.find(part),
}
PURE: dict[str, Callable[..., str]] = {
    "list": list_text,
    "lindex": _lindex,
    "lrange": _lrange,
    "llength": lambda text: str(len(list_of(text))),
    "lreverse": lambda text: list_text(*reversed(list_of(text))),
    "concat": lambda *lists: " ".join(text.strip() for text in lists if text.strip()),
    "split": _split,
    "join": lambda text, by=" ": by.join(list_of(text)),
    "string": _string,
    "format": _format,
}
"""Each command as a function of its words. Raises: ValueError if it is not known."""
