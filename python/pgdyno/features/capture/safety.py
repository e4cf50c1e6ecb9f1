"""What a capture may do on a server: make its objects, and send its load; nothing else.

A capture is a file that somebody may have changed. PostgreSQL's grammar reads each of its
statements before `init` sends one. A statement makes the object that the file names, and uses only
what the capture makes (`object_names.py`) and harmless functions of the server; so do the bodies of
functions. `load_statements.py` says what a load consists of. `on_server.py` asks the server about
the names that only it knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from pgdyno.errors import SpecError
from pgdyno.features.capture.bodies import BodyError, statements_of_function
from pgdyno.features.capture.load_statements import harmless, is_of_load, uses_of_load
from pgdyno.features.capture.model import Capture, Fresh, OfColumn, parts_of
from pgdyno.features.capture.object_names import (
    FUNCTION_OPTIONS,
    ObjectNames,
    Use,
    named,
    named_by,
    uses_of,
    uses_of_type,
    with_schemas,
)
from pgdyno.features.capture.schema import SchemaObject, in_quotes
from pgdyno.features.capture.schema import parts_of as name_of
from pgdyno.server.grammar import SyntaxNode, statements_of
from pgdyno.server.permission import unpermitted_function

_OF_TABLE = frozenset(("AlterTableStmt",))
_PERMITTED: Mapping[str, frozenset[str]] = {
    "schema": frozenset(("CreateSchemaStmt",)),
    "extension": frozenset(("CreateExtensionStmt",)),
    "type": frozenset(("CreateEnumStmt", "CompositeTypeStmt", "CreateRangeStmt")),
    "domain": frozenset(("CreateDomainStmt",)),
    "function": frozenset(("CreateFunctionStmt",)),
    "sequence": frozenset(("CreateSeqStmt", "AlterSeqStmt")),
    "table": frozenset(("CreateStmt",)),
    "partition": frozenset(("CreateStmt", "AlterTableStmt")),
    "index": frozenset(("IndexStmt", "AlterTableStmt")),
    "primary_key": _OF_TABLE,
    "unique": _OF_TABLE,
    "check": _OF_TABLE,
    "exclusion": _OF_TABLE,
    "foreign_key": _OF_TABLE,
    "default": _OF_TABLE,
    "trigger": frozenset(("CreateTrigStmt", "AlterTableStmt")),
    "statistics": frozenset(("CreateStatsStmt",)),
    "view": frozenset(("ViewStmt", "CreateTableAsStmt")),
    "collation": frozenset(("DefineStmt",)),
    "aggregate": frozenset(("DefineStmt",)),
    "search_dictionary": frozenset(("DefineStmt",)),
    "search_configuration": frozenset(("DefineStmt", "AlterTSConfigurationStmt")),
}
"""The statements, as the grammar names them, that make an object of each kind."""
_DROPPED_AS = {
    "partition": "table",
    "function": "routine",
    "search_dictionary": "text search dictionary",
    "search_configuration": "text search configuration",
}
# What a DefineStmt may define, and its options: without functions that read the values' text.
_DEFINED = {
    "collation": ("OBJECT_COLLATION", ("provider", "locale", "lc_collate", "lc_ctype")),
    "aggregate": ("OBJECT_AGGREGATE", ("stype", "initcond", "parallel", *FUNCTION_OPTIONS)),
    "search_dictionary": ("OBJECT_TSDICTIONARY", ()),
    "search_configuration": ("OBJECT_TSCONFIGURATION", ("parser",)),
}
# A dictionary of these reads its words from a file that the server's installation has.
_TEMPLATES = ("simple", "snowball", "synonym", "thesaurus", "ispell", "unaccent")
_NAMED = frozenset(
    (
        *("table", "partition", "view", "function", "type", "domain", "sequence", "collation"),
        *("aggregate", "search_dictionary", "search_configuration"),
    )
)
# What ALTER TABLE may do: add a key or a condition, a default, or a partition.
_CHANGES = frozenset(
    (
        *("AT_AddConstraint", "AT_ColumnDefault", "AT_AttachPartition", "AT_SetStatistics"),
        *("AT_EnableTrig", "AT_DisableTrig", "AT_EnableAlwaysTrig", "AT_EnableReplicaTrig"),
    )
)
# Their objects read no files, open no connections and execute no texts.
_EXTENSIONS = frozenset(
    (
        *("bloom", "btree_gin", "btree_gist", "citext", "cube", "dict_int", "dict_xsyn"),
        *("earthdistance", "fuzzystrmatch", "hstore", "intarray", "isn", "ltree", "pg_trgm"),
        *("pgcrypto", "plpgsql", "seg", "tsm_system_rows", "tsm_system_time", "unaccent"),
        *("uuid-ossp", "vector", "postgis", "rum", "pg_uuidv7", "hll", "ip4r", "semver"),
    )
)
# Functions that read files or whole databases, or execute texts; beyond those of `permission`.
_HARMFUL = re.compile(
    r"pg_read_\w+|pg_ls_\w+|pg_stat_file|\w+_to_xml\w*|\w+_file_(rules|mappings|settings)"
    r"|binary_upgrade_\w+|pg_extension_config_dump|pg_export_snapshot|pg_show_all_file_settings"
    r"|xpath_table|pg_stat_get_backend_\w+|pg_get_wal_\w+|pg_walinspect\w*|get_raw_page"
)
# Locks, messages and waits of an application: they touch no object of others.
_OF_ANY_LOAD = re.compile(
    r"pg_(try_)?advisory_\w+|pg_notify|pg_current_xact_id\w*|txid_current\w*|pg_sleep\w*"
    r"|nextval|setval|currval|lastval|set_config"
)
_NAME_MAX_BYTES = 63
_NOT_WRITTEN = " is not a capture as pgdyno writes it: "
_IMMUTABLE_SCHEMAS = re.compile(r"pg_.*|information_schema")
_DEFINER = re.compile(r"(?:EXTERNAL\s+)?SECURITY\s+DEFINER", re.IGNORECASE)
_REPLACES = re.compile(r"^\s*CREATE\s+OR\s+REPLACE\s", re.IGNORECASE)
# These make their object unless one of its name exists, which is then somebody's.
_MAY_EXIST = frozenset(("CreateSchemaStmt", "CreateExtensionStmt"))
# Parts of a statement that no captured object has.
_NEVER = {
    "schemaElts": "makes other objects inside a schema",
    "authrole": "gives a schema to a role",
    "tablespacename": "names a tablespace",
    "tableSpace": "names a tablespace",
    "lockingClause": "locks rows",
}


def qualified(capture: Capture, *, file: str) -> Capture:
    """Return the capture with the schema in each name of a relation in its statements.

    Every statement and every name of the schema is checked.
    Raises: SpecError with the object and what it would do.
    """
    names = ObjectNames(capture.objects, capture.columns)
    try:
        _check_names(capture, names, file)
        checked = [_checked(item, names, file) for item in capture.objects]
        return capture.model_copy(update={"objects": tuple(checked)})
    except RecursionError:
        raise _refusal(file, "a statement", "it has too many parts inside of each other") from None


def refuse_other_names(capture: Capture, *, file: str) -> None:
    """Check the names that the load's own statements have: a load makes no object.

    Raises: SpecError with the name.
    """
    objects = tuple(item for item in capture.objects if item.kind != "extension")
    capture = capture.model_copy(update={"objects": objects})
    _check_names(capture, ObjectNames(capture.objects, capture.columns), file)


def _check_names(capture: Capture, names: ObjectNames, file: str) -> None:
    made = " ".join(item.sql for item in capture.objects if item.kind == "table")
    for item in capture.objects:
        _check_object_name(item, names, file)
    for shape in capture.tables:
        _check_name(shape.name, "table", file)
        if name_of(shape.name) not in names.relations:
            _refuse(file, f"the table {shape.name}", "the capture does not make it")
    for column in capture.columns:
        _check_name(column.table, "table", file)
        if name_of(column.table) not in names.relations:
            _refuse(file, f"a column of {column.table}", "the capture does not make this table")
        if column.sequence:
            _check_name(column.sequence, "sequence", file)
            if names.resolved(name_of(column.sequence)) not in names.sequences:
                thing = f"the column {column.table}.{column.column}"
                _refuse(file, thing, f"it uses the sequence {column.sequence} of somebody else")
        # A name with quotes is one if a table is made with it; pgdyno always writes it quoted.
        written = in_quotes(column.column)
        is_made = '"' not in column.column or written in made
        if not column.column or "\x00" in column.column or not is_made:
            _refuse(
                file, f"the column {column.column} of {column.table}", "its name ends too early"
            )
    _check_counters(capture, file)


def _check_object_name(item: SchemaObject, names: ObjectNames, file: str) -> None:
    if item.kind in _NAMED:
        _check_name(item.name, _DROPPED_AS.get(item.kind, item.kind), file)
        _check_schema(item.kind, item.name, names, file)
    elif item.kind == "schema" and _IMMUTABLE_SCHEMAS.fullmatch(name_of(item.name)[1]):
        _refuse(file, f"the schema {item.name}", "it belongs to the server")
    elif item.kind == "extension" and item.name.strip('"') not in _EXTENSIONS:
        _refuse(file, f"the extension {item.name}", "pgdyno does not know it as harmless")
    if item.table and named(item.table) not in names.relations:
        thing = f"the {item.kind.replace('_', ' ')} {item.name}"
        _refuse(file, thing, f"the capture does not make its table {item.table}")


def why_refused(item: SchemaObject, names: ObjectNames) -> str | None:
    """Return why `init` would refuse a file with this object; None if it would not."""
    try:
        _check_object_name(item, names, "")
        _checked(item, names, "")
    except SpecError as error:
        return error.message.partition(_NOT_WRITTEN)[2].rstrip(".") or error.message
    except RecursionError:
        return "it has too many parts inside of each other"
    return None


def _check_counters(capture: Capture, file: str) -> None:
    columns = {(column.table, column.column) for column in capture.columns}
    for counter in capture.counters:
        for part in (counter, *counter.keys):
            if not {(part.table, name) for name in (part.column, *part.group)} <= columns:
                _refuse(file, f"a counter with {part.table}", "it has a column of no table")
            if len(part.group) != len(counter.group):
                _refuse(file, f"a counter with {part.table}", "its groups do not fit")


def _check_schema(kind: str, name: str, names: ObjectNames, file: str) -> None:
    """Raise SpecError unless an object is in a schema of the capture, under a name that fits."""
    schema, own = named(name)
    # A name without a schema is made in the first schema of the path; `capture_server` refuses it
    # if any schema has it.
    if (schema and schema not in names.schemas) or _IMMUTABLE_SCHEMAS.fullmatch(schema):
        _refuse(file, f"the {kind} {name}", "its schema is not in the capture")
    if len(own.encode()) > _NAME_MAX_BYTES or len(schema.encode()) > _NAME_MAX_BYTES:
        _refuse(file, f"the {kind} {name}", "the server would cut its name to 63 bytes")


def refuse_other_loads(capture: Capture, *, file: str) -> None:
    """Check the statements of a capture's transactions, and the columns of their parameters.

    Raises: SpecError with the statement and what it would do.
    """
    columns = {(column.table, column.column) for column in capture.columns}
    names = ObjectNames(capture.objects, capture.columns)
    used = capture.sent_ids
    for statement in (own for own in capture.statements if own.id in used):
        thing = f"the statement {statement.id}"
        for part in statements_of(statement.text, where=f"{file}: statement {statement.id}"):
            if not is_of_load(part):
                _refuse(file, thing, f"it is not part of a load: {part.text[:60]}")
        for table in map(name_of, statement.tables):
            if table[0] != "pg_temp" and table not in names.relations:
                _refuse(file, thing, f"the capture does not make its table {'.'.join(table)}")
        for kind in filter(None, statement.parameter_types):
            if uses_of_type(kind) is None:
                _refuse(file, thing, f"{kind[:60]} is not the type of a parameter")
    for template in capture.templates:
        for step in template.steps:
            for own in (part for source in step.parameters for part in parts_of(source)):
                if not isinstance(own, OfColumn | Fresh):
                    continue
                given = own.given if isinstance(own, OfColumn) else ()
                named = [own.column, *(part.column for part in given)]
                for column in (name for name in named if (own.table, name) not in columns):
                    place = f"{own.table}.{column}"
                    _refuse(file, f"the transaction {template.name}", f"it has no column {place}")


def _checked(item: SchemaObject, names: ObjectNames, file: str) -> SchemaObject:
    """Return an object whose statement does no more than make it, with qualified names."""
    thing = f"the {item.kind.replace('_', ' ')} {item.name}"
    sql = item.sql
    if item.kind in ("function", "view"):
        # Whatever has this name already is somebody's.
        sql = _REPLACES.sub("CREATE ", sql, count=1)
    if item.kind == "function":
        sql = _without_definer(sql)
    statements = statements_of(sql, where=f"{file}: {item.kind} {item.name}")
    if len(statements) != 1:
        _refuse(file, thing, f"it has {len(statements)} statements")
    [statement] = statements
    _check_kind(item, statement, thing, file)
    written = with_schemas(sql, statement.tree, names.resolved)
    [statement] = statements_of(written, where=f"{file}: {item.kind} {item.name}")
    _check_uses(uses_of({statement.kind: statement.tree}), names, thing, file)
    if statement.kind == "CreateFunctionStmt":
        try:
            for part in statements_of_function(statement.tree, written):
                _check_part(part, names, thing, file)
        except BodyError as error:
            _refuse(file, thing, str(error))
    return item.model_copy(update={"sql": written})


def _check_kind(item: SchemaObject, statement: SyntaxNode, thing: str, file: str) -> None:
    """Raise SpecError unless a statement makes the object that the file names, and only that."""
    tree = statement.tree
    if statement.kind not in _PERMITTED.get(item.kind, ()):
        _refuse(file, thing, f"it has a statement that makes none: {statement.text[:60]}")
    if item.kind in (*_NAMED, "schema", "extension") and statement.kind != "AlterTableStmt":
        made = named_by(tree)
        if made != named(item.name) and made != ("", item.name.strip('"')):
            _refuse(file, thing, f"its statement makes {'.'.join(filter(None, made))}")
    may_exist = tree.get("if_not_exists") and statement.kind not in _MAY_EXIST
    if may_exist or tree.get("replace"):
        _refuse(file, thing, "it may exist already, and then be somebody else's")
    if statement.kind == "AlterTableStmt":
        for command in (own["AlterTableCmd"] for own in tree["cmds"]):
            if command["subtype"] not in _CHANGES:
                _refuse(file, thing, f"it changes a table by {command['subtype'][3:]}")
    if statement.kind == "CreateTableAsStmt":
        is_view = tree.get("objtype") == "OBJECT_MATVIEW"
        if not is_view or not tree["into"].get("skipData"):
            _refuse(file, thing, "it executes its query when it is made")
    if statement.kind == "CreateExtensionStmt":
        given = {option["DefElem"]["defname"] for option in tree.get("options", ())}
        if not given <= {"schema"}:
            _refuse(file, thing, f"it has the option {', '.join(sorted(given - {'schema'}))}")
    if statement.kind == "DefineStmt":
        _check_definition(item.kind, tree, thing, file)
    for name, content in statement.nodes():
        if name in _NEVER:
            _refuse(file, thing, f"it {_NEVER[name]}")
        if name == "DefElem" and content["defname"] in ("support", "canonical", "owned_by"):
            _check_option(content, thing, file, item)
        if name == "VariableSetStmt":
            setting = str(content.get("name", "")).lower()
            if not harmless({setting: ""}):
                _refuse(file, thing, f"it changes the setting {setting}")


def _check_definition(kind: str, tree: Mapping[str, Any], thing: str, file: str) -> None:
    what, permitted = _DEFINED[kind]
    options = {own["DefElem"]["defname"]: own["DefElem"] for own in tree.get("definition", ())}
    if tree["kind"] != what:
        _refuse(file, thing, f"it defines {tree['kind'].removeprefix('OBJECT_').lower()}")
    if kind == "search_dictionary":
        names = options.get("template", {}).get("arg", {}).get("TypeName", {}).get("names", ())
        if not names or names[-1].get("String", {}).get("sval") not in _TEMPLATES:
            _refuse(file, thing, "its template is not one that the server brings")
    elif unknown := options.keys() - {*permitted, *(("deterministic",) if permitted else ())}:
        _refuse(file, thing, f"it has the option {min(unknown)}")


def _check_option(option: Mapping[str, Any], thing: str, file: str, item: SchemaObject) -> None:
    name = option["defname"]
    parts = [
        own["String"]["sval"] for own in option.get("arg", {}).get("List", {}).get("items", ())
    ]
    schema = name_of(item.name)[0]
    if name != "owned_by" or (parts and parts[0] not in ("none", schema)):
        _refuse(file, thing, f"it has the option {name}")


def _check_part(statement: SyntaxNode, names: ObjectNames, thing: str, file: str) -> None:
    if not is_of_load(statement):
        _refuse(file, thing, f"its body does more than queries: {statement.text[:60]}")
    _check_uses(uses_of({statement.kind: statement.tree}), names, thing, file)


def _check_uses(uses: Iterable[Use], names: ObjectNames, thing: str, file: str) -> None:
    for use in uses:
        if (why := why_not_own(use, names)) is not None:
            _refuse(file, thing, f"it uses {why}")


def uses_of_objects(capture: Capture) -> Iterator[Use]:
    """Yield the names that the objects of a checked capture use, those in bodies, too."""
    for item in capture.objects:
        for statement in statements_of(item.sql, where=item.name):
            yield from uses_of({statement.kind: statement.tree})
            if statement.kind == "CreateFunctionStmt":
                for part in statements_of_function(statement.tree, item.sql):
                    yield from uses_of({part.kind: part.tree})


def not_of_the_copy(capture: Capture) -> str | None:
    """Return what the load uses that the capture does not make; None if it uses only that."""
    names = ObjectNames(capture.objects, capture.columns)
    temporary = {
        statement.tree["relation"]["relname"]
        if "relation" in statement.tree
        else statement.tree["into"]["rel"]["relname"]
        for own in capture.statements
        for statement in statements_of(own.text, where=f"statement {own.id}")
        if statement.kind in ("CreateStmt", "CreateTableAsStmt")
    }
    for place, use in uses_of_load(capture):
        if use.kind == "relation" and not use.name[0] and use.name[1] in temporary:
            continue
        if use.kind != "role" and (why := why_not_own(use, names)) is not None:
            return f"the statement {place} uses {why}"
    return None


def why_not_own(use: Use, names: ObjectNames) -> str | None:
    """Return what is used that the capture does not make and that may harm; None if it may."""
    shown = ".".join(filter(None, use.name))
    if use.kind == "function" and use.name[0] in ("", "pg_catalog"):
        return f"the function {shown}()" if _is_harmful(use.name[1]) else None
    if use.kind == "setting":
        # A name with a dot is a value that programs keep in their session.
        may = "." in shown or bool(harmless({shown: ""}))
        return None if may else f"the setting {shown}"
    if names.has(use):
        return None
    if use.kind == "computed":
        return shown
    return f"the {use.kind} {shown}, which the capture does not make"


def _is_harmful(function: str) -> bool:
    if _OF_ANY_LOAD.fullmatch(function):
        return False
    return unpermitted_function(function) or bool(_HARMFUL.fullmatch(function))


def is_known_extension(name: str) -> bool:
    """Return whether an extension is known to be harmless."""
    return name in _EXTENSIONS


def _without_definer(sql: str) -> str:
    """Return a function that has the rights of its caller.

    Everybody may execute a function, so a stranger would have the rights of who made the copy.
    """
    parsed = statements_of(sql, where="the function")
    options = parsed[0].tree.get("options", ()) if len(parsed) == 1 else ()
    for option in (item["DefElem"] for item in options):
        if option["defname"] == "security" and option["arg"]["Boolean"].get("boolval"):
            raw = sql.encode()
            at = option["location"]
            end = _DEFINER.sub("SECURITY INVOKER", raw[at:].decode(), count=1)
            return raw[:at].decode() + end
    return sql


def _check_name(name: str, word: str, file: str) -> None:
    """Raise SpecError unless `name` is one name wherever a statement has it."""
    statements = statements_of(f"drop {word} {name}", where=f"{file}: the name {name!r}")
    trees = [statement.tree for statement in statements]
    is_one = len(trees) == 1 and len(trees[0].get("objects", ())) == 1
    if not is_one or trees[0]["behavior"] != "DROP_RESTRICT" or "--" in name or "/*" in name:
        _refuse(file, f"the {word} {name}", "its name is more than a name")


def _refuse(file: str, thing: str, why: str) -> NoReturn:
    raise _refusal(file, thing, why)


def _refusal(file: str, thing: str, why: str) -> SpecError:
    return SpecError(
        f"{file}{_NOT_WRITTEN}{thing}: {why}.",
        hint="nothing was sent; capture the source again, or ask where the file comes from",
    )
