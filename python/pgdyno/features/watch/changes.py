"""What changed between two periods of watches: statements, waits and rows read, with intervals.

Each period is cut into at most ten batches. A change is the difference of the means of the batches,
with Welch's t interval; for times, rates and rows, on the scale of logarithms. All intervals
together hold at 95 % (Bonferroni).

Limits: the interval is about these two periods. Whether other days differ as much, it cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import t_quantile
from pgdyno.analysis.where_facts import NOT_INSTRUMENTED
from pgdyno.features.watch.periods import Batches, Period, growth, sessions_at_work
from pgdyno.features.watch.segments import document_again
from pgdyno.measure.statement_texts import OWN

_BATCHES_MIN = 3
_LEVEL = 0.95
_SHOWN_MAX = 10
_ASKED_MAX = 20
# Sessions' worth of work that a statement or an event must have in one of the periods.
_WORK_MIN = 0.005
_COUNTS = ("calls", "exec_time_ns", "rows", "shared_blks_hit", "shared_blks_read")
_UNITS = {"time": "ms a call", "calls": "calls/s", "rows": "rows a call", "blocks": "blocks a call"}
_CALLS, _TIME, _ROWS, _HIT, _READ = range(5)


@dataclass(frozen=True, slots=True)
class Change:
    """One quantity in both periods. `size`, `low` and `high`: now over before, None if unknown.

    For sessions, which may be 0, they are differences (`is_ratio` is false). `verdict`: more, less,
    the same, new, gone, or cannot tell.
    """

    what: str
    unit: str
    before: float | None
    now: float | None
    size: float | None
    low: float | None
    high: float | None
    verdict: str
    is_ratio: bool = True

    def as_document(self) -> dict[str, Any]:
        """Return the change as a part of a JSON document."""
        return {name: getattr(self, name) for name in self.__slots__}


def changes_of(before: Period, now: Period) -> dict[str, Any]:
    """Return the document of what changed: statements, waits and tables, largest change first."""
    texts = {**_texts(before), **_texts(now)}
    statements = [
        _by_text(growth(period, "statements", ("query_id",), _COUNTS), texts)
        for period in (before, now)
    ]
    tables = [
        growth(period, "tables", ("schema", "table"), ("seq_rows", "index_rows"))
        for period in (before, now)
    ]
    waits = [sessions_at_work(period) for period in (before, now)]
    listed = _by_change(statements[0], statements[1], _TIME, 1e9)
    listed = [key for key in listed if key[0] != OWN][:_ASKED_MAX]
    events = _by_change(waits[0], waits[1], 0, None)[:_SHOWN_MAX]
    read = _by_change(tables[0], tables[1], 0, 1e5)[:_SHOWN_MAX]
    level = 1 - (1 - _LEVEL) / max(4 * len(listed) + len(events) + len(read), 1)
    return {
        "before": before.name,
        "now": now.name,
        "seconds": [float(batches.seconds.sum()) for batches in statements],
        "batches": [len(batches.seconds) for batches in waits],
        "statements": [
            {
                "query_id": "" if key[0] in texts.values() else key[0],
                "text": key[0] if key[0] in texts.values() else "",
                "changes": [
                    change.as_document() for change in _of_statement(key, statements, level)
                ],
            }
            for key in listed[:_SHOWN_MAX]
        ],
        "waits": [
            _difference(
                key[0] or NOT_INSTRUMENTED,
                "sessions",
                waits[0].get(key, 0),
                waits[1].get(key, 0),
                level,
            ).as_document()
            for key in events
        ],
        "tables": [
            _ratio(
                ".".join(key),
                "rows/s read without an index",
                _rate(tables[0].get(key, 0), tables[0]),
                _rate(tables[1].get(key, 0), tables[1]),
                level,
            ).as_document()
            for key in read
        ],
    }


def _texts(period: Period) -> dict[str, str]:
    return dict(document_again(period.folder).get("statement_texts") or {})


def _by_text(statements: Batches, texts: Mapping[str, str]) -> Batches:
    """Return the sums by text, where it is known: another server has other query ids."""
    of: dict[tuple[str, ...], FloatArray] = {}
    for (query_id,), sums in statements.of.items():
        key = (texts.get(query_id) or query_id,)
        of[key] = of[key] + sums if key in of else sums
    return Batches(statements.seconds, of)


def _by_change(
    before: Batches, now: Batches, column: int, per_second: float | None
) -> list[tuple[str, ...]]:
    """Return the keys with the largest change of work first; keys with little work are left out.

    Args: per_second, the growth a second that is as much as one session; None: numbers of sessions.
    """

    def work(part: Batches, key: tuple[str, ...]) -> float:
        values = part.get(key, column)
        if not len(values):
            return 0.0
        if per_second is None:
            return float(values.mean())
        return float(values.sum() / max(part.seconds.sum(), 1e-9)) / per_second

    changed = {key: (work(before, key), work(now, key)) for key in {*before.of, *now.of}}
    kept = [key for key, both in changed.items() if max(both) >= _WORK_MIN]
    return sorted(kept, key=lambda key: (-abs(changed[key][1] - changed[key][0]), key))


def _of_statement(
    key: tuple[str, ...], statements: Sequence[Batches], level: float
) -> Iterator[Change]:
    calls = [part.get(key, _CALLS) for part in statements]

    def a_call(*columns: int) -> list[FloatArray]:
        sums = [np.sum([part.get(key, column) for column in columns], 0) for part in statements]
        return [
            total[counted > 0] / counted[counted > 0]
            for total, counted in zip(sums, calls, strict=True)
        ]

    times = [values / 1e6 for values in a_call(_TIME)]
    rates = [_rate(counted, part) for counted, part in zip(calls, statements, strict=True)]
    of_both = {"time": times, "calls": rates, "rows": a_call(_ROWS), "blocks": a_call(_HIT, _READ)}
    for what, (before, now) in of_both.items():
        yield _ratio(what, _UNITS[what], before, now, level)


def _rate(sums: FloatArray, part: Batches) -> FloatArray:
    return sums / np.maximum(part.seconds, 1e-9)


def _ratio(what: str, unit: str, before: FloatArray, now: FloatArray, level: float) -> Change:
    old, new = _mean(before), _mean(now)
    if old is None or new is None or old <= 0 or new <= 0:
        verdict = "new" if new and not old else "gone" if old and not new else "cannot tell"
        return Change(what, unit, old, new, None, None, None, verdict)
    size = new / old
    if (before <= 0).any() or (now <= 0).any():
        # A batch with 0 has no logarithm: the interval is that of the difference.
        half = _half(before, now, level)
        ends = None if half is None else (max(size - half / old, 0.0), size + half / old)
    else:
        half = _half(np.log(before), np.log(now), level)
        ends = None if half is None else (size * math.exp(-half), size * math.exp(half))
    if ends is None:
        return Change(what, unit, old, new, size, None, None, "cannot tell")
    return Change(what, unit, old, new, size, *ends, _verdict(*ends, 1.0))


def _difference(what: str, unit: str, before: FloatArray, now: FloatArray, level: float) -> Change:
    old, new = _mean(before) or 0.0, _mean(now) or 0.0
    size, half = new - old, _half(before, now, level)
    if half is None:
        return Change(what, unit, old, new, size, None, None, "cannot tell", is_ratio=False)
    ends = size - half, size + half
    return Change(what, unit, old, new, size, *ends, _verdict(*ends, 0.0), is_ratio=False)


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if len(values) else None


def _verdict(low: float, high: float, nothing: float) -> str:
    if low == high == nothing:
        return "the same"
    return "more" if low > nothing else "less" if high < nothing else "cannot tell"


def _half(before: FloatArray, now: FloatArray, level: float) -> float | None:
    """Return the half-width of Welch's interval of a difference; None with too few batches."""
    if min(len(before), len(now)) < _BATCHES_MIN:
        return None
    errors = [float(values.var(ddof=1)) / len(values) for values in (before, now)]
    whole = sum(errors)
    if whole == 0:
        return 0.0
    degrees = whole**2 / sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (before, now), strict=True)
    )
    return t_quantile((1 + level) / 2, degrees) * math.sqrt(whole)
