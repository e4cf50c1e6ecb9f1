"""Values for types: what a type demands of a distribution, and values where nothing is known. Pure.

Values of most types are guesses. The server judges them by the type's input function when the rows
are copied, and what it refuses is replaced (`others_of`, `CANDIDATES`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from pgdyno.engine.distribution import Distribution, Spread, ValueKind
from pgdyno.features.capture.schema import KIND_OF_TYPE, ColumnShape, SchemaObject

_DIGITS = re.compile(r"numeric\((\d+)(?:,(\d+))?\)")
_LIMITED = re.compile(r"^(?:character varying|character|varchar|char|bpchar)\((\d+)\)$")
_NUMBERS = ("integer", "numeric", "real")
_KINDS: dict[str, ValueKind] = {
    **KIND_OF_TYPE,
    **dict.fromkeys(("tsvector", "xml", "citext"), "text"),
    **dict.fromkeys(("oid", "int4range", "int8range"), "integer"),
    **dict.fromkeys(("time without time zone", "time with time zone"), "time"),
    **{"numrange": "numeric", "daterange": "date", "inet": "inet"},
    **{"tsrange": "timestamp", "tstzrange": "timestamptz"},
}
_VALUES = {
    **dict.fromkeys((*KIND_OF_TYPE, "tsvector", "ltree", "lquery", "tsquery"), "a%d"),
    **dict.fromkeys((name for name, kind in KIND_OF_TYPE.items() if kind in _NUMBERS), "%d"),
    **{"boolean": "true", "interval": "%d day", "date": "2020-01-01", "bytea": "\\x%02x"},
    **dict.fromkeys(("json", "jsonb"), "{}"),
    **{"uuid": "00000000-0000-4000-8000-%012d", '"char"': "A", "xml": "<a/>", "vector": "[%d]"},
    "timestamp without time zone": "2020-01-01 00:00:00",
    "timestamp with time zone": "2020-01-01 00:00:00+00",
    "time without time zone": "12:00:00",
    **{"inet": "10.0.0.%d", "cidr": "10.0.%d.0/24"},
    **{"regclass": "pg_catalog.pg_class", "regtype": "integer"},
    **dict.fromkeys(("regconfig", "regdictionary"), "simple"),
    "money": "%d.00",
    "macaddr": "08:00:2b:01:02:%02x",
    "macaddr8": "08:00:2b:01:02:03:04:%02x",
    **{"point": "(%d,1)", "line": "{1,%d,0}", "lseg": "[(0,0),(%d,1)]", "box": "(%d,1),(0,0)"},
    **{"path": "[(0,0),(%d,1)]", "polygon": "((0,0),(%d,1),(1,0))", "circle": "<(%d,1),1>"},
    **{"pg_lsn": "0/%X", "pg_snapshot": "%d:%d:", "tid": "(%d,1)"},
    **dict.fromkeys(("xid", "xid8", "cid"), "%d"),
    **{"jsonpath": "$.a%d", "hstore": '"a"=>"%d"', "cube": "(%d)", "isbn": "0-306-40615-2"},
    **dict.fromkeys(("int4range", "int8range", "numrange"), "[%d,100)"),
    "daterange": "[2020-01-01,2020-02-01)",
    **dict.fromkeys(("tsrange", "tstzrange"), "[2020-01-01,2020-02-01)"),
    **dict.fromkeys(("int4multirange", "int8multirange", "nummultirange"), "{[%d,%d]}"),
    "datemultirange": "{[2024-01-01,2024-01-02)}",
    "tsmultirange": "{[2024-01-01,2024-01-02)}",
    "tstzmultirange": "{[2024-01-01 00:00+00,2024-01-02 00:00+00)}",
}
"""A text of each type; `%d` is a number from 1."""
_LISTED_COUNT = 50
_BITS = re.compile(r"^bit(?P<varying> varying)?(?:\((?P<count>\d+)\))?$")
CANDIDATES = (
    *("0", "1", "{}", "a", "empty", "[1,2)", "[2024-01-01,2024-01-02)", "{[1,2)}", "2024-01-01"),
    *("(0,0)", "((0,0),(1,1))", "1 day", "127.0.0.1", "true", "a.b", "a=>1", "$", "0/0", "<a/>"),
    *("00000000-0000-4000-8000-000000000000", "08:00:2b:01:02:03", "a@b.example", "A-1", "AB"),
    *("POINT(0 0)", "[1,2,3]", "http://a.example", "+15550100", "12345", "1.5", "()", "(,)", ""),
)
"""Values to try in a column of which nothing is known but that the server refused other values."""
_ENUM = re.compile(r"AS ENUM \((.*)\)$", re.S)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_JSONB_BYTES = 13


def _within_digits(distribution: Distribution, digits: int, scale: int) -> Distribution:
    """Return the distribution without numbers that are too large for their type.

    A number in place of the largest one may be larger.
    """
    most = Decimal(10) ** (digits - scale) - Decimal(10) ** -scale

    def within(value: str) -> str:
        number = Decimal(value)
        return (
            value if not number.is_finite() or abs(number) <= most else f"{most.copy_sign(number)}"
        )

    hot = tuple(h.model_copy(update={"value": within(h.value)}) for h in distribution.hot)
    changes = {"bounds": tuple(map(within, distribution.bounds)), "hot": hot}
    return distribution.model_copy(update=changes)


def typed(
    column: ColumnShape, distribution: Distribution, objects: Iterable[SchemaObject]
) -> Distribution:
    """Return the distribution with what the column's type demands.

    Args: objects, of the capture, among them its types.
    """
    is_known = bool(distribution.bounds or distribution.hot)
    if column.type == "cidr" and is_known:
        # An address between two networks has another form.
        return distribution.model_copy(update={"kind": "other"})
    if distribution.kind == "other" and not is_known:
        return with_values(column.type, distribution, objects)
    if distribution.kind == "numeric" and (digits := _DIGITS.match(column.type)):
        return _within_digits(distribution, int(digits[1]), int(digits[2] or 0))
    if distribution.kind == "range" and "multirange" in column.type:
        plain = Distribution(null_fraction=distribution.null_fraction, distinct=100, kind="other")
        return with_values(column.type, plain, objects)
    if distribution.kind in ("array", "range"):
        return _of_elements(column.type, distribution, objects)
    if column.type == "tsvector" and distribution.element is not None:
        return distribution
    if distribution.kind in ("text", "bytes", "json"):
        # The server counts the header of a value: a byte, or four for long values.
        header_bytes = 1 if distribution.width < 127 else 4
        if column.type == "jsonb" and not distribution.bounds:
            # What jsonb adds to the document that the engine makes.
            header_bytes += _JSONB_BYTES
        width = max(0.0, distribution.width - header_bytes)
        distribution = distribution.model_copy(update={"width": width})
    limit = _LIMITED.match(column.type)
    if limit is not None and distribution.kind == "text":
        most = float(limit[1])
        length = Spread(least=0, mean=min(most, distribution.width or most), most=most)
        return distribution.model_copy(update={"length": length})
    return distribution


def with_values(
    type_: str, distribution: Distribution, objects: Iterable[SchemaObject]
) -> Distribution:
    """Return the distribution with values of a type; without any if the type has no generator."""
    bare = type_.rpartition(".")[2].partition("(")[0]
    if (labels := _labels(type_, objects)) is not None:
        return distribution.model_copy(update={"kind": "enum", "labels": labels})
    if (kind := _KINDS.get(bare)) is not None:
        return distribution.model_copy(update={"kind": kind})
    if (bits := _BITS.match(type_)) is not None:
        count = int(bits["count"] or 1)
        numbers = range(min(2 ** min(count, 16), 4 * _LISTED_COUNT))
        texts = tuple(f"{number:b}".zfill(count)[-count:] for number in numbers)
        return distribution.model_copy(update={"bounds": texts})
    known = [text for n in range(1, 1 + _LISTED_COUNT) if (text := text_of(bare, n)) is not None]
    return distribution.model_copy(update={"bounds": tuple(dict.fromkeys(known))})


def text_of(type_: str, number: int = 1) -> str | None:
    """Return a value of a type, another one for another number if there are several."""
    pattern = _VALUES.get(type_)
    return None if pattern is None else pattern % ((number,) * pattern.count("%"))


def _of_elements(
    type_: str, distribution: Distribution, objects: Iterable[SchemaObject]
) -> Distribution:
    """Return the distribution of arrays or ranges with one for their elements."""
    element = distribution.element
    if element is not None and (element.kind != "other" or element.bounds or element.hot):
        return distribution
    if distribution.bounds or distribution.hot:
        return distribution.model_copy(update={"kind": "other"})
    objects = list(objects)
    named = type_.removesuffix("[]") if distribution.kind == "array" else _subtype(type_, objects)
    bare = named.partition("(")[0]
    known = Distribution(kind=_KINDS.get(bare, "other"), distinct=100)
    if known.kind == "other":
        known = with_values(named, known, objects)
    if known.kind == "other" and not known.bounds:
        # Elements of other types are not made: an empty array is one of every type.
        empty = "{}" if distribution.kind == "array" else "empty"
        return distribution.model_copy(update={"kind": "other", "bounds": (empty,)})
    return distribution.model_copy(update={"element": known})


def _subtype(type_: str, objects: Iterable[SchemaObject]) -> str:
    """Return of what a range consists, the type itself for one that the server brings."""
    for item in _types(type_, objects):
        subtype = re.search(r"\bsubtype = ([^,)]+)", item.sql)
        return subtype[1].strip() if subtype else type_
    return type_


def _labels(type_: str, objects: Iterable[SchemaObject]) -> tuple[str, ...] | None:
    for item in _types(type_, objects):
        if (listed := _ENUM.search(item.sql)) is not None:
            return tuple(label.replace("''", "'") for label in _LABEL.findall(listed[1]))
    return None


def _types(name: str, objects: Iterable[SchemaObject]) -> Iterator[SchemaObject]:
    """Yield the types and domains of this name. A type in the path may have no schema."""
    for item in objects:
        if item.kind in ("type", "domain") and name in (item.name, item.name.rpartition(".")[2]):
            yield item


def others_of(
    type_: str, distribution: Distribution, objects: Iterable[SchemaObject]
) -> Iterator[Distribution]:
    """Yield distributions to try if the server refuses the values of a column of this type."""
    same = {"null_fraction": distribution.null_fraction, "distinct": distribution.distinct}
    if type_.endswith("[]") or distribution.kind == "array":
        yield Distribution(kind="other", bounds=("{}",), **same)
    for item in _types(type_, objects):
        if item.kind == "domain" and (values := _LABEL.findall(item.sql)):
            # What the condition of a domain lists may be what it takes.
            yield Distribution(kind="other", bounds=tuple(dict.fromkeys(values)), **same)
        if item.sql.startswith("CREATE TYPE") and " AS (" in item.sql:
            fields = item.sql.partition(" AS (")[2].count(", ")
            yield Distribution(kind="other", bounds=(f"({',' * fields})",), **same)
