"""For each object of a capture: what the server is asked to make, and what comes near it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdyno.features.capture.attempts import Attempt, Choice
from pgdyno.features.capture.checks import conditions_of, without_checks
from pgdyno.features.capture.object_names import is_cut_from, uses_known, uses_of_type
from pgdyno.features.capture.repeats import DELETED_MAX, Changeable, without_repeats
from pgdyno.features.capture.schema import ColumnShape, SchemaObject, in_quotes
from pgdyno.quantities import percent

_NAME = r'(?:"(?:[^"]|"")*"|[\w$]+)'
_COLUMNS = rf"\((?:{_NAME}|[^()\"])*\)"
_KEY = re.compile(
    rf"^ALTER TABLE (?:ONLY )?(?P<table>.+?) ADD CONSTRAINT (?P<name>{_NAME})"
    rf" (?:PRIMARY KEY|UNIQUE)(?: NULLS NOT DISTINCT)? ?(?P<columns>{_COLUMNS})",
    re.S,
)
_EXCLUSION = re.compile(
    rf"^ALTER TABLE (?:ONLY )?(?P<table>.+?) ADD CONSTRAINT (?P<name>{_NAME}) EXCLUDE USING"
    r" (?P<rest>.*?)(?: DEFERRABLE.*| INITIALLY.*)?$",
    re.S,
)
_OPERATOR = re.compile(r" WITH (?:OPERATOR\([^)]*\)|[-+*/<>=~!@#%^&|`?]+)(?=[,)])")
_INDEX_OF_VALUES = "an index, without the constraint"
_UNIQUE = re.compile(rf"^CREATE UNIQUE INDEX (?P<name>{_NAME}) ON (?P<rest>.*)$", re.S)
NOT_UNIQUE = "an index that is not unique"
"""What a copy has instead of a unique index whose keys repeat."""
_DELETED = (
    f"the same index without the rows that repeat, at most {percent(DELETED_MAX)} of the table"
)
# What the patterns here take for something else: escapes, dollar quotes and comments.
_UNSURE = re.compile(r"[\\$]|--|/\*")
# Names of these may belong to somebody: then nothing is made.
_NAMED = frozenset(
    (
        *("table", "partition", "view", "function", "aggregate", "type", "domain", "sequence"),
        *("collation", "search_dictionary", "search_configuration"),
    )
)
_WORDS = {
    "partition": "table",
    "function": "routine",
    "search_dictionary": "text search dictionary",
    "search_configuration": "text search configuration",
}


def attempt_of(
    item: SchemaObject,
    columns: Sequence[ColumnShape] = (),
    *,
    why_not: str = "",
    change: Changeable | None = None,
) -> Attempt:
    """Return what is tried for an object.

    Args: columns, of a table; why_not, the reason why the object itself is not tried; change, the
    columns that may get other values, so that a key is unique.
    """
    choices = tuple(_choices(item, why_not, change))
    is_table = item.kind == "table"
    parts = tuple(_column_attempts(item, columns)) if is_table else ()
    return Attempt(
        kind=item.kind.replace("_", " "),
        name=item.name,
        table=item.table if item.table != item.name else "",
        choices=choices,
        marked=marked_as(item) or "",
        reason=why_not,
        must=item.kind in _NAMED and created(item).upper().startswith("CREATE"),
        has_rows=is_table,
        parts=parts,
        parts_from=len(choices) - 1,
    )


def domain_conditions(item: SchemaObject) -> Iterator[Attempt]:
    """Yield the conditions of a domain, for after the rows: the server then looks at all values."""
    for number, condition in enumerate(conditions_of(item.sql), 1):
        sql = f"ALTER DOMAIN {item.name} ADD {condition}"
        choices = (Choice((sql,)),) if is_cut_from(sql, item.sql) else ()
        yield Attempt("check", f"{item.name} ({number})", choices, table=item.name)


def domain_without_conditions(item: SchemaObject) -> str:
    """Return the statement that makes a domain that permits every value of its type."""
    plain = without_checks(item.sql)
    return plain if is_cut_from(plain, item.sql) else f"CREATE DOMAIN {item.name} AS text"


def _choices(item: SchemaObject, why_not: str, change: Changeable | None) -> Iterator[Choice]:
    sql = created(item)
    if not why_not:
        yield Choice((sql,))
    if item.kind == "index" and (own := _UNIQUE.match(sql)) is not None:
        yield from _repaired(item, f"CREATE INDEX ON {own['rest']}", change)
        plain = f"CREATE INDEX {own['name']} ON {own['rest']}"
        yield from _cut(item, plain.replace(" NULLS NOT DISTINCT", "", 1), NOT_UNIQUE)
    elif item.kind in ("primary_key", "unique") and (key := _KEY.match(sql)) is not None:
        listed = key["columns"].replace(" WITHOUT OVERLAPS", "")
        yield from _cut(item, f"CREATE INDEX {key['name']} ON {key['table']} {listed}", NOT_UNIQUE)
    elif item.kind == "exclusion" and (own := _EXCLUSION.match(sql)) is not None:
        rest = _OPERATOR.sub("", own["rest"])
        index = f"CREATE INDEX {own['name']} ON {own['table']} USING {rest}"
        yield from _cut(item, index, _INDEX_OF_VALUES)
    elif item.kind == "domain":
        yield Choice((domain_without_conditions(item),), "a domain without its conditions")
        yield Choice((f"CREATE DOMAIN {item.name} AS text",), "a domain of texts")
    elif item.kind == "sequence" and sql.startswith("CREATE"):
        yield Choice((f"CREATE SEQUENCE {item.name}",), "a sequence with the usual options")
    elif item.kind == "extension" and " SCHEMA " in sql:
        yield Choice((sql.partition(" SCHEMA ")[0],), "the extension in another schema")
    elif item.kind == "table":
        yield from _tables(item, sql)


def _cut(item: SchemaObject, sql: str, words: str = "") -> Iterator[Choice]:
    """Yield a statement that patterns made of the object's, if it surely is a part of that one."""
    if not _UNSURE.search(item.sql) or is_cut_from(sql, item.sql):
        yield Choice((sql,), words)


def _repaired(item: SchemaObject, plain: str, change: Changeable | None) -> Iterator[Choice]:
    """Yield the index after rows got other values, then after a few rows were deleted."""
    if change is not None:
        sql = created(item)
        yield Choice((without_repeats(item.table, plain, change), sql))
        yield Choice((without_repeats(item.table, plain, change, deletes=True), sql), _DELETED)


def _tables(item: SchemaObject, sql: str) -> Iterator[Choice]:
    """Yield a table without its storage options, then one to which columns are added singly."""
    start, texts, end = column_texts(sql)
    if " WITH (" in end or "UNLOGGED" in start:
        plain = f"{start}({', '.join(texts)}){_WITH.sub('', end)}"
        plain = plain.replace("UNLOGGED ", "", 1)
        yield from _cut(item, plain, "a table with the usual options")
    yield Choice((f"CREATE TABLE {item.name} ()",), "a plain table, column by column")


_WITH = re.compile(r" WITH \(.*\)$", re.S)


def _column_attempts(item: SchemaObject, columns: Sequence[ColumnShape]) -> Iterator[Attempt]:
    _, texts, _ = column_texts(created(item))
    for text, column in zip(texts, columns, strict=False):
        name = in_quotes(column.column)
        add = f"ALTER TABLE {item.name} ADD COLUMN "
        uses = uses_of_type(column.type)
        is_known = uses is not None and uses_known(uses, item.sql)
        plain = Choice((f"{add}{name} {column.type}",), f"a plain column of type {column.type}")
        choices = (
            *_cut(item, add + text),
            *((plain,) if is_known else ()),
            Choice((f"{add}{name} text",), "a column of texts"),
        )
        yield Attempt("column", f"{item.name}.{column.column}", choices, table=item.name)


def column_texts(sql: str) -> tuple[str, list[str], str]:
    """Return what is before the columns of CREATE TABLE, the text of each, and what follows them.

    Limits: the statement is one that `pgdyno capture` writes.
    """
    first = _outside(sql, 0, "(")
    texts, start, depth, place = [], first + 1, 1, first + 1
    while place < len(sql) and depth:
        letter = sql[place]
        if letter in "'\"":
            place = _end_of_quote(sql, place)
            continue
        depth += (letter in "([") - (letter in ")]")
        if (letter == "," and depth == 1) or not depth:
            texts.append(sql[start:place].strip())
            start = place + 1
        place += 1
    return sql[:first], [text for text in texts if text], sql[place:]


def _outside(sql: str, place: int, wanted: str) -> int:
    """Return the place of a letter outside of quotes; the end without one."""
    while place < len(sql) and sql[place] != wanted:
        place = _end_of_quote(sql, place) if sql[place] in "'\"" else place + 1
    return place


def _end_of_quote(sql: str, place: int) -> int:
    """Return the place after a quoted text. Doubled quotes are two texts."""
    end = sql.find(sql[place], place + 1)
    return len(sql) if end < 0 else end + 1


def created(item: SchemaObject) -> str:
    """Return the statement that creates an object; schemas and extensions may exist already.

    A function that exists is somebody's: it is never replaced.
    """
    sql = item.sql.rstrip("; \n")
    if item.kind == "function":
        return sql.replace("CREATE OR REPLACE ", "CREATE ", 1)
    for kind in ("SCHEMA", "EXTENSION"):
        if sql.startswith(f"CREATE {kind} ") and "IF NOT EXISTS" not in sql:
            return sql.replace(f"CREATE {kind} ", f"CREATE {kind} IF NOT EXISTS ", 1)
    if item.kind in ("index", "primary_key", "unique", "exclusion"):
        # That of a partitioned table is on its parts, too.
        return sql.replace(" ON ONLY ", " ON ", 1)
    return sql


def marked_as(item: SchemaObject) -> str | None:
    """Return how COMMENT names an object; None for a kind without a mark."""
    if item.kind not in _NAMED or item.sql.startswith("ALTER"):
        return None
    if item.kind == "view" and "MATERIALIZED" in item.sql.split(" AS ")[0]:
        return f"materialized view {item.name}"
    return f"{_WORDS.get(item.kind, item.kind)} {item.name}"
