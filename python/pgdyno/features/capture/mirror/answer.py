"""What a mirror adds to the findings of a run: how alike the load is to its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.analysis.script_findings import ScriptFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.own import OwnAnswer
from pgdyno.features.capture.mirror.findings import (
    ALIKE_MIN,
    CopySeen,
    Counters,
    FailedKind,
    Likeness,
    likeness_of,
    together,
)
from pgdyno.loop.load_numbers import LoadNumbers, statement_findings
from pgdyno.redaction import redacted
from pgdyno.store.stored_run import StoredRun


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
        return likeness_of(source, together([_seen(*run) for run in runs]))

    def doubts(self, own: Likeness) -> Iterator[Doubt]:
        """Yield a doubt if much of the source's time is in statements that are not alike."""
        if own.share is None or own.share < ALIKE_MIN:
            yield Doubt(
                "not_alike",
                "doubt",
                f"The load differs from its source: {own.sentence}.",
                "the table of likeness has both sides; docs/own-workload.md explains it",
            )

    def judged_texts(self, own: Likeness) -> frozenset[str]:
        """Return the statements that are alike: a comparison judges no others."""
        return own.alike_texts


ANSWER = MirrorAnswer()


def _seen(stored: StoredRun, numbers: LoadNumbers) -> CopySeen:
    """Return what was counted during one run."""
    document = stored.server_json
    seen = document.get("statement_counters") or {}
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
        counters=_counters(document, seen, numbers),
        transactions=ended,
        failed=tuple(_failed(numbers)),
    )


def _failed(numbers: LoadNumbers) -> Iterator[FailedKind]:
    """Yield the failed tries of the measured phase by statement."""
    for failed in numbers.summary.failed_statements or ():
        lines = {own.line: own.text for own in numbers.scripts[failed.script].statements}
        text = lines.get(failed.line, "") if failed.line is not None else ""
        if failed.count:
            yield FailedKind(redacted(text), failed.code, failed.message, failed.count)


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
                    own["is_counted"] = 1.0
                    for name, value in grown.items():
                        own[name] += value
    return dict(counters)
