"""Which parameters of a text of pg_stat_statements are constants of the program."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\$(\d+)")


def first_constant(text: str) -> int:
    """Return the number of the first constant; that after the last number if none is known.

    The server numbers constants in their order, after the parameters of the program. So a number
    is one of the program's, and all below it are, if it is there twice or after a larger one.
    """
    largest = own = 0
    for number in map(int, _NUMBER.findall(text)):
        if number <= largest:
            own = max(own, number)
        largest = max(largest, number)
    return own + 1 if own else largest + 1


def constant_count(text: str) -> int:
    """Return how many of the last numbers of a text are constants."""
    return max(map(int, _NUMBER.findall(text)), default=0) + 1 - first_constant(text)
