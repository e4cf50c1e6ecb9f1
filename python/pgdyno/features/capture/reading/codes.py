"""Stand-ins of UUIDs, bytes and network addresses: other ones in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_interface

_NOT_DIGITS = re.compile("[^0-9a-f]")
# No decimal digits: nobody finds a known number in a stand-in by chance.
_DIGITS = "abcdef"
# Digits that show the place among all values; the others are random.
_PLACE_DIGITS = 10
# So short ones need all digits to differ, and tell nothing if a real one comes back.
_SHORT = 7
# Private networks: 10.0.0.0/8 and fd00::/8.
_NETWORKS = {4: (10 << 24, 1 << 24), 6: (0xFD << 120, 1 << 120)}


class Codes:
    """The stand-ins of all UUIDs and bytes of a capture: equal values have equal stand-ins."""

    def __init__(self, values: Iterable[str], fraction: Callable[..., float]) -> None:
        """Args: fraction, returns a random number in 0..1 that follows from its arguments."""
        self._fraction = fraction
        digits = sorted({_digits_of(value) for value in values})
        self._taken = {own for own in digits if len(own) > _SHORT}
        self._made: dict[str, str] = {}
        before = ""
        for place, own in enumerate(digits):
            share = (place + fraction("code", own)) / len(digits)
            before = self._made[own] = self._above(before, self._digits(own, share))
            self._taken.add(before)

    def of(self, value: str) -> str:
        """Return as many digits, with the same signs between them."""
        digits = _digits_of(value)
        if digits not in self._made:
            made = self._digits(digits, self._fraction("place of", digits))
            self._made[digits] = self._above("", made)
            self._taken.add(self._made[digits])
        others = iter(self._made[digits])
        start = 2 if value.startswith("\\x") else 0
        return value[:start] + re.sub("[0-9a-fA-F]", lambda _: next(others), value[start:])

    def _digits(self, own: str, share: float) -> str:
        """Return random digits that begin with those of a place, 0 to 1."""
        if 0 < len(own) <= _SHORT:
            return f"{int(share * 16 ** len(own)):0{len(own)}x}"
        made = _letters(share)
        while len(made) < len(own):
            made += _letters(self._fraction("digits", own, len(made)))
        return made[: len(own)]

    def _above(self, before: str, made: str) -> str:
        """Return these digits, or the next that are above `before` and free; else any free."""
        size = len(made)
        if not size:
            return made
        if made <= before:
            made = before[:size].ljust(size, "0")
        first, last = int(made, 16), 16**size
        for number in range(first, last + min(first, 1 << 16)):
            digits = f"{number % last:0{size}x}"
            if digits not in self._taken and (digits > before or number >= last):
                return digits
        return made


def _letters(share: float) -> str:
    """Return the first digits of the value at this share of all."""
    number, letters = int(share * len(_DIGITS) ** _PLACE_DIGITS), ""
    for _ in range(_PLACE_DIGITS):
        number, letter = divmod(number, len(_DIGITS))
        letters = _DIGITS[letter] + letters
    return letters


def _digits_of(value: str) -> str:
    return _NOT_DIGITS.sub("", value.removeprefix("\\x").lower())


def addresses(values: Iterable[str], fraction: Callable[..., float]) -> dict[str, str]:
    """Return an address of a private network for each address; the length of its network stays."""
    read = {value: ip_interface(value) for value in values}
    made: dict[str, str] = {}
    for version, (first, size) in _NETWORKS.items():
        own = sorted({int(a.ip) for a in read.values() if a.version == version})
        taken, moved, before = {*own}, {}, first - 1
        for place, number in enumerate(own):
            share = (place + fraction("address", number)) / len(own)
            before = max(before + 1, first + int(share * (size - len(own))))
            while before in taken:
                before += 1
            moved[number] = before
        for value, address in read.items():
            if address.version == version:
                text = str(ip_interface((moved[int(address.ip)], address.network.prefixlen)))
                made[value] = text if "/" in value else text.partition("/")[0]
    return made
