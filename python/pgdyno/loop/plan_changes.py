"""Statements whose plan differs, from the plans that every run of a variant keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pgdyno.analysis.compare_findings import PlanChange
from pgdyno.loop.journal import Visit

Plans = dict[tuple[str, int], str]


def between_variants(
    reference: Sequence[Visit], variant: Sequence[Visit], *, names: tuple[str, str]
) -> tuple[PlanChange, ...]:
    """Return statements that the two variants run with different plans, as of their last runs."""
    if not reference or not variant:
        return ()
    was, became = plans_of_run(reference[-1]), plans_of_run(variant[-1])
    texts = _texts(variant[-1])
    between = f"{names[0]} and {names[1]}"
    return tuple(_changes(was, became, texts, between))


def between_rounds(runs: Sequence[Visit], *, name: str) -> tuple[PlanChange, ...]:
    """Return statements whose plan changed while one variant was measured, each once."""
    found: dict[tuple[str, int], PlanChange] = {}
    for before, after in itertools.pairwise(runs):
        for change in _changes(plans_of_run(before), plans_of_run(after), _texts(after), name):
            found.setdefault((change.script, change.line), change)
    return tuple(found.values())


def plans_of_run(visit: Visit) -> Plans:
    """Return (script, line) -> plan, as they were before the run."""
    stored = (visit.stored.document("server.json") or {}).get("plans") or {}
    return {
        (script, int(line)): str(plan)
        for script, plans in stored.items()
        for line, plan in plans.items()
    }


def _changes(
    was: Plans, became: Plans, texts: dict[tuple[str, int], str], between: str
) -> Iterator[PlanChange]:
    for (script, line), plan in became.items():
        before = was.get((script, line))
        if before is not None and before != plan:
            yield PlanChange(script, line, texts.get((script, line), ""), before, plan, between)


def _texts(visit: Visit) -> dict[tuple[str, int], str]:
    return {
        (script["name"], int(statement["line"])): str(statement["text"])
        for script in visit.stored.hello.get("scripts", ())
        for statement in script["statements"]
    }
