"""In which order a transaction has its statements, from looks at sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.features.capture.observed import StatementKind
from pgdyno.features.capture.reading.call_series import CallSeries
from pgdyno.features.capture.reading.counted import Sessions

# Looks at each statement that are enough to order statements by their time.
_LOOKS_FOR_ORDER = 3
_KINDS: tuple[StatementKind, ...] = ("select", "update", "merge", "insert", "delete")


def in_order(
    turns: Mapping[str, float], statements: Mapping[str, CallSeries], sessions: Sessions
) -> dict[str, float]:
    """Return the statements in the order in which transactions had them.

    Two statements that were seen one after the other have this order; others that of their time
    since the start of the transaction. With too few looks: reads, then updates, then inserts,
    then deletes.
    """
    looks = [sessions.inside[statements[name].query_id] for name in turns]

    def place(name: str) -> tuple[float, int, int, str]:
        item = statements[name]
        after_s = sessions.usual_after_s(item.query_id)
        is_seen = after_s is not None and min(looks) >= _LOOKS_FOR_ORDER
        kind = _KINDS.index(item.kind) if item.kind in _KINDS else len(_KINDS)
        # Children are deleted before their parents.
        level = -item.level if item.kind == "delete" else item.level
        return (after_s if is_seen and after_s else 0.0, kind, level, name)

    by_time = sorted(turns, key=place)
    later = _later(by_time, statements, sessions)

    def after_count(name: str) -> int:
        """Return how many of the others come after a statement."""
        own = by_time.index(name)
        others = [(number, other) for number, other in enumerate(by_time) if other != name]
        return sum(
            other in later[name] or (own < number and name not in later[other])
            for number, other in others
        )

    return {name: turns[name] for name in sorted(by_time, key=after_count, reverse=True)}


def _later(
    names: Sequence[str], statements: Mapping[str, CallSeries], sessions: Sessions
) -> dict[str, set[str]]:
    """Return which statements were seen after each one, or after one that was."""
    ids = {name: statements[name].query_id for name in names}
    seen = sessions.in_order
    later = {
        name: {
            other
            for other in names
            # Of a statement with several turns some come before.
            if seen[ids[name], ids[other]] > 2 * seen[ids[other], ids[name]]
        }
        for name in names
    }
    for between in names:
        for name in names:
            if between in later[name]:
                later[name] |= later[between] - {name}
    return later
