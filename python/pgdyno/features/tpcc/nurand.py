"""Are the customers and items of TPC-C orders as skewed as NURand makes them?

Source: TPC-C specification, revision 5.11, clauses 2.1.6 (NURand), 2.4.1.2 (customers) and 2.4.1.5
(items); Pearson's chi-square test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.verdicts import Doubt
from pgdyno.quantities import counted

Verdict = Literal["follows", "differs", "too_few"]
_WORDS: dict[Verdict, str] = {
    "follows": "follows NURand",
    "differs": "DIFFERS from NURand",
    "too_few": "too few to tell",
}
_DRAWS_MIN = 1000
_P_MIN = 0.001


@dataclass(frozen=True, slots=True)
class _Law:
    """NURand(a, 1, most), and what it draws."""

    a: int
    most: int
    words: str


_LAWS = {
    "customers": _Law(1023, 3000, "customers of orders"),
    "items": _Law(8191, 100_000, "items of order lines"),
}


@dataclass(frozen=True, slots=True)
class DrawnFindings:
    """Drawn numbers against their distribution.

    `constant_value` is NURand's C of the run. If it is None, C is not known, and
    `chi_square_value` is the lowest of all values of C. With a value outside the range there is no
    chi-square. `p_value` is the probability of such a difference by chance, None if `count` is too
    low.
    """

    name: str
    words: str
    count: int
    constant_value: int | None
    chi_square_value: float | None
    p_value: float | None
    verdict: Verdict

    @property
    def verdict_words(self) -> str:
        """Return the verdict with its p value, or the reason why there is none."""
        if self.p_value is None:
            return f"{_WORDS[self.verdict]} (at least {_DRAWS_MIN:,} are needed)"
        p_words = f"p = {self.p_value:.2g}" if self.p_value >= 1e-9 else "p < 1e-9"
        which = "" if self.constant_value is not None else ", any C"
        return f"{_WORDS[self.verdict]} ({p_words}{which})"

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "name": self.name,
            "count": self.count,
            "constant": self.constant_value,
            "chi_square": self.chi_square_value,
            "p": self.p_value,
            "verdict": self.verdict,
        }


def drawn_findings(
    name: str, counts: Sequence[int], *, outside_count: int = 0, constant: int | None = None
) -> DrawnFindings:
    """Return whether counts agree with NURand.

    Args: name, "customers" or "items"; counts, of even size, of the values in equal intervals of
    the range; outside_count, of values outside the range; constant, NURand's C, None = not known.
    Limits: with C not known, draws with several values of C differ from each of them.
    """
    law, count = _LAWS[name], sum(counts) + outside_count
    if count < _DRAWS_MIN:
        return DrawnFindings(name, law.words, count, constant, None, None, "too_few")
    if outside_count:
        return DrawnFindings(name, law.words, count, constant, None, 0.0, "differs")
    probabilities = _probabilities(name, len(counts))
    if constant is not None:
        probabilities = probabilities[constant : constant + 1]
    expected = count * probabilities
    observed = np.asarray(counts, dtype=np.float64)
    chi_square = float(((observed - expected) ** 2 / expected).sum(axis=1).min())
    p_value = chi_square_tail(chi_square, len(counts) - 1)
    verdict: Verdict = "follows" if p_value >= _P_MIN else "differs"
    return DrawnFindings(name, law.words, count, constant, chi_square, p_value, verdict)


def drawn_doubts(drawn: Sequence[DrawnFindings]) -> Iterator[Doubt]:
    """Yield a doubt if customers or items do not follow NURand."""
    different = [draw for draw in drawn if draw.verdict == "differs"]
    if different:
        words = "; ".join(
            f"{draw.words}, {counted(draw.count, 'row')}, {draw.verdict_words}"
            for draw in different
        )
        yield Doubt(
            "tpcc_drawn",
            "doubt",
            f"The rows that the run made are not as skewed as specified: {words}.",
            "check whether something else wrote orders during the run; repeat the run: one right"
            " run in 500 differs by chance",
        )


@cache
def _probabilities(name: str, bin_count: int) -> npt.NDArray[np.float64]:
    """Return the probability of each interval, shape (a + 1, bin_count): a row for each C."""
    law = _LAWS[name]
    below = np.concatenate(([0.0], np.cumsum(np.tile(nurand_probabilities(law.a, law.most), 2))))
    edges = -(-np.arange(bin_count + 1) * law.most // bin_count)
    # (x + C) % most lies in an interval when x lies in the interval moved down by C.
    places = edges[None, :] - np.arange(law.a + 1)[:, None] + law.most
    return np.diff(below[places], axis=1)


def nurand_probabilities(a: int, most: int) -> npt.NDArray[np.float64]:
    """Return the exact probability of each value of (random(0, a) | random(1, most)) % most.

    Args: a + 1 is a power of two.
    Returns: shape (most,). NURand(a, 1, most) is such a value, moved by C, plus 1.
    """
    size, bits = a + 1, a.bit_length()
    pairs = np.zeros((most // size + 1) * size)
    low = np.arange(size)
    # For low bits m of the uniform number, 2^(bits in m) factors leave each result that has m.
    weights = np.array([2.0 ** int(m).bit_count() for m in low])
    for start in range(0, len(pairs), size):
        within = (start + low >= 1) & (start + low <= most)
        sums = np.where(within, weights, 0.0)
        for bit in range(bits):
            has_bit = (low >> bit) & 1 == 1
            sums[has_bit] += sums[low[has_bit] ^ (1 << bit)]
        pairs[start : start + size] = sums
    return np.bincount(np.arange(len(pairs)) % most, weights=pairs) / (size * most)


def chi_square_tail(chi_square: float, freedom_count: int) -> float:
    """Return the probability that chi-square is at least as large.

    Args: freedom_count, degrees of freedom, odd.
    Source: Abramowitz and Stegun 1964, 26.4.4.
    """
    assert freedom_count % 2 == 1, "the closed form is for odd degrees of freedom"
    if chi_square <= 0:
        return 1.0
    half, total = chi_square / 2, math.erfc(math.sqrt(chi_square / 2))
    for term in range(1, (freedom_count + 1) // 2):
        total += math.exp((term - 0.5) * math.log(half) - half - math.lgamma(term + 0.5))
    return min(1.0, total)


def constants_of_run(seed: int, load_c_last: int) -> Mapping[str, int]:
    """Return the run's C for customers and items, which the engine draws in the same way.

    Args: seed, of the run; load_c_last, the C for last names of the load.
    Source: `Constants::of_run` of the engine; Blackman and Vigna 2021 (xoroshiro128**).
    """
    words = _words(seed ^ 0x7470_6363)
    for word in words:
        distance = abs((word >> 56) - load_c_last)
        if 65 <= distance <= 119 and distance not in (96, 112):
            return {"customers": next(words) >> 54, "items": next(words) >> 51}
    raise AssertionError("the generator has no end")


def _words(seed: int) -> Iterator[int]:
    """Yield 64 random bits again and again, as the engine's generator does."""
    mask = (1 << 64) - 1
    states = []
    for step in (1, 2):
        value = (seed + step * 0x9E37_79B9_7F4A_7C15) & mask
        value = (value ^ (value >> 30)) * 0xBF58_476D_1CE4_E5B9 & mask
        value = (value ^ (value >> 27)) * 0x94D0_49BB_1331_11EB & mask
        states.append(value ^ (value >> 31))
    first, second = states
    while True:
        mixed = second ^ first
        yield _rotated(first * 5 & mask, 7) * 9 & mask
        first = _rotated(first, 24) ^ mixed ^ (mixed << 16 & mask)
        second = _rotated(mixed, 37)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & ((1 << 64) - 1)
