"""Expressions of Tcl, as the manual page expr(n) defines them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

from pgdyno.features.tpcc.script_settings import UndecidedValue, Value
from pgdyno.features.tpcc.tcl_words import TclReader, Word, list_of

_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_TOKEN = re.compile(r"\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|?:()!~,]|(?:eq|ne|in|ni)\b")
_NUMBER = re.compile(
    r"0[xX][0-9A-Fa-f]+|0[bB][01]+|0[oO][0-7]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("in", "ni"),
    ("eq", "ne"),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_Number = int | float
_ARITHMETIC: dict[str, Callable[[_Number, _Number], _Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "**": lambda a, b: a**b if abs(b) < 1000 else _refuse("an exponent that large"),
    "/": lambda a, b: a // b if isinstance(a, int) and isinstance(b, int) else a / b,
}
_BITS: dict[str, Callable[[int, int], int]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "<<": lambda a, b: a << min(b, 64),
    ">>": operator.rshift,
}
_COMPARED: dict[str, Callable[[object, object], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
_FUNCTIONS: dict[str, Callable[..., _Number]] = {
    "abs": abs,
    "int": int,
    "wide": int,
    "entier": int,
    "double": float,
    "round": lambda v: math.floor(v + 0.5) if v >= 0 else -math.floor(-v + 0.5),
    "ceil": lambda v: float(math.ceil(v)),
    "floor": lambda v: float(math.floor(v)),
    "sqrt": math.sqrt,
    "log": math.log,
    "log10": math.log10,
    "exp": math.exp,
    "pow": lambda a, b: float(a) ** b,
    "fmod": math.fmod,
    "min": min,
    "max": max,
    "bool": bool,
}


def evaluated(text: str, line: int, word: Callable[[Word], Value], path: str) -> Value:
    """Return the value of an expression. Args: word, returns a word after substitution.

    Raises: ValueError if it is not an expression.
    """
    reading = _Expression(text, line, path, word)
    value = reading.choice()
    if reading.skip(" \t\r\n"):
        raise ValueError(f"the expression {text.strip()!r}")
    return value if isinstance(value, UndecidedValue) else _canonical(value)


def is_true(text: str) -> bool:
    """Return whether a value counts as true. Raises: ValueError if it is neither."""
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    return bool(_number(text))


def _number(text: str) -> _Number:
    plain = text.strip().replace("_", "x")
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    try:
        if re.fullmatch(r"0[0-7]+", digits):
            return sign * int(digits, 8)
        return sign * int(digits, 0)
    except ValueError:
        return float(plain)


def _written(number: _Number) -> str:
    return str(int(number)) if isinstance(number, int) else repr(number)


def _canonical(text: str) -> str:
    try:
        return _written(_number(text))
    except ValueError:
        return text


def _refuse(words: str) -> int:
    raise ValueError(words)


class _Expression(TclReader):
    """Evaluates while it reads: what `&&`, `||` and `?` leave out has no effect."""

    def __init__(self, text: str, line: int, path: str, word: Callable[[Word], Value]) -> None:
        super().__init__(text, line, path)
        self._word, self._is_idle = word, False

    def choice(self) -> Value:
        condition = self._level(0)
        if not self._next("?"):
            return condition
        is_yes = None if isinstance(condition, UndecidedValue) else is_true(condition)
        yes = self._unless(is_yes is False, self.choice)
        if not self._next(":"):
            raise ValueError("an expression with ? without :")
        no = self._unless(is_yes is True, self.choice)
        if isinstance(condition, UndecidedValue):
            return condition
        return yes if is_yes else no

    def _unless(self, is_idle: bool, read: Callable[[], Value]) -> Value:
        before, self._is_idle = self._is_idle, self._is_idle or is_idle
        value = read()
        self._is_idle = before
        return value

    def _next(self, *tokens: str) -> str | None:
        """Take the next token if it is one of these."""
        self.skip(" \t\r\n")
        match = _TOKEN.match(self.text, self.at)
        if match is None or match[0] not in tokens:
            return None
        self.at = match.end()
        return match[0]

    def _level(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._power()
        value = self._level(level + 1)
        while (token := self._next(*_LEVELS[level])) is not None:
            is_decided = False
            if (
                token in ("&&", "||")
                and not isinstance(value, UndecidedValue)
                and not self._is_idle
            ):
                is_decided = is_true(value) is (token == "||")
            other = self._unless(is_decided, lambda: self._level(level + 1))
            if not is_decided:
                value = self._applied(token, value, other)
        return value

    def _power(self) -> Value:
        value = self._single()
        return self._applied("**", value, self._power()) if self._next("**") else value

    def _single(self) -> Value:
        token = self._next("-", "+", "!", "~", "(")
        if token == "(":
            value = self.choice()
            if self._next(")") is None:
                raise ValueError("an expression with an open parenthesis")
            return value
        if token is not None:
            value = self._single()
            if isinstance(value, UndecidedValue) or self._is_idle:
                return value
            if token == "!":
                return str(int(not is_true(value)))
            number = _number(value)
            return _written({"-": -number, "+": number}.get(token, ~int(number)))
        return self._operand()

    def _operand(self) -> Value:
        if not self.skip(" \t\r\n"):
            raise ValueError("an expression without an operand")
        word = Word(self.line)
        first = self.text[self.at]
        if match := _NUMBER.match(self.text, self.at):
            self.at = match.end()
            return match[0]
        if first == "{":
            return self.braced()
        if match := _WORD.match(self.text, self.at):
            self.at = match.end()
            return self._named(match[0])
        if first == "$":
            word.parts.append(self.variable())
        elif first == "[":
            self.take()
            word.parts.append(self.script("]"))
        elif first == '"':
            self.take()
            self.substituted(word, '"')
        else:
            raise ValueError(f"the expression {self.text.strip()!r}")
        return "0" if self._is_idle else self._word(word)

    def _named(self, name: str) -> Value:
        if self._next("(") is None:
            if name.lower() in (*_TRUE, *_FALSE):
                return name
            raise ValueError(f"the word {name!r} in an expression")
        values: list[Value] = []
        while self._next(")") is None:
            values.append(self.choice())
            self._next(",")
        unknown = next((value for value in values if isinstance(value, UndecidedValue)), None)
        if unknown is not None or self._is_idle:
            return unknown or "0"
        if name not in _FUNCTIONS:
            raise ValueError(f"the function {name}")
        return _written(_FUNCTIONS[name](*(_number(str(value)) for value in values)))

    def _applied(self, token: str, left: Value, right: Value) -> Value:
        if self._is_idle:
            return "0"
        for value in (left, right):
            if isinstance(value, UndecidedValue):
                return value
        first, second = str(left), str(right)
        if token in ("&&", "||"):
            holds = (is_true(first), is_true(second))
            return str(int(all(holds) if token == "&&" else any(holds)))
        if token in ("eq", "ne"):
            return str(int((first == second) is (token == "eq")))
        if token in ("in", "ni"):
            return str(int((first in list_of(second)) is (token == "in")))
        if token in _COMPARED:
            return str(int(_COMPARED[token](*_comparable(first, second))))
        if token in _BITS:
            return _written(_BITS[token](int(first, 0), int(second, 0)))
        try:
            return _written(_ARITHMETIC[token](_number(first), _number(second)))
        except ZeroDivisionError:
            raise ValueError("a division by zero") from None


def _comparable(first: str, second: str) -> tuple[object, object]:
    try:
        return _number(first), _number(second)
    except ValueError:
        return first, second
