"""No regular expression of the product takes hours for a text that was made for it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from itertools import product
from types import FrameType

import pgdyno

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
    """Yield each pattern that a module of the product keeps, by its place."""
    for module in pkgutil.walk_packages(pgdyno.__path__, "pgdyno."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                yield f"{module.name}.{name}", value


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
    assert len(kept) > 100
    slow = {name: text for name, pattern in kept.items() if (text := slow_text(pattern, _LIMIT_S))}
    assert slow == {}


def test_a_pattern_that_reads_a_text_in_two_ways_is_found() -> None:
    assert slow_text(re.compile(r'\(((?:"(?:[^"]|"")*"|[^()"])*)\)'), 1.0)
    assert slow_text(re.compile(r"(?:\s|/\*.*?\*/)*\w", re.DOTALL), 1.0)
