"""Verdicts, findings, and the error for an unknown fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_SHELL = "needs a shell on the host"
NO_SERVER = "needs a server"
NO_MONITOR = "needs pg_monitor to see other roles' sessions"


class Unknown(Exception):
    """The fact a check needs is not known here; the text says why."""


Verdict = Literal["good", "warn", "bad", "unknown"]
Group = Literal["memory", "durability", "storage", "host", "settings", "state"]
# The worst first: the order findings are listed in.
VERDICTS: tuple[Verdict, ...] = ("bad", "warn", "unknown", "good")


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


def good(seen: str) -> Judgement:
    """Nothing to repair."""
    return Judgement("good", seen)


def warn(seen: str, mend: str) -> Judgement:
    """Results can be measured, but need caution."""
    return Judgement("warn", seen, mend)


def bad(seen: str, mend: str) -> Judgement:
    """Results would mislead, or data or service is at risk."""
    return Judgement("bad", seen, mend)
