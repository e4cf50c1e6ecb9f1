"""Verdicts, findings, and the error for an unknown fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_SHELL = "needs a shell on the host"
NO_SERVER = "needs a server"
NO_MONITOR = "needs pg_monitor to see other roles' sessions"


class Unknown(Exception):
    """A check needs a fact that is not known; the text says why."""


Verdict = Literal["good", "warn", "bad", "unknown"]
Group = Literal["memory", "durability", "storage", "host", "settings", "state"]
# The order of findings in a list, the worst first.
VERDICTS: tuple[Verdict, ...] = ("bad", "warn", "unknown", "good")


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict: the observation, why it matters for measuring, the command that repairs it.

    If the verdict is "unknown", `seen` is the reason.
    """

    id: str
    group: Group
    verdict: Verdict
    seen: str
    why: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of a check's function; `Check` adds its name and its reason."""

    verdict: Verdict
    seen: str
    mend: str = ""


def good(seen: str) -> Judgement:
    """Return the judgement that nothing needs repair."""
    return Judgement("good", seen)


def warn(seen: str, mend: str) -> Judgement:
    """Return the judgement that measuring is possible, but results need care."""
    return Judgement("warn", seen, mend)


def bad(seen: str, mend: str) -> Judgement:
    """Return the judgement that results would be wrong, or that data or service is at risk."""
    return Judgement("bad", seen, mend)
