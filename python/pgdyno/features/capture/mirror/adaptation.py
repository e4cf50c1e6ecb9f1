"""How a load is adapted to a database: statements that are left out, types and values.

The probe finds out what the database needs (`mirror/probe.py`). `--only` and `--without` leave out
what the user names. Everything else of the load asks here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from pgdyno.engine.distribution import CapturePart
from pgdyno.errors import SpecError
from pgdyno.features.capture.mirror.replay import templates_in
from pgdyno.features.capture.model import Capture, Returned, Source, Step, Template
from pgdyno.features.capture.observed import Statement
from pgdyno.server.grammar import with_constants
from pgdyno.spec.experiment import Script

# Statements that begin or end a transaction do no work.
_CONTROL = frozenset({"begin", "commit", "rollback", "savepoint", "set"})


class Adaptation(CapturePart):
    """What a load needs in one database.

    `left_out`: the reason for each statement that is not sent, by its id. `types`: of parameters
    whose type the server cannot find out, by statement and number from 1. `sources`: values in
    place of those of the capture, by statement and place from 0. `fitted`: statements whose values
    give the rows and blocks of the source. `harmful`: statements that are left out because they use
    a function or a type of this database that the capture does not make.
    """

    left_out: dict[str, str] = Field(default_factory=dict)
    types: dict[str, dict[int, str]] = Field(default_factory=dict)
    sources: dict[str, dict[int, Source]] = Field(default_factory=dict)
    fitted: tuple[str, ...] = ()
    harmful: tuple[str, ...] = ()


def adapted(capture: Capture, given: Mapping[str, Any]) -> Capture:
    """Return the capture with the types and values of an adaptation, given as a document."""
    own = Adaptation.model_validate(given)
    if not own.types and not own.sources:
        return capture
    statements = tuple(
        statement.model_copy(update={"text": _typed(statement, own.types[statement.id])})
        if statement.id in own.types
        else statement
        for statement in capture.statements
    )
    templates = tuple(
        template.model_copy(
            update={"steps": tuple(_with_sources(step, own.sources) for step in template.steps)}
        )
        for template in capture.templates
    )
    return capture.model_copy(update={"statements": statements, "templates": templates})


def _typed(statement: Statement, types: Mapping[int, str]) -> str:
    casts = {number: f"${number}::{kind}" for number, kind in types.items()}
    return with_constants(statement.text, casts, where=f"statement {statement.id}")


def _with_sources(step: Step, sources: Mapping[str, Mapping[int, Source]]) -> Step:
    own = sources.get(step.statement)
    if not own:
        return step
    given = tuple(own.get(place, source) for place, source in enumerate(step.parameters))
    return step.model_copy(update={"parameters": given})


def is_control(statement: Statement) -> bool:
    """Return whether a statement only begins or ends something."""
    return statement.kind in _CONTROL


def by_time(capture: Capture) -> list[Statement]:
    """Return the statements of transactions, the one with most of the source's time first.

    The place in this list is the number by which users name a statement, from 1.
    """
    used = {step.statement for template in templates_in(capture) for step in template.steps}
    own = [own for own in capture.statements if own.id in used and not is_control(own)]
    return sorted(own, key=lambda own: (-own.counters.time_ms, -own.counters.calls, own.text))


def left_out_of(script: Script, capture: Capture) -> dict[str, str]:
    """Return the reason for each statement that a load leaves out, by its id.

    Raises: SpecError if `--only` or `--without` names no statement.
    """
    reasons = dict(Adaptation.model_validate(script.adapted).left_out)
    ranked = by_time(capture)
    for text in script.without:
        reasons |= dict.fromkeys(_named(text, ranked, "--without"), "--without names it")
    if script.only:
        wanted = {name for text in script.only for name in _named(text, ranked, "--only")}
        others = {own.id for own in ranked} - wanted
        reasons |= dict.fromkeys(others, "--only does not name it")
    if reasons:
        _add_those_without_values(capture.templates, reasons)
    return reasons


def _named(text: str, ranked: Iterable[Statement], option: str) -> list[str]:
    """Return the ids of the statements with a number, or with a text in them."""
    known = list(ranked)
    if text.isdecimal():
        named = known[int(text) - 1 : int(text)] if int(text) else []
    else:
        wanted = " ".join(text.lower().split())
        named = [own for own in known if wanted in " ".join(own.text.lower().split())]
    if not named:
        raise SpecError(
            f"{option} {text}: none of the {len(known)} statements has this number or text.",
            hint="pgdyno bench --json lists the statements in `likeness.statements`",
        )
    return [own.id for own in named]


def _add_those_without_values(templates: Iterable[Template], reasons: dict[str, str]) -> None:
    """Add statements that need a value which only a left-out statement returns."""
    steps = [(template, step) for template in templates for step in template.steps]
    starving = "it needs a value of a statement that is left out"
    while True:
        able = {step.statement for template, step in steps if not _starves(template, step, reasons)}
        new = {step.statement for _, step in steps} - able - reasons.keys()
        if not new:
            return
        reasons |= dict.fromkeys(new, starving)


def _starves(template: Template, step: Step, reasons: Mapping[str, str]) -> bool:
    return any(
        isinstance(source, Returned)
        and place not in step.optional
        and template.steps[source.step].statement in reasons
        for place, source in enumerate(step.parameters)
    )


def is_empty(template: Template, known: Mapping[str, Statement], omitted: Iterable[str]) -> bool:
    """Return whether nothing of a template is left but statements that begin or end something."""
    gone = set(omitted)
    names = [step.statement for step in template.steps]
    return any(name in gone for name in names) and all(
        name in gone or is_control(known[name]) for name in names
    )
