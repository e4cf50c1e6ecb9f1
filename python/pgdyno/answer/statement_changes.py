"""Which statements of a load got slower or faster between two variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analysis.compare import compare, log_ratios
from pgdyno.analysis.compare_findings import PlanChange, StatementChange
from pgdyno.analysis.findings import StatementFindings
from pgdyno.analysis.intervals import Looks
from pgdyno.loop.journal import Visit
from pgdyno.loop.load_numbers import LoadNumbers, statement_findings
from pgdyno.redaction import redacted

Place = tuple[str, int]
# A mean of fewer calls in a run says little about a statement.
_CALLS_MIN = 20
# A changed plan is the reason of a difference if its statement has at least half of it.
_EXPLAINED_RATIO_MIN = 0.5


def statement_changes(
    reference: Sequence[Visit],
    variant: Sequence[Visit],
    numbers: Mapping[int, LoadNumbers],
    plans: Sequence[PlanChange],
    *,
    looks: Looks,
    level_ratio: float,
    judged: frozenset[str] | None = None,
) -> tuple[StatementChange, ...]:
    """Return every statement that both variants executed often enough, the slower ones first.

    Args: level_ratio, of the interval of one metric. The intervals of all statements hold together
    with this confidence (Bonferroni). judged, the texts of the statements that count; None: all.
    """
    was, became = _means(reference, numbers), _means(variant, numbers)
    rounds = sorted(was.keys() & became.keys())
    places: set[Place] = set.intersection(
        *(set(means[number]) for means in (was, became) for number in rounds)
    ) if rounds else set()  # fmt: skip
    if judged is not None:
        texts = {place: own.text for means in was.values() for place, own in means.items()}
        places = {place for place in places if redacted(texts[place]) in judged}
    plan_of = {(change.script, change.line): change for change in plans}
    level = 1 - (1 - level_ratio) / max(len(places), 1)
    changes = []
    for script, line in sorted(places):
        place = script, line
        pairs = [(was[number][place], became[number][place]) for number in rounds]
        plan = plan_of.get(place)
        changes.append(
            StatementChange(
                script=script,
                line=line,
                text=pairs[0][0].text,
                calls=sum(a.calls + b.calls for a, b in pairs),
                mean_ms=sum(a.mean_ms for a, _ in pairs) / len(pairs),
                comparison=compare(
                    log_ratios([a.mean_ms for a, _ in pairs], [b.mean_ms for _, b in pairs]),
                    looks=looks,
                    better="less",
                    level=level,
                ),
                plan_was=plan.was if plan is not None else "",
                plan_became=plan.became if plan is not None else "",
            )
        )
    return tuple(sorted(changes, key=lambda change: -change.comparison.ratio.value))


def explaining_plans(
    reference: Sequence[Visit],
    variant: Sequence[Visit],
    numbers: Mapping[int, LoadNumbers],
    plans: Sequence[PlanChange],
) -> tuple[PlanChange, ...]:
    """Return the plan changes if their statements took most of the time that differs.

    The plan of a small table changes easily and costs nothing. Without times of statements every
    change may be a reason.
    """
    if not plans:
        return ()
    was, became = _means(reference, numbers), _means(variant, numbers)
    apart: dict[Place, float] = {}
    for number in was.keys() & became.keys():
        for place in was[number].keys() & became[number].keys():
            a, b = was[number][place], became[number][place]
            change = (b.mean_ms - a.mean_ms) * (a.calls + b.calls)
            apart[place] = apart.get(place, 0.0) + change
    whole = sum(apart.values())
    explained = sum(apart.get((plan.script, plan.line), 0.0) for plan in plans)
    if apart and (whole == 0 or explained / whole < _EXPLAINED_RATIO_MIN):
        return ()
    return tuple(plans)


def _means(
    visits: Sequence[Visit], numbers: Mapping[int, LoadNumbers]
) -> dict[int, dict[Place, StatementFindings]]:
    """Return round -> place -> the statement, of those with enough calls."""
    by_round = {}
    for visit in visits:
        shapes = numbers[visit.planned.number].scripts
        by_round[visit.planned.round] = {
            (shape.name, statement.line): statement
            for index, shape in enumerate(shapes)
            for statement in statement_findings(visit.stored, shape, index)
            if statement.calls >= _CALLS_MIN and statement.mean_ms > 0
        }
    return by_round
