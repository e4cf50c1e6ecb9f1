"""An approximation of a captured load as pgbench scripts: to read, and for other tools.

Limits: pgbench's language has integers and no lists. So a value of a text column is one text for
all transactions, a list has one element, and a step is repeated as often as its mean says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pgdyno.features.capture.model import (
    Between,
    Capture,
    Cases,
    Constant,
    Count,
    Drawn,
    Equal,
    Fresh,
    KnownValue,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Recalled,
    Record,
    Returned,
    Source,
    Step,
    Taken,
    Template,
    Turn,
)
from pgdyno.features.capture.schema import ColumnShape

_KEYS_MAX = 2**31 - 1
_REPEATS_MAX = 20
_WEIGHT_MAX = 1000


def scripts_of(capture: Capture) -> dict[str, str]:
    """Return the text of each script by its file name; the first line has its weight."""
    columns = {(column.table, column.column): column for column in capture.columns}
    texts = {statement.id: statement.text for statement in capture.statements}
    most = max((template.rate_tps for template in capture.templates), default=0) or 1
    scripts = {}
    for number, template in enumerate(capture.templates, 1):
        weight = max(1, round(_WEIGHT_MAX * template.rate_tps / most))
        bare = re.sub(r"[^a-z0-9_]+", "-", template.name.lower()).strip("-")
        lines = [
            f"-- {template.name}: {template.rate_tps:.3g} a second; weight {weight}",
            f"-- pgbench -f {number:02}-{bare}.sql@{weight}",
            *_lines(template, texts, columns),
        ]
        scripts[f"{number:02}-{bare}.sql"] = "\n".join(lines) + "\n"
    return scripts


def _lines(
    template: Template, texts: Mapping[str, str], columns: Mapping[tuple[str, str], ColumnShape]
) -> Iterator[str]:
    writer = _Writer(columns)
    returned = {
        (source.step, source.column)
        for step in template.steps
        for source in step.parameters
        if isinstance(source, Returned)
    }
    for number, step in enumerate(template.steps):
        wanted = sorted(column for place, column in returned if place == number)
        for _ in range(min(max(1, round(step.repeat.mean)), _REPEATS_MAX)):
            yield from writer.statement(number, step, texts[step.statement], wanted)


class _Writer:
    """Writes steps; a parameter is a variable p<step>_<number>, or a literal."""

    def __init__(self, columns: Mapping[tuple[str, str], ColumnShape]) -> None:
        self._columns = columns
        self._values: dict[tuple[int, int], str] = {}

    def statement(self, number: int, step: Step, text: str, wanted: list[int]) -> Iterator[str]:
        """Yield the \\set lines of a step, and the statement."""
        values: list[str] = []
        if text.startswith("COPY ") and text.endswith(" FROM STDIN"):
            rows = [source.length.mean for source in step.parameters if isinstance(source, ListOf)]
            yield f"-- pgbench cannot send the {sum(rows):g} rows of {text}"
            return
        for place, source in enumerate(step.parameters):
            name = f"p{number}_{place + 1}"
            value, expression = self._value(source, name)
            if expression:
                yield f"\\set {name} {expression}"
            self._values[number, place] = value
            values.append(value)
        filled = re.sub(r"\$(\d+)", lambda match: _nth(values, int(match[1])), text)
        # \gset names the columns of the result; only their order is known here.
        yield f"{filled} \\gset r{number}_" if wanted else f"{filled};"

    def _value(self, source: Source, name: str) -> tuple[str, str]:
        """Return the text in the statement, and the expression of its variable, if it has one."""
        if isinstance(source, Constant):
            return ("NULL" if source.value is None else _literal(source.value)), ""
        if isinstance(source, Linear) and source.column is not None:
            return f":r{source.step}_{source.column}", ""
        if isinstance(source, Turn):
            return str(source.offset), ""
        if isinstance(source, Count):
            return "1", ""
        if isinstance(source, Equal | Linear | Between):
            base = self._values.get((source.step, source.parameter or 0), "NULL")
            if isinstance(source, Between) and base.startswith(":"):
                return f":{name}", f"{base} + random({int(source.least)}, {int(source.most) or 1})"
            return base, ""
        if isinstance(source, Returned):
            return f":r{source.step}_{source.column}", ""
        if isinstance(source, Now):
            minus = f" - interval '{source.minus_s:g} s'" if source.minus_s else ""
            return f"now(){minus}", ""
        if isinstance(source, ListOf):
            value, expression = self._value(source.of, name)
            return f"ARRAY[{value}]", expression
        if isinstance(source, Cases | Recalled | KnownValue):
            return self._value(source.otherwise, name)
        if isinstance(source, Taken | Record):
            return "NULL", ""
        if isinstance(source, Drawn):
            return self._drawn(source.distribution.kind, source.distribution.bounds, name)
        column = self._columns.get((source.table, source.column))
        return self._of_column(source, column, name)

    def _of_column(
        self, source: OfColumn | Fresh, column: ColumnShape | None, name: str
    ) -> tuple[str, str]:
        if column is None:
            return "NULL", ""
        shape = column.distribution
        if isinstance(source, Fresh):
            last = int(shape.bounds[-1]) if shape.is_dense and shape.bounds else 0
            return f":{name}", f"random({last + 1}, {_KEYS_MAX})"
        values = tuple(item.value for item in shape.hot)
        return self._drawn(shape.kind, shape.bounds or values, name)

    @staticmethod
    def _drawn(kind: str, values: tuple[str, ...], name: str) -> tuple[str, str]:
        if not values:
            return "NULL", ""
        if kind == "integer":
            numbers = [int(value) for value in values]
            return f":{name}", f"random({min(numbers)}, {max(numbers)})"
        return _literal(values[len(values) // 2]), ""


def _nth(values: list[str], number: int) -> str:
    return values[number - 1] if number <= len(values) else f"${number}"


def _literal(value: str) -> str:
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else "'" + value.replace("'", "''") + "'"
