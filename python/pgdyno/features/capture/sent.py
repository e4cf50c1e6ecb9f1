"""The part of a captured load that `bench` sends: statements that could do harm are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from pgdyno.engine.distribution import CapturePart, Distribution
from pgdyno.errors import SpecError
from pgdyno.features.capture.load_statements import uses_of_statement
from pgdyno.features.capture.model import Capture, Step, Taken, Template, parts_of, referred_by
from pgdyno.features.capture.object_names import ObjectNames
from pgdyno.features.capture.observed import LeftOut
from pgdyno.features.capture.safety import why_not_own
from pgdyno.server.grammar import statements_of

_HARMFUL = "harmful"
_CONTROL = ("begin", "commit", "rollback")


def with_harmless_load(capture: Capture) -> Capture:
    """Return the capture without the statements of its load that call a function that may harm.

    Steps that need a value of such a statement go with it; the other steps of a transaction stay.
    A function may harm if it is one of the server's that reads files, opens connections, executes
    texts or acts on other sessions, or if the capture does not make it and names its schema.
    """
    used = capture.sent_ids
    names = ObjectNames(capture.objects, capture.columns)
    harmful = {
        own.id: why
        for own in capture.statements
        if own.id in used and (why := _harm(own.text, names)) is not None
    }
    if not harmful:
        return capture
    controls = [own.id for own in capture.statements if own.kind in _CONTROL]
    kept = (_without(template, harmful, controls) for template in capture.templates)
    gone = [own for own in capture.statements if own.id in harmful]
    return capture.model_copy(
        update={
            "templates": tuple(template for template in kept if template is not None),
            "statements": tuple(own for own in capture.statements if own.id not in harmful),
            "left_out": (
                *capture.left_out,
                *(
                    LeftOut(
                        reason=_HARMFUL,
                        text=own.text,
                        calls=own.counters.calls,
                        time_ms=own.counters.time_ms,
                    )
                    for own in gone
                ),
            ),
            "notes": (*capture.notes, *(not_sent_words(own.text, harmful[own.id]) for own in gone)),
        }
    )


def not_sent(capture: Capture) -> list[str]:
    """Return the texts of the statements that the load lacks because they could do harm."""
    return [item.text for item in capture.left_out if item.reason == _HARMFUL]


def not_sent_words(text: str, why: str) -> str:
    """Return the note on a statement that the load lacks. `why`: the function that may harm."""
    shown = " ".join(text.split())
    return f"not sent: {shown[:60]}{'...' if len(shown) > 60 else ''}: it uses {why}"


def _harm(text: str, names: ObjectNames) -> str | None:
    """Return the function that may harm; None without one, or if the text cannot be read."""
    try:
        statements = statements_of(text, where="the load")
        uses = [use for statement in statements for use in uses_of_statement(statement)]
    except (SpecError, RecursionError):
        return None  # The verb that sends or shows the load says what is wrong with it.
    functions = (use for use in uses if use.kind == "function")
    return next((why for use in functions if (why := why_not_own(use, names)) is not None), None)


def _without(
    template: Template, harmful: Mapping[str, str], controls: Collection[str]
) -> Template | None:
    """Return a template without these statements, and what needs them; None if nothing is left."""
    gone: set[int] = set()
    for place, step in enumerate(template.steps):
        if step.statement in harmful or _takes(step, harmful) or _follows(step, place, gone):
            gone.add(place)
    if not gone:
        return template
    kept = [place for place in range(len(template.steps)) if place not in gone]
    places = {old: new for new, old in enumerate(kept)}
    steps = [_moved(template.steps[old], places) for old in kept]
    if all(step.statement in controls for step in steps):
        return None
    return template.model_copy(update={"steps": tuple(steps)})


def _takes(step: Step, harmful: Mapping[str, str]) -> bool:
    """Return whether a step needs what another transaction got from a harmful statement."""
    parts = (part for source in step.parameters for part in parts_of(source))
    return any(isinstance(part, Taken) and part.statement in harmful for part in parts)


def _follows(step: Step, place: int, gone: Collection[int]) -> bool:
    """Return whether a step has a value of a step that is gone, or belongs to its loop."""
    in_loop = step.loops_with_before and place - 1 in gone
    return in_loop or any(number in gone for number, _ in referred_by(step))


_Moved = TypeVar("_Moved")


def _moved(part: _Moved, places: Mapping[int, int]) -> _Moved:
    """Return a part whose numbers of steps are the new ones."""
    if isinstance(part, tuple):
        return cast("_Moved", tuple(_moved(item, places) for item in part))
    if not isinstance(part, CapturePart) or isinstance(part, Distribution):
        return part
    changed: dict[str, Any] = {
        name: _moved(getattr(part, name), places) for name in type(part).model_fields
    }
    if changed.get("step") is not None:
        changed["step"] = places[changed["step"]]
    return part.model_copy(update=changed)
