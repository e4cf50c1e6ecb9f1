"""CHECK conditions that the load may break on a copy: it writes values that nobody knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pgdyno.engine.distribution import DISTINCT_MAX, Distribution, Hot
from pgdyno.features.capture.checks import holds, holds_in_domain
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    ListOf,
    OfColumn,
    Returned,
    Template,
)
from pgdyno.features.capture.reading.assigned import Assigned
from pgdyno.features.capture.reading.key_sources import Place
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape, SchemaObject, bare

# A sum that is repeated has no limit.
_FAR = 10**18
_NAME = re.compile(r'"(?:[^"]|"")*"|\w+')


def with_changes(
    columns: Sequence[ColumnShape],
    objects: Iterable[SchemaObject],
    templates: Iterable[Template],
    parsed: Mapping[str, Parsed],
) -> tuple[SchemaObject, ...]:
    """Return the objects; checks and domains that the load may break are marked.

    Args: parsed, the statements of the templates by id.
    """
    by_place = {(own.table, own.column): own for own in columns}
    known = {place: own.distribution for place, own in by_place.items()}
    written: dict[Place, list[Distribution | None]] = {}
    for template in templates:
        texts = [parsed.get(step.statement, Parsed("")) for step in template.steps]
        for number, text in enumerate(texts):
            for new in text.assigned if not text.copies else ():
                values = list(_values(new, number, template, texts, known))
                written.setdefault(new.place, []).extend(values)

    def is_broken(item: SchemaObject) -> bool:
        if item.kind == "domain":
            types = (item.name, item.name.rpartition(".")[2])
            new = [
                v for p, own in by_place.items() if own.type in types for v in written.get(p, ())
            ]
            return " CHECK (" in item.sql and not all(
                v and holds_in_domain(item.sql, v) for v in new
            )
        if item.kind != "check":
            return False
        own = {column: d for (table, column), d in known.items() if table == item.table}
        named = {bare(name) for name in _NAME.findall(item.sql)} & own.keys()
        return not all(
            values is not None and holds(item.sql, {**own, name: values})
            for name in named
            for values in written.get((item.table, name), ())
        )

    return tuple(
        item.model_copy(update={"is_broken_by_load": True}) if is_broken(item) else item
        for item in objects
    )


def _values(
    new: Assigned,
    number: int,
    template: Template,
    texts: Sequence[Parsed],
    known: Mapping[Place, Distribution],
) -> Iterator[Distribution | None]:
    """Yield what the values of a column may become; None is not known."""
    own = known.get(new.place)
    given: Distribution | None = None
    if new.parameter:
        given = _of_parameter(number, new.parameter - 1, template, texts, known)
    elif new.operator:
        given = _one("1")
    if not new.operator:
        # NULL satisfies every condition.
        if given is None or given.hot or given.bounds or given.null_fraction < 1:
            yield given
        return
    amounts = _numbers(given)
    ends = _numbers(own)
    if own is None or not amounts or not ends:
        yield None
        return
    if new.operator == "-":
        amounts = [-amount for amount in amounts]
    least = -_FAR if min(amounts) < 0 else min(ends)
    most = _FAR if max(amounts) > 0 else max(ends)
    yield own.model_copy(update={"bounds": (str(least), str(most)), "hot": ()})


def _of_parameter(
    step: int,
    position: int,
    template: Template,
    texts: Sequence[Parsed],
    known: Mapping[Place, Distribution],
) -> Distribution | None:
    if position >= len(template.steps[step].parameters):
        return None
    source = template.steps[step].parameters[position]
    while isinstance(source, Equal):
        source = template.steps[source.step].parameters[source.parameter]
    if isinstance(source, ListOf):
        source = source.of
    if isinstance(source, Constant):
        return _one(source.value)
    if isinstance(source, Drawn):
        return source.distribution
    if isinstance(source, OfColumn):
        return known.get((source.table, source.column))
    if isinstance(source, Returned) and source.column < len(texts[source.step].outputs):
        return known.get(texts[source.step].outputs[source.column])
    if isinstance(source, Fresh) and (
        numbers := _numbers(known.get((source.table, source.column)))
    ):
        return Distribution(
            kind="integer", distinct=DISTINCT_MAX, bounds=(str(max(numbers)), str(_FAR))
        )
    return None


def _one(value: str | None) -> Distribution:
    if value is None:
        return Distribution(kind="other", null_fraction=1)
    is_number = re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    hot = (Hot(value=value, fraction=1),)
    return Distribution(kind="numeric" if is_number else "text", distinct=1, hot=hot)


def _numbers(distribution: Distribution | None) -> list[float]:
    """Return the ends and the common values, if they are numbers."""
    if distribution is None or distribution.kind not in ("integer", "numeric", "real"):
        return []
    return [float(v) for v in (*distribution.bounds, *(h.value for h in distribution.hot))]
