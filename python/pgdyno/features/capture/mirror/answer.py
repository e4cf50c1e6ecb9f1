"""What a mirror adds to the findings of a run: how alike the load is to its source.

A *mirror* repeats a captured load on a copy. Its *source* is the server that was captured. What the
source did is in the run (`source` in server.json); what the copy did is counted here, and
`findings.py` compares the two, statement by statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.analysis.findings import ScriptFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.own import OwnAnswer
from pgdyno.features.capture.mirror.findings import (
    ALIKE_MIN,
    CopySeen,
    Counters,
    FailedKind,
    Likeness,
    likeness_of,
    summed,
)
from pgdyno.loop.load_numbers import LoadNumbers, statement_findings
from pgdyno.quantities import plain
from pgdyno.redaction import redacted
from pgdyno.store.stored_run import StoredRun

# With this number of calls for one of the source, tables grow visibly more.
_MANY_CALLS = 1.5


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
        source = runs[0][0].server_json.get("source")
        if not source:
            return None
        return likeness_of(source, summed([_counted(*run) for run in runs]))

    def doubts(self, likeness: Likeness) -> Iterator[Doubt]:
        """Yield a doubt if much of the source's time is in statements that are not alike."""
        if likeness.share is None or likeness.share < ALIKE_MIN:
            yield Doubt(
                "not_alike",
                "doubt",
                f"The load differs from its source: {likeness.sentence}.",
                _next_step(likeness),
            )

    def judged_texts(self, likeness: Likeness) -> frozenset[str]:
        """Return the statements that are alike: a comparison judges no others."""
        return likeness.alike_texts


def _next_step(likeness: Likeness) -> str:
    """Return what may make a load more alike."""
    calls = [(row.source.calls, row.copy.calls) for row in likeness.statements]
    times = math.fsum(copy for _, copy in calls) / max(math.fsum(own for own, _ in calls), 1.0)
    is_larger = any("blocks a call" in row.reason for row in likeness.statements)
    if is_larger and times > _MANY_CALLS:
        return (
            f"the copy had {plain(times)} times the calls of the source, so its tables grew more:"
            " --rate 1x, and -T no longer than the capture"
        )
    return "the table of likeness has both sides; docs/own-workload.md explains it"


ANSWER = MirrorAnswer()


def _counted(stored: StoredRun, numbers: LoadNumbers) -> CopySeen:
    """Return what the engine and the server of the copy counted during one run."""
    calls: dict[str, float] = {}
    ended = 0
    shapes = zip(numbers.scripts, numbers.summary.scripts, strict=True)
    for index, (shape, script) in enumerate(shapes):
        ended += script.counts.completed + script.counts.failed
        for statement in statement_findings(stored, shape, index):
            text = redacted(statement.text)
            calls[text] = calls.get(text, 0) + statement.calls
    return CopySeen(
        calls=calls,
        counters=_server_counters(stored.server_json, numbers),
        transactions=ended,
        failed=tuple(_failed(numbers)),
    )


def _failed(numbers: LoadNumbers) -> Iterator[FailedKind]:
    """Yield the failed tries of the measured phase by statement."""
    for failed in numbers.summary.failed_statements or ():
        statements = numbers.scripts[failed.script].statements
        text_at = {statement.line: statement.text for statement in statements}
        text = text_at.get(failed.line, "") if failed.line is not None else ""
        if failed.count:
            yield FailedKind(redacted(text), failed.code, failed.message, failed.count)


def _server_counters(
    server_json: Mapping[str, Any], numbers: LoadNumbers
) -> dict[str, Counters] | None:
    """Return the server's counters by text; None if the server does not count statements.

    Args: server_json, with `statement_counters` (query id -> name of a counter -> its growth) and
    `query_ids` (script -> line -> query ids), as `measure.after_load` writes them.
    Returns: example: "SELECT 1" -> calls -> 12.0. Several lines may have one text: their sum.
    Texts that differ only in constants have one query id: all of them have its counters.
    """
    growth_by_id = (server_json.get("statement_counters") or {}).get("statements")
    if growth_by_id is None:
        return None
    ids_by_script = server_json.get("query_ids") or {}
    counters: dict[str, dict[str, float]] = {}
    used: set[tuple[str, int]] = set()
    for script in numbers.scripts:
        for statement in script.statements:
            ids = ids_by_script.get(script.name, {}).get(str(statement.line), ())
            text = redacted(statement.text)
            for query_id in {number for number in ids if (text, number) not in used}:
                used.add((text, query_id))
                if (growth := growth_by_id.get(str(query_id))) is not None:
                    sums = counters.setdefault(text, dict.fromkeys(growth, 0.0))
                    # `findings` reads it: without it, rows and blocks are not known.
                    sums["is_counted"] = 1.0
                    for name, value in growth.items():
                        sums[name] += value
    return dict(counters)
