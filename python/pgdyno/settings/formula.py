"""Formulas of the catalogue and of published rules, and the facts about a machine that they use.

A formula is a small part of Python's expressions.
Sizes are in bytes and times in milliseconds, for example "ram / 4" and "5 * minute".
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.errors import SpecError

Value = float | int | str | None
"""A size in bytes, a time in ms, a plain number, a word, or None: leave the setting as it is."""

UNITS: Mapping[str, int] = {
    "kB": 1 << 10,
    "MB": 1 << 20,
    "GB": 1 << 30,
    "second": 1000,
    "minute": 60_000,
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class FactMissing(Exception):
    """A formula needs a fact about the machine that is not known. `name` is also its option."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not known")
        self.name = name


Disk = Literal["hdd", "ssd", "san", "nvme"]
Load = Literal["web", "oltp", "dw", "desktop", "mixed"]
LOADS: tuple[Load, ...] = ("web", "oltp", "dw", "desktop", "mixed")
DISKS: tuple[Disk, ...] = ("hdd", "ssd", "san", "nvme")


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts about one server; None is a fact that is not known.

    `connections`: max_connections. `database_bytes` and `wal_disk_bytes`: None counts as large.
    """

    major: int
    connections: int
    ram_bytes: int | None = None
    cores: int | None = None
    disk: Disk | None = None
    load: Load = "oltp"
    database_bytes: int | None = None
    wal_disk_bytes: int | None = None

    def names(self) -> dict[str, Value]:
        """Return what formulas may use, by name."""
        return {
            "ram": self.ram_bytes,
            "cores": self.cores,
            "disk": self.disk,
            "load": self.load,
            "connections": self.connections,
            "version": self.major,
            "database": self.database_bytes if self.database_bytes is not None else float("inf"),
            "wal_disk": self.wal_disk_bytes or 0,
        }


def evaluate(text: str, names: Mapping[str, Value]) -> Value:
    """Return the value of a formula.

    Args: names, name -> value; None is a missing fact.
    Raises: FactMissing if the formula needs a missing fact; SpecError if it is not a formula.
    """
    try:
        tree = ast.parse(text, mode="eval")
        value: Value = _value(tree.body, names)
        return value
    except (SyntaxError, TypeError, ZeroDivisionError, ValueError) as error:
        raise SpecError(
            f"{text!r} is not a formula: {error}.", hint="see docs/settings.md"
        ) from None


def number(text: str, names: Mapping[str, Value]) -> float:
    """Return the value of a formula that must be a number. Raises: as `evaluate`."""
    value = evaluate(text, names)
    if isinstance(value, str) or value is None:
        raise SpecError(f"{text!r} is {value!r}, but must be a number.", hint="correct the formula")
    return float(value)


def _value(node: ast.expr, names: Mapping[str, Value]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _named(node.id, names)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, names), _value(node.right, names)
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE and len(node.ops) == 1:
        left, right = _value(node.left, names), _value(node.comparators[0], names)
        return _COMPARE[type(node.ops[0])](left, right)
    if isinstance(node, ast.BoolOp):
        values = (_value(operand, names) for operand in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node.func.id, node, names)
    raise ValueError(f"{ast.unparse(node)} is not allowed here")


def _named(name: str, names: Mapping[str, Value]) -> Value:
    if name in UNITS:
        return UNITS[name]
    if name not in names:
        raise ValueError(f"there is no {name}")
    if names[name] is None:
        raise FactMissing(name)
    return names[name]


def _called(name: str, node: ast.Call, names: Mapping[str, Value]) -> Any:
    """Return min, max, ceil or round of numbers; by(word, a=..., other=...) chooses by a word."""
    arguments = [_value(argument, names) for argument in node.args]
    if name == "by":
        choices = {keyword.arg: keyword.value for keyword in node.keywords}
        [word] = arguments
        chosen = choices.get(word, choices.get("other"))
        if chosen is None:
            raise ValueError(f"nothing for {word!r}")
        return _value(chosen, names)
    functions: Mapping[str, Callable[..., Any]] = {
        "min": min,
        "max": max,
        "ceil": math.ceil,
        "round": round,
    }
    if name not in functions:
        raise ValueError(f"there is no function {name}")
    return functions[name](*arguments)
