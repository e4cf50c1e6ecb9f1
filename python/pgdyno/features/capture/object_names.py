"""The names that a capture will make, and those that its statements use. Pure.

Every relation, sequence, function and type of a statement is a `Use`. A name without a schema is
put into the schema where the capture makes it, so that no other object of the server can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import pgparse

from pgdyno.features.capture.schema import ColumnShape, SchemaObject, in_quotes, parts_of

Name = tuple[str, str]
"""Schema and name without quotes; "" without a schema."""
UseKind = Literal[
    "relation", "sequence", "function", "type", "operator", "role", "setting", "computed"
]
FUNCTION_OPTIONS = ("sfunc", "finalfunc", "combinefunc", "subtype_diff")
"""Options of a definition whose value is the name of a function."""
_RELATIONS = frozenset(("table", "partition", "view"))
_OF_SEQUENCES = frozenset(("nextval", "currval", "setval"))
# A qualified name before the arguments of a function.
_BEFORE_ARGUMENTS = re.compile(r'(?:"(?:[^"]|"")*"|[^"(])+')
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")
# Relations of the server that a view or a statement may read: they have no secrets.
_CATALOGS = frozenset(
    (
        *("pg_class", "pg_namespace", "pg_attribute", "pg_index", "pg_type", "pg_constraint"),
        *("pg_tables", "pg_views", "pg_indexes", "pg_sequences", "pg_database", "pg_inherits"),
        *("pg_stat_user_tables", "pg_stat_user_indexes", "pg_statio_user_tables", "pg_enum"),
        *("pg_stat_all_tables", "pg_settings", "pg_timezone_names", "pg_extension", "pg_locks"),
        *("tables", "columns", "schemata", "table_constraints", "key_column_usage"),
    )
)
_MAKING = frozenset(("AlterDomainStmt", "CreateDomainStmt", "CreateStmt", "IndexStmt"))
# Of the grammar: a table with a column that has a name and a type, and nothing else.
_OF_TABLES = frozenset(("relation", "tableElts", "oncommit"))
_OF_COLUMNS = frozenset(("colname", "typeName", "is_local", "location"))
_SYSTEM_SCHEMAS = frozenset(("pg_catalog", "information_schema"))


@dataclass(frozen=True, slots=True)
class Use:
    """A name in a statement. `at_bytes`: where its schema would be; None if that is not known.

    `in_text`: the name is in a constant, whose quote is at this place.
    """

    kind: UseKind
    name: Name
    at_bytes: int | None = None
    in_text: bool = False


class ObjectNames:
    """What a capture makes: the one list against which every name in the file is held."""

    def __init__(self, objects: Sequence[SchemaObject], columns: Iterable[ColumnShape]) -> None:
        """Read the names of the objects; those of partitions and sequences, too."""
        self._objects = objects
        self.schemas = {"public"} | {
            parts_of(item.name)[1] for item in objects if item.kind == "schema"
        }
        self.functions = self._of("function", "aggregate")
        self.types = self._of("type", "domain")
        self.sequences = self._of("sequence") | set(_implicit_sequences(columns))
        self.relations = self._of(*_RELATIONS)
        self.extensions = {item.name for item in objects if item.kind == "extension"}

    def _of(self, *kinds: str) -> set[Name]:
        return {named(item.name) for item in self._objects if item.kind in kinds}

    @property
    def schemas_of_objects(self) -> set[str]:
        """Return the schemas that have a relation, sequence, function or type of the capture."""
        made = self.relations | self.sequences | self.functions | self.types
        return {schema for schema, _ in made if schema}

    @cached_property
    def by_bare_name(self) -> Mapping[str, list[str]]:
        """Return the schemas of the relations and sequences of each name, public first."""
        schemas: dict[str, list[str]] = {}
        for schema, name in sorted(self.relations | self.sequences):
            schemas.setdefault(name, []).append(schema)
        return {name: sorted(own, key=lambda s: s != "public") for name, own in schemas.items()}

    def resolved(self, name: Name, path: Iterable[str] = ()) -> Name:
        """Return a relation with its schema: the first of the path where the capture makes it."""
        if name[0] or name[1] not in self.by_bare_name:
            return name
        schemas = self.by_bare_name[name[1]]
        return next((schema for schema in path if schema in schemas), schemas[0]), name[1]

    def has(self, use: Use) -> bool:
        """Return whether the capture makes what is used, or all servers have it and it is harmless.

        Functions, types and operators without a schema are left to the server, which knows them.
        """
        schema, name = use.name
        if use.kind in ("relation", "sequence"):
            if schema in _SYSTEM_SCHEMAS or (not schema and name in _CATALOGS):
                return use.kind == "relation" and name in _CATALOGS
            # The name of a composite type is a relation in the grammar.
            return self.resolved(use.name) in self.relations | self.sequences | self.types
        if use.kind in ("role", "setting", "computed"):
            return False
        if not schema or schema == "pg_catalog":
            return True
        if use.kind == "operator":
            return schema in self.schemas
        own = self.functions if use.kind == "function" else self.types | self.relations
        # An extension may have put it there; the server says so.
        return use.name in own or (bool(self.extensions) and schema in self.schemas)


def named(name: str) -> Name:
    """Return schema and name of an object, without the arguments that a function may have."""
    before = _BEFORE_ARGUMENTS.match(name)
    return parts_of(before[0].strip() if before else name)


def _implicit_sequences(columns: Iterable[ColumnShape]) -> Iterator[Name]:
    for column in columns:
        if column.identity:
            schema, table = parts_of(column.table)
            yield schema, f"{table}_{column.column}_seq"


def uses_of(tree: Any, ctes: frozenset[str] = frozenset()) -> Iterator[Use]:
    """Yield all names that a tree of the grammar uses. `ctes`: names of WITH that are known."""
    if isinstance(tree, list):
        for item in tree:
            yield from uses_of(item, ctes)
    elif isinstance(tree, Mapping):
        if "withClause" in tree:
            clause = tree["withClause"]
            queries = [item["CommonTableExpr"] for item in clause.get("ctes", ())]
            names = frozenset(query["ctename"] for query in queries)
            known = ctes | names if clause.get("recursive") else ctes
            for query in queries:
                yield from uses_of(query, known)
                known |= {query["ctename"]}
            ctes |= names
        yield from _uses_here(tree, ctes)
        if tree.get("defname") in FUNCTION_OPTIONS:
            yield Use("function", _name(tree.get("arg", {}).get("TypeName", {}).get("names", [])))
            return
        if tree.get("defname") in ("template", "parser", "multirange_type_name"):
            return
        for key, content in tree.items():
            if key in ("withClause", "lockedRels"):
                continue  # The first was read above; the others are aliases of the query.
            # The target of a change is never a name of WITH.
            is_target = key == "relation" and isinstance(content, Mapping) and "relname" in content
            yield from uses_of(content, frozenset() if is_target else ctes)


def _uses_here(tree: Mapping[str, Any], ctes: frozenset[str]) -> Iterator[Use]:
    if "relname" in tree and "relpersistence" in tree:
        schema, name = tree.get("schemaname", ""), tree["relname"]
        if (schema or name not in ctes) and schema != "pg_temp":
            yield Use("relation", (schema, name), tree.get("location"))
        if "catalogname" in tree:
            yield Use("computed", ("", f"a table of the database {tree['catalogname']}"))
    if "names" in tree and "typemod" in tree and not tree.get("pct_type"):
        yield Use("type", _name(tree["names"]))
    for key in ("FuncCall", "funccall"):
        if key in tree:
            yield from _uses_of_call(tree[key])
    if "trigname" in tree and "funcname" in tree:
        yield Use("function", _name(tree["funcname"]))
    if "TypeCast" in tree:
        cast = tree["TypeCast"]
        constant = _constant(cast["arg"])
        if _name(cast["typeName"]["names"])[1] == "regclass" and constant is not None:
            yield Use("relation", _read(constant[0]), constant[1], in_text=True)
    if "A_Expr" in tree and len(tree["A_Expr"].get("name", ())) > 1:
        yield Use("operator", _name(tree["A_Expr"]["name"]))
    if "rolename" in tree:
        yield Use("role", ("", tree["rolename"]))


def _uses_of_call(call: Mapping[str, Any]) -> Iterator[Use]:
    name = _name(call["funcname"])
    yield Use("function", name)
    if name[1] not in (*_OF_SEQUENCES, "set_config"):
        return
    constant = _constant(call["args"][0]) if call.get("args") else None
    if constant is None:
        yield Use("computed", ("", f"a name that {name[1]}() computes"))
    elif name[1] == "set_config":
        yield Use("setting", ("", constant[0].lower()))
    else:
        yield Use("sequence", _read(constant[0]), constant[1], in_text=True)


def _name(parts: list[Any]) -> Name:
    texts = [part.get("String", {}).get("sval", "") for part in parts] or [""]
    return (".".join(texts[:-1]), texts[-1])


def _constant(tree: Mapping[str, Any]) -> tuple[str, int | None] | None:
    """Return the text of a constant, within casts, too, and its place; None without one."""
    while "TypeCast" in tree:
        tree = tree["TypeCast"]["arg"]
    constant = tree.get("A_Const", {})
    text = constant.get("sval", {}).get("sval")
    return (str(text), constant.get("location")) if text is not None else None


def _read(text: str) -> Name:
    """Return a name as the server reads the text of a regclass."""
    try:
        [statement] = pgparse.parse(f"DROP TABLE {text}")
        [parts] = statement["stmt"]["DropStmt"]["objects"]
    except (pgparse.PGQueryError, KeyError, ValueError):
        return "", text
    return _name(parts["List"]["items"])


@lru_cache(maxsize=4096)
def uses_of_type(name: str) -> frozenset[Use] | None:
    """Return the names that a type has as SQL; None if the text is more than a type."""
    try:
        [parsed] = pgparse.parse(f"CREATE TABLE t (c {name})")
    except (pgparse.PGQueryError, ValueError):
        return None
    tree = parsed["stmt"].get("CreateStmt", {})
    column = [part.get("ColumnDef", {}) for part in tree.get("tableElts", ())]
    is_type = set(tree) == _OF_TABLES and [set(part) for part in column] == [_OF_COLUMNS]
    return frozenset(map(_placeless, uses_of(column[0]))) if is_type else None


def is_cut_from(part: str, whole: str) -> bool:
    """Return whether a text is one statement that makes an object, or a part of it.

    Args: whole, the statement that was checked, from which `part` was cut out or put together: it
    uses nothing that the whole one does not use.
    """
    try:
        [parsed] = pgparse.parse(part)
    except (pgparse.PGQueryError, ValueError):
        return False
    [(kind, tree)] = parsed["stmt"].items()
    changes = [command["AlterTableCmd"]["subtype"] for command in tree.get("cmds", ())]
    is_making = kind in _MAKING or (kind == "AlterTableStmt" and changes == ["AT_AddColumn"])
    return is_making and uses_known(map(_placeless, uses_of(parsed)), whole)


def uses_known(uses: Iterable[Use], whole: str) -> bool:
    """Return whether a statement has all these names, except those of the server's types."""
    known = _uses_in(whole)
    return all(use in known or use == Use("type", ("pg_catalog", use.name[1])) for use in uses)


@lru_cache(maxsize=64)
def _uses_in(statement: str) -> frozenset[Use]:
    return frozenset(map(_placeless, uses_of(pgparse.parse(statement))))


def _placeless(use: Use) -> Use:
    return Use(use.kind, use.name)


def named_by(tree: Mapping[str, Any]) -> Name:
    """Return the name of what a CREATE statement makes, ("", "") if it has none."""
    for key in ("relation", "view", "sequence", "typevar"):
        if "relname" in tree.get(key, {}):
            return tree[key].get("schemaname", ""), tree[key]["relname"]
    if "into" in tree:
        return tree["into"]["rel"].get("schemaname", ""), tree["into"]["rel"]["relname"]
    for key in ("domainname", "funcname", "typeName", "defnames", "cfgname"):
        if key in tree:
            return _name(tree[key])
    return "", tree.get("schemaname") or tree.get("extname") or ""


def with_schemas(text: str, tree: Any, resolved: Callable[[Name], Name]) -> str:
    """Return a statement with the schema before each relation that it names without one."""
    raw = text.encode()
    uses = [use for use in uses_of(tree) if not use.name[0] and use.at_bytes is not None]
    places = {use.at_bytes: use for use in uses if use.kind in ("relation", "sequence")}
    for place, use in sorted(places.items(), reverse=True):
        schema = resolved(use.name)[0]
        if not schema or place is None:
            continue
        added = f"{quoted(schema)}."
        if use.in_text:
            if raw[place : place + 1] != b"'":
                continue
            place, added = place + 1, added.replace("'", "''")
        raw = raw[:place] + added.encode() + raw[place:]
    return raw.decode()


def quoted(name: str) -> str:
    """Return a name as SQL, in quotes unless it is plain."""
    return name if _IDENTIFIER.fullmatch(name) else in_quotes(name)
