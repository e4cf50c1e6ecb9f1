"""Follows a script of HammerDB in its Python form, as far as its text decides what it does.

Nothing is executed: modules, files and the environment are `Unknown`, and so is all that depends on
them. If a condition is unknown, each of its branches is followed in doubt.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.script_settings import HARMLESS, ScriptSettings, UndecidedValue

_STEPS_MAX = 20_000
_SIZE_MAX = 1_000
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (str, int, float, bool, len, abs, min, max)},
    **{function.__name__: function for function in (round, sum, list, tuple, sorted, set)},
    "range": lambda *bounds: (
        list(range(*bounds)) if len(range(*bounds)) <= _SIZE_MAX else _refuse()
    ),
}
_METHODS = ("lower", "upper", "strip", "split", "join", "isdigit", "get", "items", "keys")
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _is_sized(value: Any) -> bool:
    return isinstance(value, str | list | dict)


def _refuse() -> list[int]:
    raise ValueError("it may be large")


class _Jump(Exception):
    """Ends a loop, a function or the script. `kind`: break, continue, return or exit."""

    def __init__(self, kind: str, value: Any = None) -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


class PythonForm:
    """An interpreter whose only effects are the settings of HammerDB."""

    def __init__(self, settings: ScriptSettings, path: str) -> None:
        self._settings, self._path = settings, path
        self._names: list[dict[str, Any]] = [{}]
        self._steps = 0

    def run(self, text: str) -> None:
        """Follow a script. Raises: SpecError if it is not Python."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 1
            raise SpecError(
                f"{self._path}, line {line}: the script is not Python: {error}.",
                hint="correct the script, so that HammerDB can read it",
            ) from None
        try:
            self._all(tree.body)
        except _Jump:
            return
        except RecursionError:
            raise SpecError(
                f"{self._path}: its brackets or functions are nested too deeply.",
                hint="give a script that sets each value once",
            ) from None

    def _all(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._steps += 1
            if self._steps > _STEPS_MAX:
                raise SpecError(
                    f"{self._path}, line {statement.lineno}: the script has not ended after"
                    f" {_STEPS_MAX:,} statements.",
                    hint="give a script that sets each value once",
                )
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                made = self._value(value)
                for target in targets:
                    self._store(target, made)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._store(target, self._value(value))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                before = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), statement)
                made = ast.copy_location(ast.BinOp(before, op, value), statement)
                self._store(target, self._value(made))
            case ast.Expr(value=value):
                self._value(value, is_statement=True)
            case ast.If(test=test, body=body, orelse=other):
                condition = self._value(test)
                if isinstance(condition, UndecidedValue):
                    self._in_doubt(condition, body, other)
                else:
                    self._all(body if condition else other)
            case ast.For(target=target, iter=values, body=body):
                self._for(target, self._value(values), body)
            case ast.While(test=test, body=body):
                self._while(statement, test, body)
            case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=last):
                self._all(body)
                why = UndecidedValue(statement.lineno, "whether a command fails is not known")
                self._in_doubt(why, *(handler.body for handler in handlers))
                self._all([*other, *last])
            case ast.With(body=body):
                self._all(body)
            case ast.FunctionDef(name=name):
                self._names[-1][name] = statement
            case ast.Return(value=value):
                raise _Jump("return", None if value is None else self._value(value))
            case ast.Break():
                raise _Jump("break")
            case ast.Continue():
                raise _Jump("continue")
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global():
                pass
            case _:
                self._not_understood(statement)

    def _not_understood(self, node: ast.stmt | ast.expr) -> UndecidedValue:
        words = ast.unparse(node).partition("\n")[0]
        shown = words.partition("(")[0].partition("=")[0].strip()
        why = f"pgdyno does not know `{shown}`"
        self._settings.remark(node.lineno, shown, f"pgdyno does not understand this line: {why}.")
        return UndecidedValue(node.lineno, why)

    def _in_doubt(self, why: UndecidedValue, *branches: Sequence[ast.stmt]) -> None:
        with self._settings.doubtful(why):
            for branch in branches:
                try:
                    self._all(branch)
                except _Jump as leave:
                    if leave.kind == "return":
                        self._settings.may_return(why)

    def _for(self, target: ast.expr, values: Any, body: Sequence[ast.stmt]) -> None:
        if isinstance(values, UndecidedValue):
            self._store(target, values)
            return self._in_doubt(values, body)
        for value in list(values):
            self._store(target, value)
            if not self._turn(body):
                return None
        return None

    def _while(self, statement: ast.stmt, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        for _ in range(_SIZE_MAX):
            holds = self._value(test)
            if isinstance(holds, UndecidedValue):
                return self._in_doubt(holds, body)
            if not holds or not self._turn(body):
                return None
        self._not_understood(statement)
        return None

    def _turn(self, body: Sequence[ast.stmt]) -> bool:
        try:
            self._all(body)
        except _Jump as leave:
            if leave.kind not in ("break", "continue"):
                raise
            return leave.kind == "continue"
        return True

    def _store(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                before = self._names[-1].get(name)
                self._names[-1][name] = self._settings.doubted(before, value)
            case ast.Tuple(elts=names) | ast.List(elts=names):
                values = [value] * len(names) if isinstance(value, UndecidedValue) else list(value)
                for name_, item in zip(names, values, strict=False):
                    self._store(name_, item)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                held = self._named(name, target.lineno)
                key = self._value(index)
                if isinstance(held, dict) and not isinstance(key, UndecidedValue):
                    held[key] = self._settings.doubted(held.get(key), value)

    def _named(self, name: str, line: int) -> Any:
        for names in (self._names[-1], self._names[0]):
            if name in names:
                return names[name]
        return UndecidedValue(line, f"{name} gets no value in the script")

    def _value(self, node: ast.expr, *, is_statement: bool = False) -> Any:
        """Return the value of an expression."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(name, node.lineno)
            case ast.Call():
                return self._call(node, is_statement=is_statement)
            case ast.IfExp(test=test, body=body, orelse=other):
                condition = self._value(test)
                if isinstance(condition, UndecidedValue):
                    return self._doubted(condition, (body, other))
                return self._value(body if condition else other)
            case ast.BoolOp(op=op, values=values):
                made: Any = None
                for place, operand in enumerate(values, 1):
                    made = self._value(operand)
                    if isinstance(made, UndecidedValue):
                        return self._doubted(made, values[place:])
                    if bool(made) is isinstance(op, ast.Or):
                        return made
                return made
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = [self._value(item) for item in (*keys, *values) if item is not None]
                half = len(keys)
                return self._computed(
                    node, lambda *all_: dict(zip(all_[:half], all_[half:], strict=True)), pairs
                )
        return self._operation(node)

    def _doubted(self, why: UndecidedValue, operands: Sequence[ast.expr]) -> UndecidedValue:
        with self._settings.doubtful(why):
            for operand in operands:
                self._value(operand)
        return why

    def _operation(self, node: ast.expr) -> Any:
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._computed(node, lambda *all_: list(all_), map(self._value, items))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._computed(node, _BINARY[type(op)], map(self._value, (left, right)))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._computed(node, operator.not_, [self._value(operand)])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._computed(node, operator.neg, [self._value(operand)])
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._computed(node, _COMPARED[type(op)], map(self._value, (left, right)))
            case ast.JoinedStr(values=parts):
                return self._computed(node, lambda *all_: "".join(all_), map(self._value, parts))
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._computed(node, str, [self._value(value)])
            case ast.Subscript(value=value, slice=ast.expr() as index):
                return self._computed(node, operator.getitem, map(self._value, (value, index)))
        return UndecidedValue(
            node.lineno, f"`{ast.unparse(node)}` is not in the text of the script"
        )

    def _computed(self, node: ast.expr, function: Callable[..., Any], values: Any) -> Any:
        values = list(values)
        unknown = next((value for value in values if isinstance(value, UndecidedValue)), None)
        if unknown is not None:
            return unknown
        try:
            # A product of a text or a list and a number may be large.
            if function in (operator.mul, operator.mod) and any(map(_is_sized, values)):
                _refuse()
            made = function(*values)
        except (TypeError, ValueError, LookupError, ArithmeticError):
            return UndecidedValue(node.lineno, f"`{ast.unparse(node)}` cannot be evaluated")
        is_large = _is_sized(made) and len(made) > 100 * _SIZE_MAX
        return UndecidedValue(node.lineno, "its value is too long") if is_large else made

    def _call(self, node: ast.Call, *, is_statement: bool) -> Any:
        match node.func:
            case ast.Attribute(value=ast.Name(id="tclpy"), attr="eval"):
                # A command of Tcl, whose words are plain.
                words = str(self._value(node.args[0])).split() if node.args else []
                return self._command(node, words[0] if words else "", words[1:], is_statement)
            case ast.Attribute(value=held, attr=name):
                return self._method(node, held, name, is_statement=is_statement)
            case ast.Name(id=name):
                pass
            case _:
                return self._not_understood(node)
        values = [self._value(argument) for argument in node.args]
        known = self._named(name, node.lineno)
        if isinstance(known, ast.FunctionDef):
            return self._own(known, node, values)
        if name in ("exit", "quit"):
            raise _Jump("exit")
        if name in _FUNCTIONS and not node.keywords:
            return self._computed(node, _FUNCTIONS[name], values)
        return self._command(node, name, values, is_statement)

    def _command(
        self, node: ast.Call, name: str, values: Sequence[Any], is_statement: bool
    ) -> UndecidedValue:
        words = [
            value if isinstance(value, UndecidedValue) else str(value).strip() for value in values
        ]
        raw = [ast.unparse(argument).strip("'\"") for argument in node.args]
        raw = raw if len(raw) == len(words) else [str(value) for value in values]
        is_known = self._settings.command(node.lineno, name, words, raw)
        if not is_known and is_statement:
            return self._not_understood(node)
        return UndecidedValue(node.lineno, f"`{name}` answers on HammerDB's host")

    def _method(self, node: ast.Call, held: ast.expr, name: str, *, is_statement: bool) -> Any:
        if ast.unparse(node.func) == "sys.exit":
            raise _Jump("exit")
        value = self._value(held)
        values = [self._value(argument) for argument in node.args]
        if isinstance(value, list) and name == "append" and values:
            value.append(values[0])
            return None
        if isinstance(value, str | dict) and name in _METHODS:
            return self._computed(node, getattr(value, name), values)
        base = ast.unparse(held).partition(".")[0]
        if is_statement and base not in HARMLESS and not isinstance(value, UndecidedValue):
            return self._not_understood(node)
        return UndecidedValue(
            node.lineno, f"`{ast.unparse(node)}` is not in the text of the script"
        )

    def _own(self, function: ast.FunctionDef, node: ast.Call, values: list[Any]) -> Any:
        if len(self._names) > 20:
            return self._not_understood(node)
        names = [argument.arg for argument in function.args.args]
        defaults = [self._value(default) for default in function.args.defaults]
        scope = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        scope |= dict(zip(names, values, strict=False))
        scope |= {word.arg: self._value(word.value) for word in node.keywords if word.arg}
        self._names.append(scope)
        try:
            return self._settings.result_of(lambda: self._returned(function.body))
        finally:
            self._names.pop()

    def _returned(self, body: Sequence[ast.stmt]) -> Any:
        try:
            self._all(body)
        except _Jump as leave:
            if leave.kind != "return":
                raise
            return leave.value
        return None
