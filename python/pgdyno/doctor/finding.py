"""What one check found, and what a check is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pgdyno.doctor.facts import Facts

Verdict = Literal["good", "warn", "bad", "unknown"]
Group = Literal["memory", "durability", "storage", "host", "settings", "state"]
# The worst first: the order findings are listed in.
VERDICTS: tuple[Verdict, ...] = ("bad", "warn", "unknown", "good")

NO_SHELL = "not possible without a shell on the host"
NO_SERVER = "no server was named"
NO_MONITOR = "what other roles do is not to be seen without pg_monitor"


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict: what was seen, why it matters for measuring, the command that mends it.

    Of an unknown one `seen` says why it could not be judged.
    """

    id: str
    group: Group
    verdict: Verdict
    seen: str
    why: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a check says of the facts; its name and its reason are the check's own."""

    verdict: Verdict
    seen: str
    mend: str = ""


class Unknown(Exception):
    """The fact a check needs is not known here; the text says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: called with facts it gives its finding, and never raises for missing facts."""

    id: str
    group: Group
    why: str
    judge: Callable[[Facts], Judgement]

    def __call__(self, facts: Facts) -> Finding:
        """Return the verdict on these facts; unknown where one it needs is missing."""
        try:
            judged = self.judge(facts)
        except Unknown as missing:
            return Finding(self.id, self.group, "unknown", str(missing), self.why)
        return Finding(self.id, self.group, judged.verdict, judged.seen, self.why, judged.mend)


def check(group: Group, why: str) -> Callable[[Callable[[Facts], Judgement]], Check]:
    """Make a check of a function; the function's name is the check's id."""

    def make(judge: Callable[[Facts], Judgement]) -> Check:
        return Check(judge.__name__, group, why, judge)

    return make


def good(seen: str) -> Judgement:
    """Nothing to mend."""
    return Judgement("good", seen)


def warn(seen: str, mend: str) -> Judgement:
    """Results can be had, and read with care."""
    return Judgement("warn", seen, mend)


def bad(seen: str, mend: str) -> Judgement:
    """Results would mislead, or data or service is at risk."""
    return Judgement("bad", seen, mend)
