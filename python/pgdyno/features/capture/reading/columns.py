"""The shape of columns: from pg_stats to distributions of stand-ins."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pgparse

from pgdyno import quantities
from pgdyno.engine.distribution import Distribution, Hot, Spread, ValueKind
from pgdyno.features.capture.ranks import together
from pgdyno.features.capture.reading import documents, times
from pgdyno.features.capture.reading.codes import Codes, addresses
from pgdyno.features.capture.reading.column_statistics import KINDS, Statistics, kind_of
from pgdyno.features.capture.reading.schema import CatalogColumn, Schema
from pgdyno.features.capture.reading.stand_ins import StandIns
from pgdyno.features.capture.schema import ColumnShape, TableShape
from pgdyno.features.capture.schema import parts_of as name_parts

_TIMES = ("date", "timestamp", "timestamptz", "time", "interval")
_NUMBERS = ("integer", "numeric", "real")
# Integers are kept if they are few and small: they tell as much as an enum.
KEPT_INTEGERS_MAX = 100
_KEPT_DIGITS = 4
_DENSE_RATIO = 0.5
_DIGITS_MAX = 20
# Arrays of one dimension, as PostgreSQL writes them.
_ELEMENT = re.compile(r'("(?:[^"\\]|\\.)*")|([^",{}]+)')
_ARRAY = re.compile(rf"\{{(?:(?:{_ELEMENT.pattern})(?:,(?:{_ELEMENT.pattern}))*)?\}}")
_BARE = re.compile(r"[A-Za-z0-9_.:+-]+")


def texts_to_replace(schema: Schema, statistics: Mapping[tuple[str, ...], Statistics]) -> set[str]:
    """Return the texts for which stand-ins are needed."""
    texts: set[str] = set()
    for column in schema.columns:
        seen = statistics.get(column.place)
        is_array = kind_of(column) == "array" and KINDS.get(column.element_type) == "text"
        if seen is not None and kind_of(column) == "text":
            texts |= {*seen.hot, *seen.bounds}
        elif seen is not None and kind_of(column) == "json":
            texts |= documents.texts_of((*seen.hot, *seen.bounds))
        elif seen is not None and is_array:
            texts |= set(seen.elements)
    return texts


def with_parts(columns: Sequence[ColumnShape], tables: Sequence[TableShape]) -> list[ColumnShape]:
    """Return the columns; partitioned tables without statistics have those of their partitions.

    Autovacuum analyses partitions alone, so most partitioned tables have no statistics.
    """
    by_place = {(column.table, column.column): column for column in columns}

    def distribution(table: str, column: str) -> Distribution | None:
        own = by_place.get((table, column))
        if own is None:
            return None
        if own.distribution.hot or own.distribution.bounds:
            return own.distribution
        parts = [
            (part.rows, known)
            for part in tables
            if part.partition_of == table and part.rows > 0
            if (known := distribution(part.name, column)) is not None
            if known.hot or known.bounds
        ]
        return together(parts) if parts else own.distribution

    return [
        column.model_copy(update={"distribution": distribution(column.table, column.column)})
        for column in columns
    ]


def literals_of(statements: Iterable[str]) -> set[str]:
    """Return the constants that SQL of the schema shows, as texts. Unreadable SQL has none."""
    shown: set[str] = set()
    for text in statements:
        try:
            _collect(pgparse.parse(text), shown)
        except (pgparse.PGQueryError, RecursionError):
            shown |= set(re.findall(r"'([^']*)'", text))
    return shown


def _collect(tree: Any, shown: set[str]) -> None:
    if isinstance(tree, Mapping):
        value = tree.get("sval")
        if isinstance(value, Mapping) and isinstance(value.get("sval"), str):
            shown.add(value["sval"])
        for part in tree.values():
            _collect(part, shown)
    elif isinstance(tree, list):
        for part in tree:
            _collect(part, shown)


class ColumnShapes:
    """Makes the shapes of columns; with `keeps_values` every value stays.

    `kept` lists the columns whose values stay although values are not kept, and why.
    """

    def __init__(
        self,
        schema: Schema,
        statistics: Mapping[tuple[str, ...], Statistics],
        stand_ins: StandIns,
        *,
        keeps_values: bool,
    ) -> None:
        self._schema = schema
        self._statistics = statistics
        self._stand_ins = stand_ins
        self._keeps_values = keeps_values
        self._rows = {shape.name: shape.rows for shape in schema.tables}
        self._columns = {(c.table, c.bare_name): c for c in schema.columns}
        self._codes = Codes(self._seen_of("uuid", "bytes"), stand_ins.fraction)
        self._addresses = addresses(self._seen_of("inet"), stand_ins.fraction)
        self.kept: list[str] = []

    def all(self) -> list[ColumnShape]:
        """Return the shape of every column, in the order of the tables."""
        shapes = [self._shape(column) for column in self._schema.columns]
        if self._keeps_values:
            return shapes
        words = self._searched()
        return [with_words(shape, words.get((shape.table, shape.column))) for shape in shapes]

    def _searched(self) -> dict[tuple[str, str], Distribution]:
        """Return the words of columns whose texts are searched by their lexemes.

        An expression of an index or of a generated column names its columns. A trigger does not:
        then these are all columns of the table with words.
        """
        words_of: dict[tuple[str, str], Distribution] = {}
        indexes = {
            name_parts(item.name): item for item in self._schema.objects if item.kind == "index"
        }
        for place, seen in self._statistics.items():
            if not seen.elements:
                continue
            index = indexes.get((place[0], place[1]))
            column = next((c for c in self._schema.columns if c.place == place), None)
            if index is not None:
                table, text = index.table, index.sql
            elif column is not None and column.base_type == "tsvector":
                table, text = column.table, column.generated
            else:
                continue
            words, _ = vocabulary(seen, self._stand_ins.word)
            for own in (c for c in self._schema.columns if c.table == table):
                is_named = re.search(rf"\b{re.escape(own.bare_name)}\b", text)
                if is_named or (not text and self._has_words(own)):
                    words_of.setdefault((table, own.bare_name), words)
        return words_of

    def _has_words(self, column: CatalogColumn) -> bool:
        seen = self._statistics.get(column.place)
        return seen is not None and any(" " in value.strip() for value in seen.values)

    def _shape(self, column: CatalogColumn) -> ColumnShape:
        place = (column.table, column.bare_name)
        seen = self._statistics.get(column.place)
        sequence = re.search(r"nextval\('([^']+)'", column.default)
        return ColumnShape(
            table=column.table,
            column=column.bare_name,
            type=column.type,
            is_not_null=column.is_not_null,
            is_unique=place in self._schema.unique,
            key_position=self._schema.keys.get(place, 0),
            generated=column.generated,
            identity=column.identity,
            sequence=sequence[1] if sequence else "",
            has_default=bool(column.default),
            references=self._schema.references.get(place),
            distribution=self._distribution(column, seen),
            correlation=None if seen is None else seen.correlation,
        )

    def _distribution(self, column: CatalogColumn, seen: Statistics | None) -> Distribution:
        kind, rows = kind_of(column), self._rows.get(column.table, 0)
        is_unique = (column.table, column.bare_name) in self._schema.unique
        if seen is None:
            count = rows if is_unique else min(rows, 1)
            made = Distribution(kind=kind, distinct=count, labels=self._labels(column))
            return self._dense(made) if is_unique and kind == "integer" and rows else made
        distinct = round(seen.distinct if seen.distinct >= 0 else -seen.distinct * rows)
        made = Distribution(
            kind=kind,
            null_fraction=seen.null_fraction,
            distinct=max(distinct, min(len(seen.hot) + len(seen.bounds) / 2, rows)),
            width=seen.width if kind in ("text", "bytes", "json", "other") else 0,
            labels=self._labels(column),
        )
        if kind == "array":
            return self._array(made, column, seen)
        if column.base_type == "tsvector" and seen.elements and not self._keeps_values:
            return self._lexemes(made, seen)
        if self._keeps_values:
            return made.model_copy(update=_values(seen, seen.hot, seen.bounds))
        if is_unique and kind == "integer":
            return self._dense(made)
        return self._replaced(made, column, seen)

    def _lexemes(self, made: Distribution, seen: Statistics) -> Distribution:
        """Return texts of words: stand-ins of the lexemes, as frequent as these."""
        words, count = vocabulary(seen, self._stand_ins.word)
        mean = sum(len(hot.value) * hot.fraction for hot in words.hot) + 1
        changes: dict[str, Any] = {"kind": "text", "element": words, "width": 1 + mean * count}
        return made.model_copy(update=changes)

    def _seen_of(self, *kinds: ValueKind) -> list[str]:
        """Return the values of all columns of these kinds."""
        columns = [column for column in self._schema.columns if kind_of(column) in kinds]
        seen = [self._statistics[c.place] for c in columns if c.place in self._statistics]
        return [value for own in seen for value in (*own.hot, *own.bounds)]

    def _labels(self, column: CatalogColumn) -> tuple[str, ...]:
        return self._schema.enums.get(column.enum_name, ())

    @staticmethod
    def _dense(made: Distribution) -> Distribution:
        """Return a range of as many keys, from 1."""
        count = max(1, round(made.distinct))
        bounds = ("1", str(count))
        changes = {"distinct": count, "bounds": bounds, "step": 1.0, "is_dense": True}
        return made.model_copy(update=changes)

    def _replaced(
        self, made: Distribution, column: CatalogColumn, seen: Statistics
    ) -> Distribution:
        kind = made.kind
        if kind in ("boolean", "enum"):
            self._keep(column, "every value is in the type")
            return made.model_copy(update=_values(seen, seen.hot, seen.bounds))
        if kind == "integer" and (count := self._referenced_count(column)):
            return self._as_reference(made, seen, count)
        if kind == "integer" and self._is_small_domain(seen, made.distinct):
            integers = quantities.counted(len({*seen.hot, *seen.bounds}), "integer")
            self._keep(column, f"{integers} of at most 4 digits")
            return made.model_copy(update=_values(seen, seen.hot, seen.bounds) | {"step": 1.0})
        if kind in _NUMBERS or kind in _TIMES:
            return self._moved(made, seen)
        if kind == "text":
            hot = [self._stand_ins.text(value) for value in seen.hot]
            bounds = [self._stand_ins.text(value) for value in seen.bounds]
            return made.model_copy(update=_values(seen, hot, bounds))
        if kind == "json":
            return self._documents(made, column, seen)
        if kind in ("uuid", "bytes"):
            hot = [self._codes.of(value) for value in seen.hot]
            bounds = [self._codes.of(value) for value in seen.bounds]
            return made.model_copy(update=_values(seen, hot, bounds))
        if kind == "inet" and column.base_type == "inet":
            hot = [self._addresses[value] for value in seen.hot]
            bounds = [self._addresses[value] for value in seen.bounds]
            return made.model_copy(update=_values(seen, hot, bounds))
        return made

    def _keep(self, column: CatalogColumn, why: str) -> None:
        self.kept.append(f"{column.table}.{column.name}: {why}")

    def _documents(
        self, made: Distribution, column: CatalogColumn, seen: Statistics
    ) -> Distribution:
        known = (*seen.hot, *seen.bounds)
        keys = documents.kept_keys(known)
        if keys:
            self._keep(column, f"the keys {', '.join(sorted(keys))} of the documents")
        numbers = documents.numbers_of(known)
        step = _step("numeric", [], {str(number): number for number in numbers})
        moved = dict(zip(numbers, self._stand_ins.numbers(numbers, step), strict=True))
        hot, bounds = (
            [documents.replaced(value, keys, self._stand_ins.text, moved) for value in values]
            for values in (seen.hot, seen.bounds)
        )
        return made.model_copy(update=_values(seen, hot, sorted(bounds, key=documents.place_of)))

    @staticmethod
    def _is_small_domain(seen: Statistics, distinct: float) -> bool:
        """Return whether all integers are short, and few, or most of those in their range."""
        values = {int(value) for value in (*seen.hot, *seen.bounds)}
        if not values or any(len(str(abs(value))) > _KEPT_DIGITS for value in values):
            return not values
        is_few = 0 <= seen.distinct < KEPT_INTEGERS_MAX
        return is_few or distinct > _DENSE_RATIO * (max(values) - min(values) + 1)

    def _referenced_count(self, column: CatalogColumn) -> float:
        """Return how many keys a column references, 0 if it references none."""
        place = (column.table, column.bare_name)
        for _ in range(len(self._columns)):
            reference = self._schema.references.get(place)
            if reference is None:
                break
            if (reference.table, reference.column) in self._schema.unique:
                return self._rows.get(reference.table, 0)
            if place == (reference.table, reference.column):
                break
            place = (reference.table, reference.column)
        return 0

    def _as_reference(self, made: Distribution, seen: Statistics, count: float) -> Distribution:
        """Return keys of the dense range that the referenced column becomes."""
        values = sorted({int(value) for value in (*seen.hot, *seen.bounds)})
        if not values:
            return made
        low, span = values[0], max(values[-1] - values[0], 1)
        reach = max(round(count) - 1, 0)
        # Each value keeps its place in the range, moved a little.
        places = {
            value: 1 + min(reach, max(0, round((value - low) / span * reach))) for value in values
        }
        hot = [str(places[int(value)]) for value in seen.hot]
        bounds = [str(places[int(value)]) for value in seen.bounds]
        return made.model_copy(
            update=_values(seen, _unlike(hot, reach + 1), bounds) | {"step": 1.0}
        )

    def _moved(self, made: Distribution, seen: Statistics) -> Distribution:
        """Return numbers or times that moved between their neighbours."""
        kind = made.kind
        numbers = {value: number for value in seen.values if (number := _number(kind, value))}
        numbers |= {value: Decimal(0) for value in seen.values if _number(kind, value) == 0}
        ordered = sorted(set(numbers.values()))
        if not ordered:
            return made
        step = _step(kind, ordered, numbers)
        unit = Decimal(times.SECOND_US) if kind in _TIMES else step
        stand_ins = self._stand_ins.numbers(ordered, step, unit=unit)
        if kind == "time" and stand_ins[-1] >= times.DAY_US:
            # Many times of one second cannot move to another range: the day ends.
            stand_ins = self._stand_ins.numbers(ordered, Decimal(1))
        moved = dict(zip(ordered, stand_ins, strict=True))
        written = {
            value: times.text_of(kind, moved[number]) if kind in _TIMES else f"{moved[number]:f}"
            for value, number in numbers.items()
        }
        hot = [written.get(value, "") for value in seen.hot]
        bounds = sorted(
            (value for value in seen.bounds if value in written), key=lambda v: numbers[v]
        )
        kept = [
            (value, share) for value, share in zip(hot, seen.hot_fractions, strict=True) if value
        ]
        size = float(step / times.SECOND_US) if kind in _TIMES else float(step)
        return made.model_copy(
            update={
                "hot": tuple(Hot(value=value, fraction=_share(share)) for value, share in kept),
                "bounds": tuple(written[value] for value in bounds),
                "step": None if kind == "real" else size,
            }
        )

    def _array(self, made: Distribution, column: CatalogColumn, seen: Statistics) -> Distribution:
        element_kind = KINDS.get(column.element_type, "other")
        elements = Distribution(kind=element_kind, distinct=max(len(seen.elements), 1))
        shares = seen.element_fractions[: len(seen.elements)]
        inner = Statistics(
            null_fraction=0.0,
            width=seen.width,
            distinct=elements.distinct,
            hot=seen.elements,
            hot_fractions=shares,
            bounds=(),
            correlation=None,
            elements=(),
            element_fractions=(),
            element_counts=(),
        )
        if self._keeps_values:
            elements = elements.model_copy(update=_values(inner, inner.hot, ()))
        elif seen.elements:
            elements = self._replaced(elements, column, inner)
        counts = seen.element_counts or (0.0, 1.0, 1.0)
        length = Spread(least=counts[0], mean=counts[-1], most=counts[-2])
        pairs = zip(seen.elements, (hot.value for hot in elements.hot), strict=False)
        stand_ins = dict(pairs) if len(elements.hot) == len(seen.elements) else {}
        hot = tuple(
            Hot(value=value, fraction=_share(share))
            for array, share in zip(seen.hot, seen.hot_fractions, strict=True)
            if (value := array if self._keeps_values else _array_of(array, stand_ins)) is not None
        )
        return made.model_copy(update={"element": elements, "length": length, "hot": hot})


def _array_of(array: str, stand_ins: Mapping[str, str]) -> str | None:
    """Return an array with stand-ins for its elements; None unless each is known."""
    if not _ARRAY.fullmatch(array):
        return None
    elements = []
    for quoted, bare in _ELEMENT.findall(array[1:-1]):
        value = stand_ins.get(re.sub(r"\\(.)", r"\1", quoted[1:-1]) if quoted else bare)
        if not quoted and bare.upper() == "NULL":
            elements.append("NULL")
        elif value is None:
            return None
        else:
            escaped = re.sub(r'(["\\])', r"\\\1", value)
            elements.append(f'"{escaped}"' if quoted or not _BARE.fullmatch(value) else value)
    return "{" + ",".join(elements) + "}"


def _values(seen: Statistics, hot: Sequence[str], bounds: Sequence[str]) -> dict[str, Any]:
    pairs = zip(hot, seen.hot_fractions, strict=False)
    return {
        "hot": tuple(Hot(value=value, fraction=_share(share)) for value, share in pairs),
        "bounds": tuple(bounds),
    }


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _unlike(values: list[str], count: int) -> list[str]:
    """Return keys in 1..count in which no two are equal, if there are enough."""
    used: set[int] = set()
    unlike = []
    for value in map(int, values):
        free = next(
            (
                v
                for d in range(count)
                for v in (value + d, value - d)
                if 1 <= v <= count and v not in used
            ),
            value,
        )
        used.add(free)
        unlike.append(str(free))
    return unlike


def _number(kind: str, value: str) -> Decimal | None:
    if kind in _TIMES:
        return times.microseconds(kind, value)
    try:
        number = Decimal(value.replace("$", "").replace(",", ""))
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _step(kind: str, ordered: list[Decimal], numbers: Mapping[str, Decimal]) -> Decimal:
    """Return the distance of possible values: 1, the last decimal, or a unit of time."""
    if kind in _TIMES:
        return times.step_us(kind, ordered)
    if kind == "integer":
        return Decimal(1)
    exponents = [number.normalize().as_tuple().exponent for number in numbers.values()]
    smallest = min((e for e in exponents if isinstance(e, int)), default=0)
    # More digits than those of the largest number cannot be computed with.
    largest = max((n.adjusted() for n in numbers.values()), default=0) - _DIGITS_MAX
    return Decimal(1).scaleb(max(min(smallest, 0), largest))


def vocabulary(seen: Statistics, stand_in: Callable[[str], str]) -> tuple[Distribution, float]:
    """Return the distribution of the words of texts, and how many a text has on average.

    The statistics know for each lexeme in which share of the rows it is. If n words are drawn, one
    with the share p is in 1 - (1 - p)^n of the rows.
    """
    pairs = zip(seen.elements, seen.element_fractions, strict=False)
    rates = [(stand_in(word), -math.log1p(-min(share, 0.98))) for word, share in pairs]
    count = max(1.0, sum(rate for _, rate in rates))
    hot = tuple(Hot(value=word, fraction=_share(rate / count)) for word, rate in rates)
    return Distribution(kind="text", distinct=len(hot), hot=hot), count


def with_words(shape: ColumnShape, words: Distribution | None) -> ColumnShape:
    """Return a column whose texts consist of these words."""
    distribution = shape.distribution
    if words is None or distribution.kind != "text" or distribution.element is not None:
        return shape
    changed = distribution.model_copy(update={"element": words})
    return shape.model_copy(update={"distribution": changed})
