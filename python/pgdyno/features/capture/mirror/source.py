"""What a run keeps of the source of a capture: its statements and their counters.

So a run can be compared with its source without the file of the capture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.features.capture.mirror.adaptation import by_time, is_control, left_out_of
from pgdyno.features.capture.mirror.job import capture_of, templates_of, texts_as_sent
from pgdyno.features.capture.model import Capture, ListOf, OfColumn, Returned, Taken, Template
from pgdyno.features.capture.observed import REASONS, Counters
from pgdyno.features.capture.sent import not_sent
from pgdyno.redaction import redacted
from pgdyno.spec.experiment import Script


@dataclass(frozen=True, slots=True)
class Share:
    """How much of the work of the source a load reproduces, as shares of calls and of time.

    `calls_ratio`: None if the logs of the source lack statements.
    """

    calls_ratio: float | None
    time_ratio: float | None


def share_of(script: Script) -> Share:
    """Return the share of the source's work that a script reproduces."""
    capture = capture_of(script)
    if capture.header.is_partial:
        return Share(None, None)
    used = {step.statement for template in templates_of(script) for step in template.steps}
    used -= left_out_of(script, capture).keys()
    counted = [(own.counters.calls, own.counters.time_ms, own.id in used)
               for own in capture.statements]  # fmt: skip
    left_out = [(own.calls, own.time_ms, False) for own in capture.left_out]
    rows = [*counted, *left_out]
    calls, time_ms = sum(row[0] for row in rows), sum(row[1] for row in rows)
    mine = [row for row in rows if row[2]]
    return Share(
        sum(row[0] for row in mine) / calls if calls else 0.0,
        sum(row[1] for row in mine) / time_ms if time_ms else None,
    )


def source_document(script: Script) -> dict[str, Any]:
    """Return what a run keeps of the source: its statements, those with most time first.

    A statement has the text that the load sends, and from which its counters are found, or the
    reason why it is left out. What only begins or ends a transaction is not among them.
    """
    capture = capture_of(script)
    share = share_of(script)
    lacks = "the logs of the source lack statements" if capture.header.is_partial else ""
    harmful = [
        own.text for own in capture.statements if own.id in script.adapted.get("harmful", ())
    ]
    return {
        "file": script.capture.name if script.capture is not None else "",
        "reads_only": script.reads_only,
        "reproduced_calls": share.calls_ratio,
        "reproduced_time": share.time_ratio,
        "not_sent": [redacted(text) for text in (*not_sent(capture), *harmful)],
        "version_num": capture.header.server_version_num,
        "lacks": lacks,
        "statements": list(_rows_of_source(script, capture)),
    }


def _rows_of_source(script: Script, capture: Capture) -> Iterator[dict[str, Any]]:
    known = {statement.id: statement for statement in capture.statements}
    templates = templates_of(script)
    used = {step.statement for template in templates for step in template.steps}
    sent = {name: text for name, (text, _) in texts_as_sent(templates, known, used).items()}
    omitted = left_out_of(script, capture)
    has_counters = "log" not in capture.header.sources
    # Several roles may send one text.
    rows: dict[str, dict[str, Any]] = {}
    ranked = by_time(capture)
    others = [own for own in capture.statements if own not in ranked and not is_control(own)]
    for own in (*ranked, *(other for other in others if other.counters.calls)):
        # As every text in a result, so that both sides of a comparison have the same.
        text = redacted(sent.get(own.id, own.text))
        reason = omitted.get(own.id, "")
        if not reason and own.id not in used:
            only = "it writes, or is in a transaction that writes"
            reason = only if script.reads_only else "no transaction of the capture has it"
        counters = own.counters
        if (row := rows.get(text)) is not None:
            counters = Counters.total([Counters.model_validate(row["counters"]), counters])
        document = counters.model_dump(mode="json")
        is_counted = has_counters or own.is_counted or _has_rows(counters)
        document["is_counted"] = float(is_counted)
        fitted = own.id in script.adapted.get("fitted", ())
        rows[text] = {
            "id": own.id,
            "text": text,
            "reason": reason,
            "is_fitted": fitted,
            "needs": list(needs_of(own.id, templates, sent)),
            "counted_ratio": own.counted_ratio,
            "counters": document,
        }
    yield from rows.values()
    for item in capture.left_out:
        counters = Counters(calls=item.calls, time_ms=item.time_ms)
        document = {**counters.model_dump(mode="json"), "is_counted": 0.0}
        words = REASONS.get(item.reason, item.reason)
        yield {"id": "", "text": redacted(item.text), "reason": words, "counters": document}


def needs_of(
    statement: str, templates: Iterable[Template], sent: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the parameters without whose value a statement is not sent, each with its origin.

    The origin is the text of the statement that returns it, or a column.
    """
    for template in templates:
        for step in (step for step in template.steps if step.statement == statement):
            for place, source in enumerate(step.parameters):
                origin: dict[str, str] = {}
                match source.of if isinstance(source, ListOf) else source:
                    case Returned() as own:
                        origin["text"] = sent.get(template.steps[own.step].statement, "")
                    case Taken() as own:
                        origin["text"] = sent.get(own.statement, "")
                    case OfColumn() as own if place in step.not_null:
                        origin["column"] = f"{own.table}.{own.column}"
                if origin and place not in step.optional:
                    said = {name: redacted(text) for name, text in origin.items()}
                    yield {"parameter": place + 1, **said}


def _has_rows(counters: Counters) -> bool:
    return bool(counters.rows or counters.hit_blocks or counters.read_blocks)
