"""The load of a capture as a part of the job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pgdyno.clock import read_pair
from pgdyno.engine.distribution import CapturePart, Distribution
from pgdyno.errors import SpecError
from pgdyno.features.capture.file import capture_at
from pgdyno.features.capture.load_statements import harmless
from pgdyno.features.capture.mirror.adaptation import (
    adapted,
    is_empty,
    left_out_of,
)
from pgdyno.features.capture.mirror.replay import recording_document, templates_in
from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Giver,
    KnownValue,
    OfColumn,
    Recalled,
    Source,
    Step,
    Taken,
    Template,
    givers_of,
    parts_of,
    referred_by,
)
from pgdyno.features.capture.object_names import ObjectNames, quoted
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.safety import (
    not_of_the_copy,
    refuse_other_loads,
    refuse_other_names,
)
from pgdyno.features.capture.tables import digest_of, qualified_at
from pgdyno.server.grammar import statements_of, with_constants
from pgdyno.server.permission import unpermitted
from pgdyno.spec.experiment import Script

# The rarest template still has a weight of one, and all weights together fit 32 bits.
_WEIGHTS = 1_000_000
# Different values, and bytes of a text, in a column about which nothing is known.
_UNKNOWN_DISTINCT, _UNKNOWN_WIDTH = 100, 8


def capture_of(script: Script) -> Capture:
    """Return the capture of a script.

    Raises: SpecError if the file cannot be read, or is not a capture.
    """
    assert script.capture is not None, f"{script.name} has no capture"
    return adapted(capture_at(script.capture), script.adapted)


def digest_at(path: Path) -> str | None:
    """Return the digest of the capture in a file, as the mark of its tables has it.

    None if its statements reach more than the copy, or if its schema is refused: then no mark
    covers them.
    """
    try:
        capture = qualified_at(path)
    except SpecError:
        return None
    return None if not_of_the_copy(capture) is not None else digest_of(capture)


def mirror_load(script: Script) -> dict[str, Any]:
    """Return the load of a script's capture for the job of the engine.

    Raises: SpecError if the capture has no transaction that could run.
    """
    capture = capture_of(script)
    refuse_other_names(capture, file=str(script.capture))
    refuse_other_loads(capture, file=str(script.capture))
    templates = templates_of(script)
    if not templates:
        what = "no transaction that only reads" if script.reads_only else "no transaction"
        raise SpecError(
            f"{script.capture} has {what} that can be reproduced.",
            hint="pgdyno capture show FILE lists what a capture has",
        )
    known = {statement.id: statement for statement in capture.statements}
    omitted = left_out_of(script, capture)
    steps = [step.statement for kind in templates for step in kind.steps]
    used = [name for name in dict.fromkeys(steps) if name not in omitted]
    used += sorted(_taken_from(templates) - set(used))
    place = {name: number for number, name in enumerate(used)}
    sent = texts_as_sent(templates, known, used)
    kept = {name: count for name, (_, count) in sent.items()}
    sources = _Sources(place, _ranges(capture), _without_statistics(capture), kept)
    whole_tps = sum(template.rate_tps for template in templates)
    tables = sorted({table for name in used for table in known[name].tables})
    recorded: dict[str, Any] = {}
    if capture.recording is not None and script.capture is not None:
        document = recording_document(script.capture, capture, templates, place)
        recorded["recording"] = document
    return {
        **recorded,
        "tables": tables,
        "settings": _settings(capture),
        "data_age_s": max(0.0, _age_s(capture)),
        "statements": [
            {"text": text, "parameter_types": list(known[name].parameter_types[:count])}
            for name, (text, count) in sent.items()
        ],
        "templates": [
            {
                "name": template.name,
                "weight": max(1, round(_WEIGHTS * template.rate_tps / whole_tps)),
                "reads_only": reads_only(template, known),
                "protocol": template.protocol,
                "think_ms": template.think_ms or 0.0,
                "steps": [] if recorded else [_step(step, sources) for step in template.steps],
            }
            for template in templates
        ],
    }


def sent_texts(script: Script) -> dict[str, str]:
    """Return the text of each statement that a load sends, by its id."""
    capture, templates = capture_of(script), templates_of(script)
    known = {statement.id: statement for statement in capture.statements}
    omitted = left_out_of(script, capture)
    used = {step.statement for template in templates for step in template.steps}
    sent = texts_as_sent(templates, known, used - omitted.keys())
    return {name: text for name, (text, _) in sent.items()}


def texts_as_sent(
    templates: tuple[Template, ...], known: Mapping[str, Statement], used: Iterable[str]
) -> dict[str, tuple[str, int | None]]:
    """Return the texts of statements as they are sent, and how many parameters each has."""
    referred = set(_referred(templates))
    given: dict[str, set[tuple[Source, ...]]] = {}
    for step in (step for template in templates for step in template.steps):
        if known[step.statement].constant_count:
            given.setdefault(step.statement, set()).add(step.parameters)
    return {name: _sent(known[name], given.get(name, set()), referred) for name in used}


def _referred(templates: Iterable[Template]) -> Iterator[tuple[str, int]]:
    """Yield the parameters from which others follow: their statements and places."""
    for template in templates:
        for step in template.steps:
            for number, place in referred_by(step):
                if place is not None:
                    yield template.steps[number].statement, place
            for giver in (own for source in step.parameters for own in givers_of(source)):
                if giver.parameter is not None:
                    yield giver.statement, giver.parameter


def _sent(
    statement: Statement,
    given: AbstractSet[tuple[Source, ...]],
    referred: AbstractSet[tuple[str, int]],
) -> tuple[str, int | None]:
    """Return the text with its constants, as the program sent it, and how many parameters it has.

    If a constant is not the same in all transactions, or another parameter follows from it, all of
    them stay parameters: None.
    Args: given, the parameters of each step that sends it, if it has constants.
    """
    first = min((len(parameters) for parameters in given), default=0) - statement.constant_count
    constants = {parameters[first:] for parameters in given} if first >= 0 else set()
    if len(constants) != 1:
        return statement.text, None
    values = [source.value for source in constants.pop() if isinstance(source, Constant)]
    is_used = any(name == statement.id and place >= first for name, place in referred)
    if is_used or len(values) < statement.constant_count:
        return statement.text, None
    types = [*statement.parameter_types[first:], *[""] * len(values)]
    literals = {
        first + number: _literal(value, types[number - 1]) for number, value in enumerate(values, 1)
    }
    return with_constants(statement.text, literals, where=f"statement {statement.id}"), first


def _literal(value: str | None, type_: str) -> str:
    # A number in quotes stays one: `coalesce($1, '0')` compares texts.
    is_text = type_ in ("text", "character varying", "character", "interval")
    if value is None or (not is_text and re.fullmatch(r"\d+(\.\d+)?", value)):
        return value or "NULL"
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f" E'{quoted}'" if "\\" in value else f"'{quoted}'"


def _taken_from(templates: tuple[Template, ...]) -> set[str]:
    """Return the statements whose values other transactions take."""
    steps = [step for template in templates for step in template.steps]
    parts = [part for step in steps for source in step.parameters for part in parts_of(source)]
    return {part.statement for part in parts if isinstance(part, Taken)}


def templates_of(script: Script) -> tuple[Template, ...]:
    """Return the templates that a script runs: all that are not left out, or those that read.

    Those of a recording stand for its types.
    """
    capture = capture_of(script)
    known = {statement.id: statement for statement in capture.statements}
    templates = templates_in(capture)
    omitted = left_out_of(script, capture)
    return tuple(
        template
        for template in templates
        if template.rate_tps > 0
        and all(step.statement in known for step in template.steps)
        and not is_empty(template, known, omitted)
        and not (script.reads_only and not reads_only(template, known))
    )


def reads_only(template: Template, known: Mapping[str, Statement]) -> bool:
    """Return whether no statement of a template writes, by the grammar."""
    return all(
        known[step.statement].reads_only and _is_permitted(known[step.statement].text)
        for step in template.steps
    )


@cache
def _is_permitted(text: str) -> bool:
    try:
        return all(unpermitted(part) is None for part in statements_of(text, where="capture"))
    except SpecError:
        return False


def _ranges(capture: Capture) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the ends of the integer columns of the source."""
    ranges = {}
    for shape in capture.columns:
        spread = shape.distribution
        values = [*spread.bounds, *(hot.value for hot in spread.hot)]
        if spread.kind == "integer" and values:
            numbers = [int(value) for value in values]
            ranges[shape.table, shape.column] = min(numbers), max(numbers)
    return ranges


def _without_statistics(capture: Capture) -> dict[tuple[str, str], Distribution]:
    """Return values for columns that need one, in tables that were never analysed with a row.

    Such a table may be empty in the copy, so it has no existing value either. Keys are left alone.
    """
    return {
        (shape.table, shape.column): shape.distribution.model_copy(
            update={
                "distinct": len(shape.distribution.labels) or _UNKNOWN_DISTINCT,
                "width": _UNKNOWN_WIDTH,
            }
        )
        for shape in capture.columns
        if shape.is_not_null
        and not shape.distribution.distinct
        and not (shape.is_unique or shape.key_position or shape.references)
    }


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a source of parameters needs to know of the whole capture.

    `place`: of each statement, by its id. `ranges`: the ends of integer columns. `unknown`: values
    for columns without statistics. `kept`: how many parameters a statement is sent with; None: all.
    """

    place: Mapping[str, int]
    ranges: Mapping[tuple[str, str], tuple[int, int]]
    unknown: Mapping[tuple[str, str], Distribution]
    kept: Mapping[str, int | None]

    def put(self, part: object, given: Any) -> None:
        """Put places of statements, ranges and unknown values into the document of a source."""
        if isinstance(part, tuple):
            for item, own in zip(part, given, strict=True):
                self.put(item, own)
        if not isinstance(part, CapturePart) or isinstance(part, Distribution):
            return
        for name in type(part).model_fields:
            self.put(getattr(part, name), given.get(name))
        if isinstance(part, OfColumn):
            column = part.table, part.column
            if part.group is None and column in self.unknown:
                drawn = self.unknown[column].model_dump(mode="json", exclude_none=True)
                given.clear()
                given.update({"from": "drawn", "distribution": drawn})
            elif column in self.ranges:
                given["range"] = list(self.ranges[column])
        elif isinstance(part, Taken | Giver):
            given["statement"] = self.place.get(part.statement)
        elif isinstance(part, Recalled):
            given["givers"] = [own for own in given["givers"] if own["statement"] is not None]
        elif isinstance(part, KnownValue):
            given["sightings"] = [
                own for own in given["sightings"] if own["key"][0]["statement"] is not None
            ]


def _step(step: Step, sources: _Sources) -> dict[str, Any]:
    is_sent = step.statement in sources.kept
    given = step.parameters[: sources.kept.get(step.statement)]
    known = range(len(given))
    # A step waits for a value that is not NULL, but a constant never changes: the server decides.
    waiting = {number for number in known if given[number] != Constant(value=None)}
    places = {
        "not_null": tuple(number for number in step.not_null if number in waiting),
        "optional": tuple(number for number in step.optional if number in known),
    }
    step = step.model_copy(update={"parameters": given, **places})
    document = step.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"same_trip"})
    for source, part in zip(given, document.get("parameters", ()), strict=True):
        sources.put(source, part)
    if not is_sent:
        document["left_out"] = True
    return {**document, "statement": sources.place.get(step.statement, 0)}


def _settings(capture: Capture) -> dict[str, str]:
    """Return the settings of the role with most sessions.

    They search only the schemas of the capture, so an object of another schema is never meant. A
    program that sets search_path itself leaves no trace in them, so schemas that are not in their
    path follow: a name that is found without them keeps its meaning.
    """
    most = max(capture.sessions, key=lambda kind: kind.count, default=None)
    settings = harmless(most.settings if most is not None else {})
    names = ObjectNames(capture.objects, capture.columns)
    made = names.schemas if names.extensions else names.schemas_of_objects
    schemas = [quoted(schema) for schema in sorted(made)]
    path = [part.strip() for part in settings.get("search_path", "public").split(",")]
    known = [part for part in path if part in schemas]
    others = [schema for schema in schemas if schema not in known]
    settings["search_path"] = ", ".join([*known, *others]) or "pg_catalog"
    return settings


def _age_s(capture: Capture) -> float:
    taken = datetime.fromisoformat(capture.header.taken_at.replace("Z", "+00:00"))
    if taken.tzinfo is None:
        taken = taken.replace(tzinfo=UTC)
    age_s: float = read_pair().unix_ns / 1e9 - taken.timestamp() - capture.header.seconds
    return age_s
