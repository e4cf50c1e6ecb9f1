"""No regular expression of the product takes hours for a text that was made for it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import FrameType, ModuleType

import pgdyno
from pgdyno.features.capture.reading.own_settings import settings_of

# Names, texts, statements and lines of logs are written by users, of whom one may be hostile. A
# pattern that can read a text in two ways tries 2^40 ways for 40 of these, if the end is wrong.
_COUNT = 40
_UNITS = (
    *('"a"', '""', '"a""', "''", "'a'", "'a'''", "\\'", "\\", "/**/", "--\n", "a,", "{", "{a}"),
    *('"a",', "$1,", "$1 , ", "(", "()", "(1),", "a b ", "1.1", "1e1", " ", "\n", "a=", "::", "a-"),
    *("[%m] ", "%20", "a:1:", "NOT IN (", "E''", "''a''", "password=", "<a>", "&a;", "a."),
)
_BEGINNINGS = ("", "USING btree (", '"', "'", "{", "(", "values(1)", "in($1", "x = ", "-- ")
_ENDS = ("", "!", "\n;")
_LIMIT_S = 5.0


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield each pattern that a module of the product keeps or has in its calls, by its place."""
    for listed in pkgutil.walk_packages(pgdyno.__path__, "pgdyno."):
        module = importlib.import_module(listed.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                yield f"{module.__name__}.{name}", value
        yield from patterns_in_calls(module)


def patterns_in_calls(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns of calls such as `re.sub`, where no local variable is part of them."""
    path = str(module.__file__)
    for node in ast.walk(ast.parse(Path(path).read_text())):
        match node:
            case ast.Call(ast.Attribute(ast.Name("re"), _), [text, *_]):
                pass
            case _:
                continue
        flags = [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
        try:
            pattern, *given = (
                eval(compile(ast.Expression(part), path, "eval"), vars(module))
                for part in (text, *flags)
            )
            if isinstance(pattern, str):
                yield f"{module.__name__}:{node.lineno}", re.compile(pattern, *given)
        except (NameError, re.error, TypeError):
            continue


def too_slow(signum: int, frame: FrameType | None) -> None:
    """End what the alarm found at work."""
    raise TimeoutError


def slow_text(pattern: re.Pattern[str], limit_s: float) -> str | None:
    """Return a text for which a pattern takes longer than the limit; None if there is none."""
    text = ""
    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        for begin, unit, end in product(_BEGINNINGS, _UNITS, _ENDS):
            text = begin + unit * _COUNT + end
            pattern.match(text)
            pattern.sub("", text)
    except TimeoutError:
        return text
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return None


def test_no_pattern_of_the_product_can_be_made_to_take_hours() -> None:
    kept = dict(patterns())
    assert len(kept) > 400
    slow = {name: text for name, pattern in kept.items() if (text := slow_text(pattern, _LIMIT_S))}
    assert slow == {}


def test_a_pattern_that_reads_a_text_in_two_ways_is_found() -> None:
    assert slow_text(re.compile(r'\(((?:"(?:[^"]|"")*"|[^()"])*)\)'), 1.0)
    assert slow_text(re.compile(r"(?:\s|/\*.*?\*/)*\w", re.DOTALL), 1.0)


def test_a_long_word_in_a_policy_is_read_once() -> None:
    policy = "a" * 1_000_000 + " = current_setting('app.tenant')"
    assert settings_of([("t", policy)], {"t": ["a" * 1_000_000]}) == {
        "app.tenant": ("t", "a" * 1_000_000)
    }
