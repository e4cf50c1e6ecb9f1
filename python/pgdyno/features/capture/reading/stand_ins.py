"""Stand-ins for values: what a capture has in place of the values of rows.

A text keeps its length, the lengths of its words and its place in the order. Equal texts have equal
stand-ins, in every column, and so have equal words after the beginning of a text. Numbers and times
move anywhere between their neighbours. All choices follow from a random key, which
is never written and ends with the process.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import string
from collections.abc import Iterable, Sequence
from decimal import Decimal

_LETTERS = string.ascii_lowercase
_BASE = len(_LETTERS)
# Letters that show the place among up to 10 million texts; the others are random.
_PLACE_LETTERS = 5
_TRIES = 64
# Texts of so few characters may all be in use; then the order gives way to a free one.
_SHORT = 3
_IS_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(r"\s+|\S+")
# A text of fewer characters may be equal to another value by chance.
SEARCHABLE = 6
# So few numbers within this share of themselves have no neighbours to hide between.
_FEW, _FAR = 3, Decimal(1) / 16
# They show nothing.
_EMPTY = ("", "\\x", "{}", "[]")


class StandIns:
    """The stand-ins of one capture. `shown`: values that the schema's SQL shows; they stay.

    `known`: all values that the capture has seen: no stand-in is one of them, or a number that
    begins with one.
    """

    def __init__(
        self,
        texts: Sequence[str],
        known: Iterable[str],
        *,
        shown: Iterable[str] = (),
        key: bytes | None = None,
    ) -> None:
        """Args: texts, without duplicates, in the order of the database."""
        self._key = os.urandom(32) if key is None else key
        self._known = {value for value in (*known, *texts) if len(value) >= SEARCHABLE}
        self._used: set[str] = set()
        self._shown = set(shown)
        self._words: dict[str, str] = {}
        self._texts = self._ordered(texts)

    def text(self, value: str) -> str:
        """Return the stand-in of a text: as many characters."""
        if value not in self._texts:
            is_shown = value in self._shown or value.strip() in _EMPTY
            self._texts[value] = value if is_shown else self._text_between(value, "")
        return self._texts[value]

    def avoid(self, values: Iterable[str]) -> None:
        """Note more values that no stand-in may have."""
        self._known.update(value for value in values if len(value) >= SEARCHABLE)

    def numbers(
        self, values: Sequence[Decimal], step: Decimal, *, unit: Decimal | None = None
    ) -> list[Decimal]:
        """Return ascending numbers in place of ascending numbers: each anywhere between two others.

        Args: step, the distance of possible values; unit, what a reader recognizes, such as the
        second of a time: no stand-in is in the unit of a value. If there is no free place for a
        long number, or if few long numbers are close together, all numbers move to another range.
        A short one then stays.
        """
        is_few = 0 < len(values) <= _FEW and len(f"{values[0]:f}") >= SEARCHABLE
        if is_few and values[-1] - values[0] < abs(values[0]) * _FAR:
            return self._shifted(values, step)
        unit = max(step, unit or step)
        taken = {value // unit for value in values}
        moved: list[Decimal] = []
        for place, value in enumerate(values):
            before = values[place - 1] if place else None
            after = values[place + 1] if place + 1 < len(values) else None
            gap = max(abs((after or value) - value), abs(value - (before or value)), step * 2)
            low = value - gap if before is None else before
            high = value + gap if after is None else after
            is_short = len(f"{value:f}") < SEARCHABLE
            # A short number keeps its place in the order, a long one must move.
            reach = (before, after) if is_short else (None, None)
            # Zero tells nothing, and often has a meaning.
            free = (
                value
                if not value
                else self._number_between(value, (low, high), (step, unit), taken, reach)
            )
            if free is None and not is_short:
                return self._shifted(values, step)
            moved.append(value if free is None else free)
            taken.add(moved[-1] // unit)
        return sorted(moved)

    def _shifted(self, values: Sequence[Decimal], step: Decimal) -> list[Decimal]:
        """Return a crowded range elsewhere: below itself if it stays positive, else above."""
        span = max(values[-1] - values[0] + step, abs(values[0]) * _FAR // step * step)
        # Nobody who has the code can undo it.
        share = Decimal(self.fraction("shift", values[0], values[-1]))
        offset = span + (span * share / step).to_integral_value() * step
        sign = -1 if values[0] - offset > 0 else 1
        while any(self._is_known(value + sign * offset) for value in values):
            offset += step
        return [value + sign * offset for value in values]

    def fraction(self, *words: object) -> float:
        """Return a random number in 0..1 that follows from the key and the words."""
        return int.from_bytes(self._digest(*words)[:7]) / (1 << 56)

    def _number_between(
        self,
        value: Decimal,
        between: tuple[Decimal, Decimal],
        grid: tuple[Decimal, Decimal],
        taken: set[Decimal],
        reach: tuple[Decimal | None, Decimal | None],
    ) -> Decimal | None:
        """Return a free place between two numbers, or near the value; None if there is no place.

        It has the sign of the value, so a condition such as `price > 0` holds for it, too.
        Args: reach, the neighbours that a place near the value may not pass.
        """
        (low, high), (step, unit) = between, grid
        near = (high - low) / 16
        for attempt in range(_TRIES):
            share = Decimal(self.fraction("number", value, low, attempt))
            moved = ((low + (high - low) * share) / step).to_integral_value() * step
            is_free = moved // unit not in taken and low <= moved <= high and moved * value > 0
            if is_free and abs(moved - value) >= near and not self._is_known(moved):
                return moved
        if reach == (None, None):
            return None
        least, most = reach
        for distance in range(1, _TRIES // 4):
            for moved in (value + step * distance, value - step * distance):
                is_inside = (least is None or moved > least) and (most is None or moved < most)
                is_free = is_inside and moved // unit not in taken and moved * value > 0
                if is_free and not self._is_known(moved):
                    return moved
        return None

    def _is_known(self, value: Decimal) -> bool:
        """Return whether a number is a value that was seen, or begins with one.

        12345670.2 and 12345670123 show 12345670, which may be the key of the same row.
        """
        text = f"{value:f}"
        shortest = max(SEARCHABLE, 2 * len(text) // 3)
        return any(text[:length] in self._known for length in range(shortest, len(text) + 1))

    def _ordered(self, texts: Sequence[str]) -> dict[str, str]:
        """Return a stand-in for each text, ascending as the texts are."""
        made: dict[str, str] = {}
        before = ""
        for place, value in enumerate(texts):
            if value in self._shown or not value.strip():
                made[value] = value
                continue
            share = (place + self.fraction("place", value)) / len(texts)
            first = _letters(share, min(_PLACE_LETTERS, len(value)))
            made[value] = self._text_between(value, before, first)
            before = max(before, made[value])
        return made

    def _text_between(self, value: str, before: str, first: str = "") -> str:
        """Return a text of the length of `value`: above `before` if that is possible."""
        length, made = len(value), ""
        for attempt in range(_TRIES):
            noise = self._stream(f"{value}{attempt}", length)
            filled = (first + "".join(_LETTERS[byte % _BASE] for byte in noise))[:length]
            if filled <= before:
                filled = _above(before, filled)
            # A text without another beginning has all its letters at random.
            is_plain = attempt > _TRIES // 2 and not _IS_NUMBER.fullmatch(value)
            made = filled if is_plain else self._with_words(value, filled)
            if made not in self._known and made not in self._used and (made > before or attempt):
                break
        else:
            made = self._unused(length, is_number=value.isdigit()) or made
        self._used.add(made)
        return made

    def _with_words(self, value: str, filled: str) -> str:
        """Return the letters with spaces where the text has them, and with stand-ins of its words.

        The beginning, which decides the order, stays. A number stays a number: a program, or a
        view, may cast it.
        """
        if _IS_NUMBER.fullmatch(value):
            digits = zip(value, filled, strict=True)
            return "".join(_as_digit(by) if own.isdigit() else own for own, by in digits)
        if " " not in value.strip():
            return filled
        end = len(value.rstrip())
        parts = [filled[:_PLACE_LETTERS]]
        for match in _WORD.finditer(value[:end]):
            if match.start() < _PLACE_LETTERS:
                first = filled[_PLACE_LETTERS : match.end()]
                parts.append(first if match[0].strip() else " " * len(first))
            else:
                parts.append(self.word(match[0]) if match[0].strip() else " " * len(match[0]))
        return "".join(parts) + filled[end:]

    def word(self, word: str) -> str:
        """Return the stand-in of a word: as many letters, whatever its capitals are."""
        plain = word.lower()
        if plain not in self._words:
            noise = self._stream(f"word {plain}", len(word))
            made = "".join(_LETTERS[byte % _BASE] for byte in noise)
            self._words[plain] = made if made not in self._known else made[::-1]
        return self._words[plain]

    def _unused(self, length: int, *, is_number: bool) -> str:
        """Return a short text that no other value has; "" if all are in use."""
        if length > _SHORT:
            return ""
        letters = string.digits + _LETTERS if is_number else _LETTERS + string.digits
        every = map("".join, itertools.product(letters, repeat=length))
        return next((text for text in every if text not in self._used), "")

    def _stream(self, word: str, length: int) -> bytes:
        parts = (self._digest("stream", word, number) for number in range(length // 64 + 1))
        return b"".join(parts)[:length]

    def _digest(self, *words: object) -> bytes:
        text = "\0".join(map(str, words))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key).digest()


def _letters(share: float, count: int) -> str:
    """Return the first letters of the text at this share of all texts."""
    letters = ""
    for _ in range(count):
        share *= _BASE
        letters += _LETTERS[min(int(share), _BASE - 1)]
        share -= int(share)
    return letters


def _as_digit(letter: str) -> str:
    """Return a digit; a later letter has no smaller one."""
    return letter if letter.isdigit() else str(max(0, _LETTERS.find(letter)) * 10 // _BASE)


def _above(before: str, filled: str) -> str:
    """Return `filled` with a beginning that makes it greater than `before`, if it can be."""
    if len(filled) > len(before):
        return before + filled[len(before) :]
    start = before[: len(filled)]
    for place in reversed(range(len(start))):
        if start[place] < _LETTERS[-1]:
            follower = chr(ord(start[place]) + 1) if start[place] >= _LETTERS[0] else _LETTERS[0]
            return start[:place] + follower + filled[place + 1 :]
    return filled
