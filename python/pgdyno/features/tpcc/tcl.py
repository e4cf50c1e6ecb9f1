"""Evaluates a Tcl script as far as its text alone decides what it does.

A part of Tcl 8.6: words and substitution, procedures, control structures, lists, strings and
`expr`. Nothing is executed: files, programs and the environment are `Unknown`, and so is all that
depends on them. If a condition is unknown, each of its branches is followed in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.script_settings import ScriptSettings, UndecidedValue, Value
from pgdyno.features.tpcc.tcl_expr import evaluated, is_true
from pgdyno.features.tpcc.tcl_values import PURE, list_text, quoted
from pgdyno.features.tpcc.tcl_words import Command, Word, items_of, list_of, script_of

_TURNS_MAX = 1_000
_STEPS_MAX = 50_000
_DEPTH_MAX = 50
_VALUE_MAX = 100_000
_OUTSIDE = ("env", "argv", "argc", "argv0", "tcl_platform", "auto_path")


@dataclass(frozen=True, slots=True)
class TclWord:
    """A word of a command after substitution."""

    value: Value
    line: int
    raw: str


class _Leave(Exception):
    """Ends a loop, a procedure or the script. `kind`: break, continue, return or exit."""

    def __init__(self, kind: str, value: Value = "") -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


class Tcl:
    """An interpreter whose only effects are the settings of HammerDB."""

    def __init__(self, settings: ScriptSettings, path: str) -> None:
        self._settings, self._path = settings, path
        self._scopes: list[dict[str, Value]] = [{}]
        self._globals: list[set[str]] = [set()]
        self._procedures: dict[str, tuple[str, TclWord]] = {}
        self._doubts: list[UndecidedValue] = []
        self._has_left = False
        self._steps = 0

    def run(self, text: str) -> None:
        """Follow a script. Raises: SpecError with the line of a bracket that has no end."""
        try:
            self._script(text, 1)
        except _Leave:
            return
        except RecursionError:
            raise SpecError(
                f"{self._path}: its brackets or procedures are nested too deeply.",
                hint="give a script that sets each value once",
            ) from None

    def _script(self, text: str, line: int) -> Value:
        result: Value = ""
        for command in script_of(text, line, self._path):
            result = self._command(command)
        return result

    def _command(self, command: Command) -> Value:
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise SpecError(
                f"{self._path}, line {command.line}: the script has not ended after"
                f" {_STEPS_MAX:,} commands.",
                hint="give a script that sets each value once",
            )
        given = [item for word in command.words for item in self._given(word)]
        if not given:
            return ""
        name = given[0].value
        if isinstance(name, UndecidedValue):
            self._not_understood(command.line, given[0].raw, name.why)
            return name
        name = name.removeprefix("::")
        words = given[1:]
        try:
            if name in _COMMANDS:
                return _COMMANDS[name](self, command.line, words)
            if name in self._procedures:
                return self._call(name, words)
        except (IndexError, ValueError, OverflowError) as error:
            why = f"`{name}` cannot be evaluated: {error}"
            return self._not_understood(command.line, f"{name} ...", why)
        raw = [word.raw for word in words]
        if self._settings.command(command.line, name, [word.value for word in words], raw):
            return UndecidedValue(command.line, f"`{name}` answers on HammerDB's host")
        why = f"pgdyno does not know what `{name}` returns"
        if not command.is_inner:
            self._not_understood(command.line, f"{name} ...", f"pgdyno does not know `{name}`")
        return UndecidedValue(command.line, why)

    def _given(self, word: Word) -> list[TclWord]:
        value = self.word(word)
        if not word.is_expanded or isinstance(value, UndecidedValue):
            return [TclWord(value, word.line, word.raw)]
        return [TclWord(item, word.line + lines, item) for item, lines in items_of(value)]

    def _not_understood(self, line: int, words: str, why: str) -> UndecidedValue:
        self._settings.remark(line, words, f"pgdyno does not understand this line: {why}.")
        return UndecidedValue(line, why)

    def word(self, word: Word) -> Value:
        """Return a word after substitution; unknown if a part of it is unknown."""
        made = ""
        for part in word.parts:
            value: Value = part if isinstance(part, str) else ""
            if isinstance(part, tuple):
                name, index = part
                inner = "" if index is None else self.word(index)
                if isinstance(inner, UndecidedValue):
                    return inner
                value = self.read(name if index is None else f"{name}({inner})", word.line)
            elif isinstance(part, list):
                for command in part:
                    value = self._command(command)
            if isinstance(value, UndecidedValue):
                return value
            made += value
        return made

    def read(self, name: str, line: int) -> Value:
        """Return the value of a variable."""
        scope, name = self._scope_of(name)
        if name in scope:
            return scope[name]
        if name.partition("(")[0] in _OUTSIDE:
            return UndecidedValue(line, f"${name} comes from outside of the script")
        return UndecidedValue(line, f"${name} gets no value in the script")

    def store(self, name: str, value: Value) -> Value:
        """Give a variable a value; in doubt the value becomes unknown."""
        if isinstance(value, str) and len(value) > _VALUE_MAX:
            raise ValueError("a value is too long")
        scope, name = self._scope_of(name)
        scope[name] = self._settings.doubted(scope.get(name), value)
        return scope[name]

    def _scope_of(self, name: str) -> tuple[dict[str, Value], str]:
        if name.startswith("::"):
            return self._scopes[0], name[2:]
        is_global = name.partition("(")[0] in self._globals[-1]
        return self._scopes[0 if is_global else -1], name

    def text(self, word: TclWord) -> str:
        """Return a word that must be known. Raises: ValueError if it is not."""
        if isinstance(word.value, UndecidedValue):
            raise ValueError(word.value.why)
        return word.value

    def expression(self, words: Sequence[TclWord]) -> Value:
        """Return the value of an expression."""
        unknown = next(
            (word.value for word in words if isinstance(word.value, UndecidedValue)), None
        )
        if unknown is not None:
            return unknown
        text = " ".join(str(word.value) for word in words)
        return evaluated(text, words[0].line, self.word, self._path)

    def _condition(self, word: TclWord) -> bool | UndecidedValue:
        value = self.expression([word])
        return value if isinstance(value, UndecidedValue) else is_true(value)

    def in_doubt(self, body: TclWord, why: UndecidedValue) -> None:
        """Follow a script that may not be executed."""
        self._doubts.append(why)
        with self._settings.doubtful(why):
            try:
                self.body(body)
            except _Leave as leave:
                # The commands after it may be executed.
                self._has_left |= leave.kind in ("break", "continue")
                if leave.kind == "return":
                    self._settings.may_return(why)
        self._doubts.pop()

    def body(self, word: TclWord) -> Value:
        """Follow a script that is an argument."""
        return self._script(self.text(word), word.line)

    def _if(self, line: int, words: list[TclWord]) -> Value:
        at, doubt = 0, None
        while at < len(words):
            is_else = words[at].value == "else"
            condition: bool | UndecidedValue = True if is_else else self._condition(words[at])
            at += 1
            at += at < len(words) and words[at].value == "then"
            body = words[at]
            if isinstance(condition, UndecidedValue):
                doubt = doubt or condition
            if doubt is not None and condition is not False:
                self.in_doubt(body, doubt)
            elif condition is True:
                return self.body(body)
            if is_else or (doubt is not None and condition is True):
                break
            at += 1
            if at < len(words) and words[at].value == "elseif":
                at += 1
            elif at < len(words) and words[at].value != "else":
                # `if {...} {...} {...}`: the word else may be left out.
                words = [*words[:at], TclWord("else", line, "else"), *words[at:]]
        return "" if doubt is None else doubt

    def _turn(self, body: TclWord) -> bool:
        """Follow one turn of a loop. Returns: False if it is the last one."""
        before, self._has_left = self._has_left, False
        try:
            self.body(body)
        except _Leave as leave:
            if leave.kind not in ("break", "continue"):
                raise
            if leave.kind == "break":
                return False
        has_left, self._has_left = self._has_left, before
        if has_left:
            self._not_understood(body.line, "loop", "it is not known how often the loop repeats")
        return not has_left

    def _while(self, line: int, words: list[TclWord]) -> Value:
        return self._loop(line, words[0], words[1], None)

    def _for(self, line: int, words: list[TclWord]) -> Value:
        self.body(words[0])
        return self._loop(line, words[1], words[3], words[2])

    def _loop(self, line: int, condition: TclWord, body: TclWord, then: TclWord | None) -> Value:
        for _ in range(_TURNS_MAX):
            holds = self._condition(condition)
            if isinstance(holds, UndecidedValue):
                self.in_doubt(body, holds)
                return holds
            if not holds or not self._turn(body):
                return ""
            if then is not None:
                self.body(then)
        return self._not_understood(line, "loop", f"it has more than {_TURNS_MAX:,} turns")

    def _foreach(self, _line: int, words: list[TclWord]) -> Value:
        *pairs, body = words
        columns: list[tuple[list[str], list[str]]] = []
        for names, values in zip(pairs[::2], pairs[1::2], strict=True):
            if isinstance(values.value, UndecidedValue):
                why = values.value
                with self._settings.doubtful(why):
                    for name in list_of(self.text(names)):
                        self.store(name, why)
                self.in_doubt(body, why)
                return why
            columns.append((list_of(self.text(names)), list_of(values.value)))
        turns = max(-(-len(values) // len(names)) for names, values in columns)
        if turns > _TURNS_MAX:
            raise ValueError(f"the loop has more than {_TURNS_MAX:,} turns")
        for turn in range(turns):
            for targets, items in columns:
                for place, name in enumerate(targets, turn * len(targets)):
                    self.store(name, items[place] if place < len(items) else "")
            if not self._turn(body):
                break
        return ""

    def _switch(self, _line: int, words: list[TclWord]) -> Value:
        is_glob = False
        while len(words) > 2 and str(words[0].value).startswith("-"):
            option = words.pop(0).value
            if option == "--":
                break
            if option not in ("-exact", "-glob"):
                raise ValueError(f"its option {option}")
            is_glob = option == "-glob"
        asked, cases = words[0].value, words[1:]
        if len(cases) == 1:
            text = self.text(cases[0])
            cases = [TclWord(v, cases[0].line + n, v) for v, n in items_of(text)]
        for place in range(0, len(cases) - 1, 2):
            pattern = self.text(cases[place])
            body = next(c for c in cases[place + 1 :: 2] if c.value != "-")
            if isinstance(asked, UndecidedValue):
                self.in_doubt(body, asked)
            elif (
                pattern == asked
                or (is_glob and fnmatchcase(asked, pattern))
                or (pattern == "default" and place == len(cases) - 2)
            ):
                return self.body(body)
        return asked if isinstance(asked, UndecidedValue) else ""

    def _proc(self, _line: int, words: list[TclWord]) -> Value:
        self._procedures[self.text(words[0]).removeprefix("::")] = (self.text(words[1]), words[2])
        return ""

    def _call(self, name: str, words: list[TclWord]) -> Value:
        formal, body = self._procedures[name]
        if len(self._scopes) > _DEPTH_MAX:
            raise ValueError("it calls itself too often")
        scope: dict[str, Value] = {}
        values = [word.value for word in words]
        for at, parameter in enumerate(names := list_of(formal)):
            if parameter == "args" and at == len(names) - 1:
                unknown = next((v for v in values if isinstance(v, UndecidedValue)), None)
                scope["args"] = unknown or " ".join(quoted(str(value)) for value in values)
                break
            key, *default = list_of(parameter)
            scope[key] = values.pop(0) if values else default[0]
        self._scopes.append(scope)
        self._globals.append(set())
        try:
            return self._settings.result_of(lambda: self._returned(body))
        finally:
            self._scopes.pop()
            self._globals.pop()

    def _returned(self, body: TclWord) -> Value:
        try:
            return self.body(body)
        except _Leave as leave:
            if leave.kind != "return":
                raise
            return leave.value

    def _global(self, _line: int, words: list[TclWord]) -> Value:
        self._globals[-1] |= {self.text(word).removeprefix("::") for word in words}
        return ""

    def _catch(self, line: int, words: list[TclWord]) -> Value:
        """Follow a script that may fail, which nobody knows."""
        why = UndecidedValue(line, "whether a command fails is not known")
        try:
            value = self.body(words[0])
        except _Leave as leave:
            if leave.kind != "return":
                raise
            value = leave.value
        if len(words) > 1:
            self.store(self.text(words[1]), value)
        return why

    def _info(self, line: int, words: list[TclWord]) -> Value:
        if words[0].value != "exists":
            return UndecidedValue(line, f"`info {words[0].value}` is not known")
        name = self.text(words[1])
        value = self.read(name, line)
        if not isinstance(value, UndecidedValue):
            return "1"
        scope, plain = self._scope_of(name)
        is_outside = plain.partition("(")[0] in _OUTSIDE
        return value if is_outside or plain in scope else "0"

    def _leave(self, kind: str, value: Value = "") -> Value:
        raise _Leave(kind, value)

    def _source(self, line: int, words: list[TclWord]) -> Value:
        return self._not_understood(line, f"source {words[0].raw}", "it reads another file")

    def _unset(self, _line: int, words: list[TclWord]) -> Value:
        for word in words:
            scope, name = self._scope_of(self.text(word))
            scope.pop(name, None)
        return ""

    def _array(self, line: int, words: list[TclWord]) -> Value:
        if words[0].value != "set":
            return UndecidedValue(line, f"`array {words[0].value}` is not known")
        name, pairs = self.text(words[1]), list_of(self.text(words[2]))
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.store(f"{name}({key})", value)
        return ""


def _pure(function: Callable[..., str]) -> Callable[[Tcl, int, list[TclWord]], Value]:
    """Return the command that applies a function to its words; unknown if one of them is."""

    def command(_tcl: Tcl, _line: int, words: list[TclWord]) -> Value:
        unknown = next(
            (word.value for word in words if isinstance(word.value, UndecidedValue)), None
        )
        return unknown or function(*(word.value for word in words))

    return command


def _set(tcl: Tcl, line: int, words: list[TclWord]) -> Value:
    name = tcl.text(words[0])
    return tcl.store(name, words[1].value) if len(words) > 1 else tcl.read(name, line)


def _incr(tcl: Tcl, _line: int, words: list[TclWord]) -> Value:
    name = tcl.text(words[0])
    scope, plain = tcl._scope_of(name)
    before: Value = scope.get(plain, "0")
    by: Value = words[1].value if len(words) > 1 else "1"
    if isinstance(before, UndecidedValue) or isinstance(by, UndecidedValue):
        return tcl.store(name, before if isinstance(before, UndecidedValue) else by)
    return tcl.store(name, str(int(before) + int(by)))


def _append(
    joint: Callable[[str, Sequence[str]], str],
) -> Callable[[Tcl, int, list[TclWord]], Value]:
    def command(tcl: Tcl, _line: int, words: list[TclWord]) -> Value:
        name = tcl.text(words[0])
        scope, plain = tcl._scope_of(name)
        before = scope.get(plain, "")
        all_ = [before, *(word.value for word in words[1:])]
        unknown = next((value for value in all_ if isinstance(value, UndecidedValue)), None)
        made = unknown or joint(str(before), [str(value) for value in all_[1:]])
        return tcl.store(name, made)

    return command


def _lassign(tcl: Tcl, _line: int, words: list[TclWord]) -> Value:
    value = words[0].value
    items = [] if isinstance(value, UndecidedValue) else list_of(value)
    for place, word in enumerate(words[1:]):
        item = items[place] if place < len(items) else ""
        tcl.store(tcl.text(word), value if isinstance(value, UndecidedValue) else item)
    return list_text(*items[len(words) - 1 :])


_COMMANDS: dict[str, Callable[[Tcl, int, list[TclWord]], Value]] = {
    "set": _set,
    "incr": _incr,
    "append": _append(lambda before, more: before + "".join(more)),
    "lappend": _append(lambda before, more: f"{before} {list_text(*more)}".strip()),
    "expr": lambda tcl, _line, words: tcl.expression(words),
    "if": Tcl._if,
    "while": Tcl._while,
    "for": Tcl._for,
    "foreach": Tcl._foreach,
    "switch": Tcl._switch,
    "proc": Tcl._proc,
    "global": Tcl._global,
    "variable": _set,
    "catch": Tcl._catch,
    "info": Tcl._info,
    "lassign": _lassign,
    "unset": Tcl._unset,
    "array": Tcl._array,
    "source": Tcl._source,
    "eval": lambda tcl, line, words: tcl._script(" ".join(map(tcl.text, words)), line),
    "break": lambda tcl, _line, _words: tcl._leave("break"),
    "continue": lambda tcl, _line, _words: tcl._leave("continue"),
    "return": lambda tcl, _line, words: tcl._leave("return", words[-1].value if words else ""),
    "exit": lambda tcl, _line, _words: tcl._leave("exit"),
    **{name: _pure(function) for name, function in PURE.items()},
}
