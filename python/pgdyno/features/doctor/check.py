"""`Check`: a function from facts to a judgement, with its name and its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Finding, Group, Judgement, Unknown


@dataclass(frozen=True, slots=True)
class Check:
    """One check: it takes facts and returns a finding, also if facts are missing.

    `why`: the reason to look at this, which is shown with every finding.
    """

    id: str
    group: Group
    why: str
    judge: Callable[[CheckFacts], Judgement]

    def __call__(self, facts: CheckFacts) -> Finding:
        """Return the verdict on these facts; "unknown" if a fact is missing."""
        try:
            judged = self.judge(facts)
        except Unknown as missing:
            return Finding(self.id, self.group, "unknown", str(missing), self.why)
        source = facts.source_of(self.id)
        seen = f"{judged.seen}, from {source}" if source else judged.seen
        return Finding(self.id, self.group, judged.verdict, seen, self.why, judged.mend)


def check(group: Group, why: str) -> Callable[[Callable[[CheckFacts], Judgement]], Check]:
    """Return a decorator that makes a check of a function; its name is the check's id."""

    def make(judge: Callable[[CheckFacts], Judgement]) -> Check:
        return Check(judge.__name__, group, why, judge)

    return make
