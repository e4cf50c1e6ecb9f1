"""Templates of transactions from their groups, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from pgdyno.features.capture.model import LeftOut, Step, Template
from pgdyno.features.capture.reading.copied import with_rows
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.grouping import StatementGroup
from pgdyno.features.capture.reading.key_sources import those_with_most_keys_first
from pgdyno.features.capture.reading.parameter_sources import Sources


def templates_of(
    groups: Sequence[StatementGroup],
    statements: Mapping[str, Described],
    sources: Sources,
    *,
    seconds: float,
    think_ms: float | None,
    sessions: Mapping[str, AbstractSet[object]],
) -> list[Template]:
    """Return a template for each kind of transaction.

    Args: sessions, those in which each statement was seen.
    """
    templates: list[Template] = []
    names: dict[str, int] = {}
    keys = sources.key_sources(
        ((name, d.parsed, d.statement.counters.rows) for name, d in statements.items()),
        sessions,
    )
    texts = {name: d.parsed for name, d in statements.items()}
    kinds = [(list(sources.steps(group, statements)), group.calls) for group in groups]
    steps_of: dict[int, list[Step]] = {}
    for place in those_with_most_keys_first(kinds):
        parsed = [texts[step] for step in groups[place].turns]
        steps_of[place] = keys.changed(kinds[place][0], parsed, calls=kinds[place][1])
    for place, group in enumerate(groups):
        name = _name(group, statements)
        names[name] = names.get(name, 0) + 1
        numbered = name if names[name] == 1 else f"{name} ({names[name]})"
        parsed = [statements[step].parsed for step in group.turns]
        rows = [statements[step].rows_per_call for step in group.turns]
        steps = tuple(with_rows(steps_of[place], parsed, rows))
        templates.append(
            Template(
                name=numbered,
                rate_tps=group.calls / seconds if seconds else 0,
                steps=steps,
                think_ms=think_ms,
            )
        )
    calls = [group.calls for group in groups]
    return sources.with_lasting_rows(zip(templates, calls, strict=True), texts, keys)


def _name(group: StatementGroup, statements: Mapping[str, Described]) -> str:
    """Return a name: what the transaction writes first, else what it reads."""
    parsed = [statements[name].parsed for name in group.turns]
    work = [item for item in parsed if item.kind not in ("begin", "commit", "rollback")]
    writing = [item for item in work if item.written]
    chosen = (writing or work)[:1]
    if not chosen:
        return "empty transaction"
    table = chosen[0].written or (chosen[0].tables[0] if chosen[0].tables else "")
    return f"{chosen[0].kind} {table.removeprefix('public.')}".strip()


def left_out_of(described: Sequence[Described]) -> list[LeftOut]:
    """Return the statements that cannot be reproduced, the longest first."""
    left = [
        LeftOut(
            reason=item.parsed.reason,
            text=item.statement.text,
            calls=item.statement.counters.calls,
            time_ms=item.statement.counters.time_ms,
        )
        for item in described
        if item.parsed.reason
    ]
    return sorted(left, key=lambda item: -item.time_ms)
