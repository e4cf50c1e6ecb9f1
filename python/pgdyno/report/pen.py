"""SVG paths in few bytes: relative moves in tenths of a pixel between rounded points."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Pen:
    """Collects the moves of one SVG path. Rounding errors do not add up."""

    def __init__(self) -> None:
        """Start at (0, 0) with an empty path."""
        self._parts: list[str] = []
        self._at = (0, 0)
        self._verb = ""

    def move(self, x: float, y: float) -> None:
        """Move to a place without a line. Args: x and y, pixels."""
        self._go("m", x, y)

    def line(self, x: float, y: float) -> None:
        """Draw a line to a place. Args: x and y, pixels."""
        self._go("l", x, y)

    def follow(self, x: FloatArray, y: FloatArray, *, is_down: bool = False) -> None:
        """Draw a line through places in order; a `y` of NaN makes a gap.

        Args: x and y, shape (n,), pixels; is_down, whether the line starts at the current place.
        """
        known = ~np.isnan(y)
        if not known.any():
            return
        drawn = np.concatenate(([is_down], known[:-1]))[known].tolist()
        across = np.rint(x[known] * 10).astype(np.int64)
        down = np.rint(y[known] * 10).astype(np.int64)
        steps = (np.diff(across, prepend=self._at[0]), np.diff(down, prepend=self._at[1]))
        self._at = (int(across[-1]), int(down[-1]))
        for is_line, dx, dy in zip(drawn, *(step.tolist() for step in steps), strict=True):
            self._step("l" if is_line else "m", dx, dy)

    def text(self) -> str:
        """Return the path so far, as the value of a `d` attribute."""
        return "".join(self._parts)

    def _go(self, verb: str, x: float, y: float) -> None:
        here = (round(x * 10), round(y * 10))
        across, down = here[0] - self._at[0], here[1] - self._at[1]
        self._at = here
        self._step(verb, across, down)

    def _step(self, verb: str, across: int, down: int) -> None:
        if verb == "l" and not across:
            self._say("v", _short(down))
        elif verb == "l" and not down:
            self._say("h", _short(across))
        else:
            self._say(verb, _joined(_short(across), _short(down)))

    def _say(self, verb: str, numbers: str) -> None:
        # Subtle: a move always has its letter, because SVG reads further pairs after "m" as lines.
        if verb == self._verb and verb != "m":
            numbers = numbers if numbers.startswith("-") else f" {numbers}"
        else:
            numbers = verb + numbers
        self._verb = verb
        self._parts.append(numbers)


@lru_cache(maxsize=16384)  # Most moves are short, so the same numbers occur often.
def _short(tenths: int) -> str:
    whole, rest = divmod(abs(tenths), 10)
    sign = "-" if tenths < 0 else ""
    if not rest:
        return f"{sign}{whole}"
    return f"{sign}{whole or ''}.{rest}"


def _joined(first: str, second: str) -> str:
    return first + second if second.startswith("-") else f"{first} {second}"
