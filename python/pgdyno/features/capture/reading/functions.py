"""What the functions of a database do with their arguments, as far as their texts show it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pgparse

from pgdyno.features.capture.reading.trees import last_word, type_of
from pgdyno.features.capture.schema import SchemaObject

# Arguments of PostgreSQL's own functions that are words of PostgreSQL and never values of rows, by
# their place, with a word that every such call accepts. `extract` is parsed as one of them, and
# AT TIME ZONE and LIKE ... ESCAPE are others.
OWN_WORDS: Mapping[str, Mapping[int, str]] = {
    "date_trunc": {0: "day", 2: "UTC"},
    "date_part": {0: "day"},
    "date_bin": {0: "1 day"},
    "timezone": {0: "UTC"},
    "encode": {1: "hex"},
    "decode": {1: "hex"},
    "convert_to": {1: "UTF8"},
    "convert_from": {1: "UTF8"},
    "digest": {1: "sha256"},
    "hmac": {2: "sha256"},
    "gen_salt": {0: "bf"},
    "setweight": {1: "A"},
    "regexp_replace": {3: "g"},
    "regexp_matches": {2: "g"},
    "regexp_split_to_table": {2: "i"},
    "regexp_split_to_array": {2: "i"},
    "current_setting": {0: "server_version_num"},
    "like_escape": {1: "#"},
    "similar_to_escape": {1: "#"},
    "normalize": {1: "NFC"},
}
# What a log may show of such an argument: units of time, zones, codings, flags.
OWN_WORD = re.compile(
    r"(?:micro|milli)seconds?|seconds?|minutes?|hours?|days?|weeks?|months?|quarters?|years?|epoch"
    r"|decades?|century|centuries|millenni(?:um|a)|dow|doy|iso(?:dow|year)|timezone(?:_\w+)?|julian"
    r"|hex|base64|escape|md5|sha\d+|bf|utf-?8|latin\d+|nf[ck]?[cd]|[a-d]|[gimnsx]{1,4}|utc|gmt"
    r"|(?:africa|america|antarctica|asia|atlantic|australia|europe|indian|pacific)/[a-z_/]+"
    r"|\d{1,3} (?:second|minute|hour|day|week)s?|server_version(?:_num)?|server_encoding",
    re.I,
)
# A body that takes rows from a queue, or adds none and returns rows that it changes.
_TAKES_ROWS = re.compile(
    r"\bSKIP\s+LOCKED\b|^(?!.*\bINSERT\b).*\b(?:UPDATE|DELETE)\b[^;]*\bRETURNING\b", re.I | re.S
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, its type, and the column that it is compared with or written to.

    `values`: those that the function compares it with, if they are few texts. `is_optional`: NULL
    means that nothing is compared. `is_word`: it is a word of PostgreSQL, such as a unit of time.
    """

    name: str = ""
    use: Literal["equal", "list", "set"] = "set"
    column: str = ""
    values: tuple[str, ...] = ()
    is_optional: bool = False
    type: str = ""
    is_word: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function or procedure.

    `returns`: the bare name of its type. `words`: the names in its body. `ends_count`: how many
    COMMIT and ROLLBACK the body of a procedure has. `takes_rows`: it returns rows that were
    there, as one that fetches a job from a queue.
    """

    arguments: tuple[Argument, ...]
    returns: str
    is_volatile: bool
    words: tuple[str, ...]
    ends_count: int = 0
    takes_rows: bool = False


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions and composite types by their bare names; a type has the names of its fields."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    types: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


def functions_of(objects: Iterable[SchemaObject]) -> Functions:
    """Return the functions and composite types of a schema. One that cannot be read is left out."""
    functions: dict[str, Function] = {}
    types: dict[str, tuple[tuple[str, str], ...]] = {}
    for item in objects:
        if item.kind not in ("function", "type"):
            continue
        try:
            [(node, tree)] = pgparse.parse(item.sql)[0]["stmt"].items()
        except (pgparse.PGQueryError, IndexError, ValueError, RecursionError):
            continue
        if node == "CreateFunctionStmt":
            functions.setdefault(last_word(tree["funcname"]), _function(tree))
        elif node == "CompositeTypeStmt":
            types[tree["typevar"]["relname"]] = tuple(_fields(tree))
    return Functions(functions, types)


def _fields(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for item in tree.get("coldeflist", ()):
        column = item["ColumnDef"]
        yield column["colname"], last_word(column["typeName"]["names"])


def _function(tree: Mapping[str, Any]) -> Function:
    body, is_volatile = "", True
    for option in tree.get("options", ()):
        element = option["DefElem"]
        if element["defname"] == "as":
            parts = element["arg"].get("List", {}).get("items", ())
            body = " ".join(part.get("String", {}).get("sval", "") for part in parts)
        elif element["defname"] == "volatility":
            is_volatile = element["arg"]["String"]["sval"] == "volatile"
    body = re.sub(r"--[^\n]*|/\*.*?\*/", " ", body, flags=re.S)
    is_procedure = bool(tree.get("is_procedure"))
    # CALL names the arguments that a procedure only returns, too.
    left_out = ("FUNC_PARAM_TABLE",) if is_procedure else ("FUNC_PARAM_OUT", "FUNC_PARAM_TABLE")
    parameters = [item["FunctionParameter"] for item in tree.get("parameters", ())]
    given = [item for item in parameters if item.get("mode") not in left_out]
    return Function(
        arguments=tuple(
            replace(_argument(item.get("name", ""), body), type=type_of(item["argType"]))
            for item in given
        ),
        returns=last_word(tree.get("returnType", {}).get("names", ())),
        is_volatile=is_volatile,
        words=tuple(dict.fromkeys(re.findall(r"[a-z_]\w*", body.lower()))),
        ends_count=len(re.findall(r"\b(?:commit|rollback)\b", body.lower())) if is_procedure else 0,
        takes_rows=_TAKES_ROWS.search(body) is not None,
    )


def _argument(name: str, body: str) -> Argument:
    """Return what a body does with an argument, by the first comparison that names it."""
    if not name:
        return Argument()
    own = re.escape(name)
    is_optional = re.search(rf"\b{own}\s+IS\s+NULL\s+OR\b", body, re.I) is not None
    listed = re.search(rf"\b(\w+)\s*=\s*ANY\s*\(\s*{own}\s*\)", body, re.I)
    if listed is not None:
        return Argument(name, "list", listed[1], is_optional=is_optional)
    where = rf"\b(WHERE|AND|OR|ON)\s*\(?\s*(?:\w+\.)?(\w+)\s*=\s*{own}\b"
    compared = re.search(where, body, re.I)
    if compared is not None:
        return Argument(name, "equal", compared[2], is_optional=is_optional)
    among = re.search(rf"\b{own}\s+(?:NOT\s+)?IN\s*\(([^()]*)\)", body, re.I)
    values = tuple(re.findall(r"'([^']*)'", among[1])) if among is not None else ()
    written = re.search(rf"\b(\w+)\s*=\s*(?:COALESCE\s*\(\s*)?{own}\b", body, re.I)
    return Argument(name, "set", written[1] if written is not None else "", values, is_optional)
