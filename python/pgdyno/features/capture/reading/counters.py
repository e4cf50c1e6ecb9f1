"""Columns from which a load takes the next key of other tables, such as the next order number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pgdyno.features.capture.model import (
    CountedKey,
    Counter,
    Equal,
    Linear,
    OfColumn,
    Returned,
    Source,
    Template,
)
from pgdyno.features.capture.reading.key_sources import Place, unique_keys
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape, SchemaObject


class CountersOfLoad:
    """Finds the counters of templates. `parsed`: the statements by id."""

    def __init__(
        self,
        columns: Sequence[ColumnShape],
        objects: Iterable[SchemaObject],
        parsed: Mapping[str, Parsed],
    ) -> None:
        self._columns = {(column.table, column.column): column for column in columns}
        self._unique = unique_keys(columns, objects)
        self._parsed = parsed

    def of(self, templates: Iterable[Template]) -> Iterator[Counter]:
        """Yield each counter with all keys that it counts."""
        keys: dict[tuple[Place, tuple[str, ...]], list[CountedKey]] = {}
        for template in templates:
            for counter, group, key in self._of_template(template):
                known = keys.setdefault((counter, group), [])
                if key not in known:
                    known.append(key)
        for ((table, column), group), counted in keys.items():
            yield Counter(table=table, column=column, group=group, keys=tuple(counted))

    def followed(self, templates: Sequence[Template]) -> tuple[Template, ...]:
        """Return the templates; what reads a counter and then its keys, asks for those near it."""
        counters = list(self.of(templates))
        return tuple(self._following(template, counters) for template in templates)

    def _following(self, template: Template, counters: Sequence[Counter]) -> Template:
        steps = list(template.steps)
        for number, step in enumerate(steps):
            sources = [
                source
                if not isinstance(source, OfColumn)
                else self._read_before(template, number, source, counters) or source
                for source in step.parameters
            ]
            steps[number] = step.model_copy(update={"parameters": tuple(sources)})
        return template.model_copy(update={"steps": tuple(steps)})

    def _read_before(
        self, template: Template, number: int, source: OfColumn, counters: Sequence[Counter]
    ) -> Returned | None:
        """Return the counter that an earlier step read, of the same group as the keys of a step."""
        roots = self._roots(template, number)
        for counter in counters:
            for key in counter.keys:
                if (key.table, key.column) != (source.table, source.column):
                    continue
                group = [roots.get(name) for name in key.group]
                for step in reversed(range(number)):
                    known = self._parsed.get(template.steps[step].statement)
                    place = (counter.table, counter.column)
                    if known is None or place not in known.outputs:
                        continue
                    asked = self._roots(template, step)
                    if [asked.get(name) for name in counter.group] == group and None not in group:
                        return Returned(step=step, column=known.outputs.index(place))
        return None

    def _roots(self, template: Template, number: int) -> dict[str, object]:
        """Return where the values come from that a step compares with columns, by column."""
        parsed = self._parsed.get(template.steps[number].statement)
        uses = parsed.parameters.items() if parsed is not None else ()
        return {
            own.column: _root(template, number, position - 1)
            for position, own in uses
            if own.use == "equal"
        }

    def _of_template(
        self, template: Template
    ) -> Iterator[tuple[Place, tuple[str, ...], CountedKey]]:
        for number, step in enumerate(template.steps):
            insert = self._parsed.get(step.statement)
            if insert is None or insert.kind != "insert":
                continue
            roots = {
                use.column: _root(template, number, position - 1)
                for position, use in insert.parameters.items()
                if use.use == "insert" and use.table == insert.written
            }
            for column, root in roots.items():
                counter = self._counter(template, root)
                if counter is None or counter[0][0] == insert.written:
                    continue
                place, wanted = counter
                for key in self._unique.get(insert.written, ()):
                    others = [name for name in key if name != column and name in roots]
                    group = [
                        next((name for name in others if roots[name] == root), "")
                        for root in wanted.values()
                    ]
                    if column in key and all(group):
                        counted = CountedKey(
                            table=insert.written, column=column, group=tuple(group)
                        )
                        yield place, tuple(wanted), counted

    def _counter(self, template: Template, root: object) -> tuple[Place, dict[str, object]] | None:
        """Return the column that a step returned, and by which columns the step found its row."""
        if not isinstance(root, Returned | Linear) or root.column is None:
            return None
        if isinstance(root, Linear) and (root.slope != 1 or root.plus is not None):
            return None
        parsed = self._parsed.get(template.steps[root.step].statement)
        if parsed is None or root.column >= len(parsed.outputs):
            return None
        added = parsed.sums.get(root.column)
        place = added[:2] if added else parsed.outputs[root.column]
        shape = self._columns.get(place)
        is_key = shape and (shape.is_unique or shape.key_position or shape.references)
        if shape is None or is_key or shape.distribution.kind != "integer":
            return None
        asked = {
            use.column: _root(template, root.step, position - 1)
            for position, use in parsed.parameters.items()
            if use.use == "equal" and use.table == shape.table
        }
        if not any(set(key) == set(asked) for key in self._unique.get(shape.table, ())):
            return None
        return place, asked


def _root(template: Template, step: int, parameter: int) -> object:
    """Return where the value of a parameter comes from first: a source, or a step and parameter."""
    source: Source | None = None
    while parameter < len(template.steps[step].parameters):
        source = template.steps[step].parameters[parameter]
        if not isinstance(source, Equal) or source.take != "value":
            break
        step, parameter = source.step, source.parameter
    is_shared = isinstance(source, Returned | Linear) or (source and source.origin == "constant")
    return source if is_shared else (step, parameter)
