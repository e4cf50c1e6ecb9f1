"""What only the server knows of the names of a capture: whose they are, and what they do."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.errors import RefusedError
from pgdyno.features.capture.load_statements import projected_in_load, uses_of_load
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.object_names import Name, ObjectNames, quoted
from pgdyno.features.capture.safety import is_known_extension, uses_of_objects
from pgdyno.server.connect import Connection

_MARK = "pgdyno dataset capture %"
# Functions of the server that change with each call and still do no harm.
_HARMLESS = (
    *("random", "random_normal", "setseed", "clock_timestamp", "timeofday", "gen_random_uuid"),
    *("statement_timestamp", "uuidv4", "uuidv7", "nextval", "setval", "currval", "lastval"),
    *("set_config", "pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_notify", "txid_current"),
    *("pg_current_xact_id", "txid_current_if_assigned", "pg_current_xact_id_if_assigned"),
    *("pg_relation_size", "pg_table_size", "pg_total_relation_size", "pg_indexes_size"),
    *("pg_database_size", "pg_column_size", "pg_relation_filepath", "pg_trigger_depth"),
    *("ts_rewrite", "tsvector_update_trigger", "tsvector_update_trigger_column"),
    *("suppress_redundant_updates_trigger", "unique_key_recheck", "ts_debug", "ts_parse"),
    *("pg_is_in_recovery", "pg_current_wal_lsn", "pg_last_wal_replay_lsn"),
)
# Whatever is in none of these belongs to somebody.
_OWN = (
    "n.nspname IN ('pg_catalog', 'information_schema') OR EXISTS (SELECT FROM pg_catalog.pg_depend"
    " d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid WHERE d.classid = {0}::regclass AND"
    " d.objid = o.oid AND d.deptype = 'e' AND e.extname = ANY (%(extensions)s))"
    " OR coalesce(pg_catalog.obj_description({1}), '') LIKE %(mark)s"
)
_FUNCTIONS = (
    "SELECT DISTINCT n.nspname, o.proname, ({own}), n.nspname = 'pg_catalog' AND o.provolatile ="
    " 'v' FROM pg_catalog.pg_proc o JOIN pg_catalog.pg_namespace n ON n.oid = o.pronamespace"
    " WHERE o.proname = ANY (%(names)s)"
).format(own=_OWN.format("'pg_catalog.pg_proc'", "o.oid, 'pg_proc'"))
_TYPES = (
    "SELECT DISTINCT n.nspname, o.typname, ({own}) OR coalesce(pg_catalog.obj_description("
    "o.typrelid, 'pg_class'), '') LIKE %(mark)s, false FROM pg_catalog.pg_type o"
    " JOIN pg_catalog.pg_namespace n ON n.oid = o.typnamespace WHERE o.typname = ANY (%(names)s)"
).format(own=_OWN.format("'pg_catalog.pg_type'", "o.oid, 'pg_type'"))
_RELATIONS = (
    "SELECT DISTINCT n.nspname, o.relname, ({own}) OR EXISTS (SELECT FROM pg_catalog.pg_depend a"
    " WHERE a.classid = 'pg_catalog.pg_class'::regclass AND a.objid = o.oid AND a.deptype IN"
    " ('a', 'i') AND pg_catalog.obj_description(a.refobjid, 'pg_class') LIKE %(mark)s)"
    # The attributes of a composite type are a relation.
    " OR (o.relkind = 'c'"
    " AND pg_catalog.obj_description(o.reltype, 'pg_type') LIKE %(mark)s), false"
    " FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace n ON n.oid = o.relnamespace"
    " WHERE o.relname = ANY (%(names)s) AND n.nspname !~ '^pg_(toast|temp)'"
).format(own=_OWN.format("'pg_catalog.pg_class'", "o.oid, 'pg_class'"))
_SCHEMAS = (
    "SELECT DISTINCT n.nspname, o.relname, ({own}) OR o.relkind IN ('i', 'I', 't') OR (o.relkind ="
    " 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend a WHERE a.objid = o.oid AND a.deptype IN"
    " ('a', 'i'))) OR o.relkind = 'c', false FROM pg_catalog.pg_class o"
    " JOIN pg_catalog.pg_namespace n ON n.oid = o.relnamespace"
    " WHERE n.nspname = ANY (%(names)s) AND n.nspname <> 'public'"
).format(own=_OWN.format("'pg_catalog.pg_class'", "o.oid, 'pg_class'"))


def refuse_foreign(connection: Connection, capture: Capture, *, file: str) -> None:
    """Refuse a capture whose names mean objects of this database that pgdyno did not make.

    A function or a type that only the load uses is no reason: see `foreign_in_load`.

    Args: capture, with qualified names.
    Raises: RefusedError with the objects, before anything is made.
    """
    foreign = list(dict.fromkeys(_foreign(connection, capture)))
    if foreign:
        raise RefusedError(
            f"{file} uses names that this database has for something else: {', '.join(foreign[:5])}"
            f"{', ...' if len(foreign) > 5 else ''}. pgdyno did not make these objects.",
            hint="name an empty database with -d, or use --scratch",
        )


def foreign_in_load(connection: Connection, capture: Capture) -> dict[str, str]:
    """Return the statements of the load that would run a function that may harm, by their ids.

    It is a function or a type of this database that pgdyno did not make, or one of the server's
    functions that changes with each call and that is not known as harmless.
    Returns: id -> the function or type, in words.
    """
    used: dict[str, dict[str, set[Name]]] = {"function": {}, "type": {}, "projected": {}}
    for place, use in uses_of_load(capture):
        if use.kind in used:
            used[use.kind].setdefault(place, set()).add(use.name)
    for place, name in projected_in_load(capture):
        used["projected"].setdefault(place, set()).add(("", name))
    words_by_id: dict[str, str] = {}
    for kind, by_place in used.items():
        names = {name for own in by_place.values() for name in own}
        look = _foreign_types if kind == "type" else _foreign_functions
        for schema, name, words in look(connection, names):
            for place, own in by_place.items():
                # A column of a query may have the name of one of the server's functions.
                is_column = kind == "projected" and schema == "pg_catalog"
                if _is_meant(schema, name, own) and not is_column:
                    words_by_id.setdefault(place, words)
    return words_by_id


def _foreign_functions(connection: Connection, names: set[Name]) -> Iterator[tuple[str, str, str]]:
    """Yield schema, name and words of the functions of these names that may harm."""
    for schema, name, is_own, is_volatile in _asked(connection, _FUNCTIONS, names):
        if is_volatile and name not in _HARMLESS and not _is_lock(name):
            yield schema, name, f"the function {name}()"
        elif not is_own and _is_meant(schema, name, names):
            yield schema, name, f"the function {_shown(schema, name)}()"


def _foreign_types(connection: Connection, names: set[Name]) -> Iterator[tuple[str, str, str]]:
    for schema, name, is_own, _ in _asked(connection, _TYPES, names):
        if not is_own and _is_meant(schema, name, names):
            yield schema, name, f"the type {_shown(schema, name)}"


def _foreign(connection: Connection, capture: Capture) -> Iterator[str]:
    names = ObjectNames(capture.objects, capture.columns)
    uses = list(uses_of_objects(capture))
    functions = {use.name for use in uses if use.kind == "function"} | {
        ("", name) for _, name in names.functions
    }
    types = {use.name for use in uses if use.kind == "type"} | names.types
    for _, _, words in _foreign_functions(connection, functions):
        yield words
    for _, _, words in _foreign_types(connection, types):
        yield words
    uses += (use for _, use in uses_of_load(capture))
    # Names without a schema are left in the bodies of functions, which the session resolves.
    relations = {use.name for use in uses if use.kind in ("relation", "sequence")}
    relations |= names.relations | names.sequences
    for schema, name, is_own, _ in _asked(connection, _RELATIONS, relations):
        if not is_own and _is_meant(schema, name, relations):
            yield f"the relation {_shown(schema, name)}"
    schemas = {("", schema) for schema in names.schemas}
    for schema, name, is_own, _ in _asked(connection, _SCHEMAS, schemas):
        if not is_own:
            yield f"the schema {quoted(schema)}, which has {_shown(schema, name)}"


def _asked(
    connection: Connection, query: str, names: set[Name]
) -> list[tuple[str, str, bool, bool]]:
    extensions = [
        str(name)
        for (name,) in connection.execute("SELECT extname FROM pg_catalog.pg_extension").fetchall()
        if is_known_extension(str(name))
    ]
    asked = {"names": [name for _, name in names], "mark": _MARK, "extensions": extensions}
    rows = connection.execute(query.encode(), asked).fetchall()
    return [(str(row[0]), str(row[1]), bool(row[2]), bool(row[3])) for row in rows]


def _is_meant(schema: str, name: str, names: set[Name]) -> bool:
    return ("", name) in names or (schema, name) in names


def _is_lock(name: str) -> bool:
    return name.startswith(("pg_advisory_", "pg_try_advisory_"))


def _shown(schema: str, name: str) -> str:
    return f"{quoted(schema)}.{quoted(name)}"
