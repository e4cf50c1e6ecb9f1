"""Runs two programs in turn until their ratio is known to 3 %, or 30 pairs have run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from bench.loads import Measured
from pgdyno.analysis.compare import compare, log_ratios, shuffled
from pgdyno.analysis.estimate import Estimate

HALF_WIDTH_RATIO = 0.03
PAIRS_MIN, PAIRS_MAX = 4, 30

Verdict = Literal["pass", "open", "falls short"]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Question:
    """One ratio, ours divided by theirs; it must lie on one side of the aim `reach`."""

    name: str
    value: Callable[[Measured], float]
    reach: float
    wants: Literal["at most", "at least"]

    def verdict(self, ratio: Estimate) -> Verdict:
        """Return whether the whole interval lies on the right side."""
        if ratio.low is None or ratio.high is None:
            return "open"
        if self.wants == "at most":
            good, bad = ratio.high <= self.reach, ratio.low > self.reach
        else:
            good, bad = ratio.low >= self.reach, ratio.high < self.reach
        return "pass" if good else "falls short" if bad else "open"


@dataclass(frozen=True, slots=True)
class Contest:
    """Two programs to compare: `theirs` and `ours` each do one run.

    `half_width_ratio`: the measurement ends when no interval is wider than this on either side.
    """

    name: str
    theirs: Callable[[], Measured]
    ours: Callable[[], Measured]
    questions: tuple[Question, ...]
    half_width_ratio: float = HALF_WIDTH_RATIO


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of the result."""

    row: str
    ratio: Estimate
    reach: str
    verdict: Verdict
    pairs: tuple[tuple[Measured, Measured], ...]

    def as_document(self) -> dict[str, object]:
        """Return the line with all its runs; in each pair theirs comes first."""
        return {
            "row": self.row,
            "ratio": self.ratio.to_json(),
            "reach": self.reach,
            "verdict": self.verdict,
            "pairs": [[asdict(theirs), asdict(ours)] for theirs, ours in self.pairs],
        }


def hold(contest: Contest, *, pairs_max: int = PAIRS_MAX, say: Progress) -> list[Answer]:
    """Run pairs, in random order, and answer every question.

    Raises: RuntimeError with the message of a program that failed.
    """
    pairs: list[tuple[Measured, Measured]] = []
    while True:
        sides = {"theirs": contest.theirs, "ours": contest.ours}
        done = {name: sides[name]() for name in shuffled(list(sides), 1, len(pairs))}
        pairs.append((done["theirs"], done["ours"]))
        answers = [answer(contest, question, pairs) for question in contest.questions]
        say(f"{contest.name}: pair {len(pairs)}, " + ", ".join(shown(a.ratio) for a in answers))
        known = all(half_width_ratio(a.ratio) <= contest.half_width_ratio for a in answers)
        if len(pairs) >= pairs_max or (len(pairs) >= PAIRS_MIN and known):
            return answers


def answer(
    contest: Contest, question: Question, pairs: Sequence[tuple[Measured, Measured]]
) -> Answer:
    """Return the ratio with its t interval, from the log ratios of the pairs, and its verdict."""
    theirs = [question.value(first) for first, _ in pairs]
    ours = [question.value(second) for _, second in pairs]
    ratio = compare(log_ratios(theirs, ours), looks="fixed").ratio
    row = f"{contest.name}: {question.name}" if question.name else contest.name
    reach = f"{question.wants} {question.reach:.3g}"
    return Answer(row, ratio, reach, question.verdict(ratio), tuple(pairs))


def half_width_ratio(ratio: Estimate) -> float:
    """Return the half-width of the interval on the log scale; infinite without an interval."""
    if ratio.low is None or ratio.high is None:
        return math.inf
    return math.log(ratio.high / ratio.low) / 2


def shown(ratio: Estimate) -> str:
    """Return the ratio with its interval, or with the words "no interval"."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f} (no interval: n = {ratio.n})"
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
