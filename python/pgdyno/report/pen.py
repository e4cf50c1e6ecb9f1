"""Paths in few bytes: relative moves in tenths of a pixel, from places that were rounded first."""

from __future__ import annotations

from functools import lru_cache


class Pen:
    """Collects the moves of one SVG path. Its roundings do not add up."""

    def __init__(self) -> None:
        """Start in the corner, with nothing drawn."""
        self._parts: list[str] = []
        self._at = (0, 0)
        self._verb = ""

    def move(self, x: float, y: float) -> None:
        """Go to a place, pen up; pixels."""
        self._go("m", x, y)

    def line(self, x: float, y: float) -> None:
        """Go to a place, pen down; pixels."""
        self._go("l", x, y)

    def text(self) -> str:
        """Return the path so far, as the value of a `d` attribute."""
        return "".join(self._parts)

    def _go(self, verb: str, x: float, y: float) -> None:
        here = (round(x * 10), round(y * 10))
        across, down = here[0] - self._at[0], here[1] - self._at[1]
        self._at = here
        if verb == "l" and not across:
            self._say("v", _short(down))
        elif verb == "l" and not down:
            self._say("h", _short(across))
        else:
            self._say(verb, _joined(_short(across), _short(down)))

    def _say(self, verb: str, numbers: str) -> None:
        # Subtle: pairs after a move without a letter of their own would be lines.
        if verb == self._verb and verb != "m":
            numbers = numbers if numbers.startswith("-") else f" {numbers}"
        else:
            numbers = verb + numbers
        self._verb = verb
        self._parts.append(numbers)


@lru_cache(maxsize=16384)  # Moves are short, and alike.
def _short(tenths: int) -> str:
    whole, rest = divmod(abs(tenths), 10)
    sign = "-" if tenths < 0 else ""
    if not rest:
        return f"{sign}{whole}"
    return f"{sign}{whole or ''}.{rest}"


def _joined(first: str, second: str) -> str:
    return first + second if second.startswith("-") else f"{first} {second}"
