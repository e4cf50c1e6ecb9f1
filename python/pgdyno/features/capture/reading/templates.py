"""Templates of transactions with their keys, from kinds of a log or of statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.features.capture.model import Step, Template
from pgdyno.features.capture.reading.copied import with_rows
from pgdyno.features.capture.reading.key_sources import KeySources, those_with_most_keys_first
from pgdyno.features.capture.reading.parsed import Parsed


@dataclass(frozen=True, slots=True)
class TemplateDraft:
    """A template without its name, and keys that only other transactions know.

    `calls`: its transactions. `rows`: of each COPY, the mean number; 0 for other steps.
    `is_used_once`, `are_new`: of the values of a parameter, see `KeySources.changed`.
    """

    template: Template
    calls: float
    rows: Sequence[float]
    is_used_once: Callable[[int, int, float], bool] = lambda *_: True
    are_new: Callable[[int, int], bool] = lambda *_: False


def finished(
    drafts: Sequence[TemplateDraft], parsed: Mapping[str, Parsed], keys: KeySources
) -> list[Template]:
    """Return the templates with names and keys. Args: parsed, the statements by id."""
    texts = [[parsed[step.statement] for step in own.template.steps] for own in drafts]
    steps_of: dict[int, list[Step]] = {}
    for place in those_with_most_keys_first([(own.template.steps, own.calls) for own in drafts]):
        own = drafts[place]
        steps_of[place] = keys.changed(
            own.template.steps, texts[place], own.is_used_once, own.are_new, calls=own.calls
        )
    names: Counter[str] = Counter()
    made: list[Template] = []
    for place, own in enumerate(drafts):
        name = name_of(texts[place])
        names[name] += 1
        changes = {
            "name": name if names[name] == 1 else f"{name} ({names[name]})",
            "steps": tuple(with_rows(steps_of[place], texts[place], own.rows)),
        }
        made.append(own.template.model_copy(update=changes))
    return made


def name_of(parsed: Sequence[Parsed]) -> str:
    """Return a name that says what a transaction does: its changes, or its first question."""
    written = [f"{p.kind} {_bare(p.written)}" for p in parsed if p.written]
    read = [f"{p.kind} {_bare(p.tables[0])}" for p in parsed if p.tables]
    work = [p.kind for p in parsed if p.kind not in ("begin", "commit", "rollback")]
    words = list(dict.fromkeys(written or read)) or work[:1] or ["empty transaction"]
    more = f" and {len(words) - 2} more" if len(words) > 2 else ""
    return ", ".join(words[:2]) + more


def _bare(table: str) -> str:
    return table.removeprefix("public.")
