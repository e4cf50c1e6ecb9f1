"""What a mirror adds to the findings of a run: how alike the load is to its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgdyno.analysis.arrays import FloatArray, distinct
from pgdyno.analysis.script_findings import ScriptFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.own import OwnAnswer
from pgdyno.features.capture.mirror.findings import (
    CopySeen,
    Counters,
    Likeness,
    likeness_of,
    together,
)
from pgdyno.loop.load_numbers import LoadNumbers, statement_findings
from pgdyno.redaction import redacted
from pgdyno.store.stored_run import StoredRun

CPU = "CPU"


class MirrorAnswer(OwnAnswer):
    """Compares a run with its source."""

    def findings(
        self,
        stored: StoredRun,
        numbers: LoadNumbers,
        scripts: Sequence[ScriptFindings],  # noqa: ARG002
        server: Mapping[str, Any],  # noqa: ARG002
    ) -> Likeness | None:
        """Return the likeness; None if the run has no description of its source."""
        return self.together([(stored, numbers)])

    def together(self, runs: Sequence[tuple[StoredRun, LoadNumbers]]) -> Likeness | None:
        """Return the likeness of all runs of one variant and load, as if they were one run."""
        if not runs:
            return None
        source = (runs[0][0].document("server.json") or {}).get("source")
        if not source:
            return None
        return likeness_of(source, together([_seen(*run) for run in runs]))

    def doubts(self, own: Likeness) -> Iterator[Doubt]:
        """Yield a doubt if the load is not alike."""
        if own.short:
            yield Doubt(
                "not_alike",
                "doubt",
                f"The load differs from its source: {', '.join(q.name for q in own.short)}.",
                "the table of likeness has both values; docs/own-workload.md explains them",
            )


ANSWER = MirrorAnswer()


def _seen(stored: StoredRun, numbers: LoadNumbers) -> CopySeen:
    """Return what was counted during one run."""
    document = stored.document("server.json") or {}
    seen = document.get("statement_counters") or {}
    calls: dict[str, float] = {}
    transactions: dict[str, int] = {}
    shapes = zip(numbers.scripts, numbers.summary.scripts, strict=True)
    for index, (shape, script) in enumerate(shapes):
        if not script.counts.completed:
            continue
        transactions[shape.name] = script.counts.completed
        for statement in statement_findings(stored, shape, index):
            text = redacted(statement.text)
            calls[text] = calls.get(text, 0) + statement.calls
    return CopySeen(
        calls=calls,
        counters=_counters(document, seen, numbers),
        transactions=transactions,
        waits=waits_of(stored),
        active_sessions=active_sessions(stored),
        updates=seen.get("updates"),
        hot_updates=seen.get("hot_updates"),
    )


def _counters(
    document: Mapping[str, Any], seen: Mapping[str, Any], numbers: LoadNumbers
) -> dict[str, Counters] | None:
    """Return the server's counters by text; None if the server does not count statements."""
    by_id = seen.get("statements")
    if by_id is None:
        return None
    known = document.get("query_ids") or {}
    counters: dict[str, dict[str, float]] = {}
    used: set[int] = set()
    for shape in numbers.scripts:
        for statement in shape.statements:
            ids = known.get(shape.name, {}).get(str(statement.line), ())
            for number in set(ids) - used:
                used.add(number)
                if (grown := by_id.get(str(number))) is not None:
                    text = redacted(statement.text)
                    own = counters.setdefault(text, dict.fromkeys(grown, 0.0))
                    for name, value in grown.items():
                        own[name] += value
    return dict(counters)


def _active(stored: StoredRun) -> tuple[list[str], FloatArray, int]:
    """Return what the load's active sessions waited for, how many they were, and the instants.

    A capture looks at active sessions only; those that wait for their client are not active.
    """
    waits = stored.waits()
    instants = len(distinct(np.asarray(waits["time_ns"], dtype=np.int64)))
    counted = (np.asarray(waits["ours"]) == 1) & (np.asarray(waits["state"]) == "active")
    events = np.asarray(waits["wait_event"])[counted].tolist()
    return events, np.asarray(waits["count"], dtype=np.float64)[counted], instants


def waits_of(stored: StoredRun) -> dict[str, float] | None:
    """Return the share of each wait event among the load's active sessions."""
    events, counts, _ = _active(stored)
    whole = float(counts.sum())
    if not whole:
        return None
    shares: dict[str, float] = {}
    for event, count in zip(events, counts, strict=True):
        name = event if ":" in event else CPU
        shares[name] = shares.get(name, 0.0) + float(count) / whole
    return shares


def active_sessions(stored: StoredRun) -> float | None:
    """Return the mean number of the load's active sessions, sampled as a capture samples them."""
    _, counts, instants = _active(stored)
    return float(counts.sum()) / instants if instants else None
