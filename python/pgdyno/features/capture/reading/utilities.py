"""Utility statements of a load that can be sent again: what stays of their texts has no values.

Settings keep name and value if both are harmless. Cursors and channels get other names, equal ones
the same. A setting that could stop statements of other transactions is sent as SET LOCAL.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pgdyno.features.capture.load_statements import harmless, is_harmless_block
from pgdyno.features.capture.schema import in_quotes

Tree = Mapping[str, Any]
# Whether a name is a schema of the database; whether a channel's name is in a captured function.
Knows = Callable[[str], bool]
_ALL = (1 << 63) - 1
# Of this process; it is never written. Without it, `user_7` could be found by trying all numbers.
_KEY = secrets.token_bytes(32)
_CURSOR_HOLDS = 0x20
_ISOLATION = ("read uncommitted", "read committed", "repeatable read", "serializable")
# What a harmless setting may be set to: a number with its unit, or one of these words, or a zone.
_QUOTED_OR_COMMENT = re.compile(r"(\"[^\"]*\"|'(?:[^']|'')*')|/\*.*?\*/|--[^\n]*", re.S)
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,6})? ?(?:us|ms|s|min|h|d|B|kB|MB|GB|TB)?")
_WORDS = frozenset(
    (
        *("on", "off", "true", "false", "yes", "no", "default", "auto", "local", "partition"),
        *("remote_write", "remote_apply", "force_custom_plan", "force_generic_plan", "hex"),
        *("escape", "iso", "sql", "german", "mdy", "dmy", "ymd", "us", "european"),
        *("postgres", "postgres_verbose", "sql_standard", "iso_8601", "utc", "gmt", *_ISOLATION),
    )
)
_ZONE = re.compile(r"(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific"
                   r"|Etc|US)/[A-Za-z_+-]+[0-9]{0,2}(?:/[A-Za-z_]+)?")  # fmt: skip
# After these settings a later statement of the session may fail, or mean another table.
_REACHES_OTHERS = re.compile(r"search_path|\w+_timeout|default_transaction_\w+", re.I)
_DECLARED = re.compile(
    r'DECLARE\s+(?:"(?:[^"]|"")*"|[^\s"]+)\s+((?:[A-Z]+\s+)*?)CURSOR\s+'
    r"((?:WITHOUT\s+HOLD\s+)?)FOR\s+(.*)",
    re.I | re.S,
)
_PREPARED = re.compile(
    r'PREPARE\s+(?:"(?:[^"]|"")*"|[^\s"(]+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*AS\s+(.*)',
    re.I | re.S,
)
# They keep or end a lock beyond the end of a transaction.
_SESSION_LOCK = re.compile(r"\bpg_(?:try_)?advisory_(?:un)?lock(?:_shared|_all)?\b")
_BEGINS = re.compile(r"(?:BEGIN|START)\b", re.I)
_ENDS = re.compile(r"(?:COMMIT|END|ABORT|ROLLBACK(?!\s+(?:\w+\s+)?TO\b))\b", re.I)
_CURSOR = re.compile(r"(?:DECLARE|(?:FETCH|MOVE) \w+ \S+ FROM|CLOSE) (\w+)")


def _is_no_role(_: str) -> bool:
    return False


def text_of(
    node: str,
    tree: Tree,
    *,
    is_schema: Knows,
    is_named: Knows,
    is_role: Knows = _is_no_role,
) -> str | None:
    """Return the text that is sent in place of a statement; None if it cannot be sent again.

    Args: is_named, whether a function of the capture names a channel; is_role, whether the server
    has a role.
    """
    if node == "VariableSetStmt":
        return _role(tree, is_role) or _setting(tree, is_schema)
    if node == "DoStmt":
        return _block(tree)
    if node == "SelectStmt":
        return _call(tree, is_schema, is_named, is_role)
    if node == "FetchStmt":
        verb = "MOVE" if tree.get("ismove") else "FETCH"
        direction = tree["direction"].removeprefix("FETCH_")
        count = tree.get("howMany", 0)
        rows = "ALL" if count == _ALL else str(count)
        return f"{verb} {direction} {rows} FROM {_cursor(tree['portalname'])}"
    if node == "ClosePortalStmt":
        return f"CLOSE {_cursor(tree['portalname']) if 'portalname' in tree else 'ALL'}"
    if node in ("ListenStmt", "UnlistenStmt"):
        verb = node.removesuffix("Stmt").upper()
        name = tree.get("conditionname")
        return f"{verb} {_channel(name, is_named) if name else '*'}"
    if node == "NotifyStmt":
        payload = tree.get("payload")
        said = f", '{_as_long(payload)}'" if payload else ""
        return f"NOTIFY {_channel(tree['conditionname'], is_named)}{said}"
    return None


def declared(text: str, tree: Tree) -> tuple[str, str] | None:
    """Return the beginning of a DECLARE with another name, and its query; None WITH HOLD."""
    matched = _DECLARED.match(text)
    if matched is None or tree.get("options", 0) & _CURSOR_HOLDS:
        return None
    words = " ".join(matched[1].upper().split())
    return (
        f"DECLARE {_cursor(tree['portalname'])} {words + ' ' if words else ''}CURSOR FOR ",
        matched[3],
    )


def prepared(text: str) -> str:
    """Return the statement of a PREPARE; it may have any name and types."""
    matched = _PREPARED.match(text)
    return matched[1] if matched else ""


def query_of(text: str) -> str:
    """Return the query of a DECLARE; another text is returned as it is."""
    matched = _DECLARED.match(text)
    return matched[3] if matched else text


def copied_out(tree: Tree) -> bool:
    """Return whether COPY sends rows to the client, with options that have no value of a row."""
    if tree.get("is_from") or tree.get("filename") or tree.get("is_program"):
        return False
    given = [item["DefElem"].get("arg", {}) for item in tree.get("options", ())]
    words = [arg.get("String", {}).get("sval", "") for arg in given]
    return all(word in ("text", "csv", "binary") or len(word) <= 1 for word in words)


def copied_in(tree: Tree) -> bool:
    """Return whether COPY takes rows of the client, as text or CSV; options do not matter then."""
    if not tree.get("is_from") or tree.get("filename") or tree.get("is_program"):
        return False
    options = {item["DefElem"]["defname"]: item["DefElem"] for item in tree.get("options", ())}
    format_ = options.get("format", {}).get("arg", {}).get("String", {}).get("sval", "text")
    return "whereClause" not in tree and format_.lower() in ("text", "csv")


def needs_block(text: str) -> bool:
    """Return whether a statement has no effect, or fails, outside of a transaction block."""
    words = ("SET LOCAL", "SET TRANSACTION", "DECLARE", "FETCH", "MOVE", "CLOSE", "LOCK")
    return text.upper().startswith(words)


def reason_of_place(text: str) -> str:
    """Return the reason for a statement whose place is not known, or where it cannot be sent."""
    reasons = {"SET": "session", "LOC": "other"}
    return reasons.get(text[:3].upper(), "cursor")


def takes_session_lock(text: str) -> bool:
    """Return whether a statement takes or releases an advisory lock of its session."""
    return _SESSION_LOCK.search(text) is not None


def without_orphans(texts: list[str]) -> Iterator[bool]:
    """Yield for each statement of a transaction whether it can be sent.

    A cursor is used after it was declared; one that is open is not declared again.
    """
    is_block, open_ = False, set[str]()
    for text in texts:
        if _BEGINS.match(text):
            is_block, open_ = True, set()
        elif _ENDS.match(text):
            is_block, open_ = False, set()
        name = _CURSOR.match(text)
        if name is None:
            yield is_block or not needs_block(text)
            continue
        is_open = name[1] in open_ or text == "CLOSE ALL"
        is_declared = text.startswith("DECLARE")
        yield is_block and is_open != is_declared
        if is_declared and is_block:
            open_.add(name[1])
        elif text.startswith("CLOSE"):
            open_ = set() if text == "CLOSE ALL" else open_ - {name[1]}


def _setting(tree: Tree, is_schema: Knows) -> str | None:
    """Return a SET of a harmless setting."""
    name = str(tree.get("name", "")).lower()
    if tree["kind"] == "VAR_SET_MULTI":
        modes = list(_modes(tree)) if name == "transaction" else []
        return f"SET TRANSACTION {', '.join(modes)}" if modes else None
    if not harmless({name: ""}):
        return None
    is_local = tree.get("is_local") or _REACHES_OTHERS.fullmatch(name)
    beginning = f"SET {'LOCAL ' if is_local else ''}{name} TO "
    if tree["kind"] in ("VAR_SET_DEFAULT", "VAR_RESET"):
        return beginning + "DEFAULT"
    values = [_constant(item) for item in tree.get("args", ())]
    if tree["kind"] != "VAR_SET_VALUE" or not values or not _are_harmless(name, values, is_schema):
        return None
    return beginning + ", ".join(f"'{value}'" for value in values)


def _role(tree: Tree, is_role: Knows) -> str | None:
    """Return a SET LOCAL of a role that exists, or of the one of the connection."""
    name = str(tree.get("name", "")).lower()
    words = {"role": "ROLE", "session_authorization": "SESSION AUTHORIZATION"}.get(name)
    values = [_constant(item) for item in tree.get("args", ())]
    if words is None:
        return None
    if tree["kind"] in ("VAR_RESET", "VAR_SET_DEFAULT") or values == ["none"]:
        return f"SET LOCAL {words} {'NONE' if name == 'role' else 'DEFAULT'}"
    if len(values) != 1 or values[0] is None or not _is_plain(values[0], is_role):
        return None
    return f'SET LOCAL {words} "{values[0]}"'


def _is_plain(role: str, is_role: Knows) -> bool:
    return is_role(role) and not re.search(r"[\"'\\]", role)


def without_comments(text: str) -> str:
    """Return a text of SQL without comments. What looks like one within quotes stays."""
    return _QUOTED_OR_COMMENT.sub(lambda part: part[1] or " ", text)


def _block(tree: Tree) -> str | None:
    """Return a DO block of PL/pgSQL without values and without statements that change more."""
    given = {item["DefElem"]["defname"]: item["DefElem"]["arg"] for item in tree.get("args", ())}
    body = given.get("as", {}).get("String", {}).get("sval", "")
    language = given.get("language", {}).get("String", {}).get("sval", "plpgsql")
    bare = without_comments(body)
    if language != "plpgsql" or not is_harmless_block(bare):
        return None
    return f"DO $do${bare}$do$"


def tables_in(text: str, table: Callable[[str | None, str], str]) -> tuple[str, ...]:
    """Return the tables that the words of a DO block name."""
    words = re.findall(r"(?:\b(\w+)\.)?\b(\w+)\b", text)
    known = (table(schema or None, word) for schema, word in words)
    return tuple(sorted({name for name in known if name}))


def _modes(tree: Tree) -> Iterator[str]:
    for item in (argument["DefElem"] for argument in tree.get("args", ())):
        value = _constant(item.get("arg", {}))
        if item["defname"] == "transaction_isolation" and value in _ISOLATION:
            yield f"ISOLATION LEVEL {value.upper()}"
        elif item["defname"] == "transaction_read_only" and value == "1":
            yield "READ ONLY"
        elif item["defname"] == "transaction_deferrable" and value == "1":
            yield "DEFERRABLE"


def _are_harmless(name: str, values: list[str | None], is_schema: Knows) -> bool:
    if name == "search_path":
        return all(value is not None and _is_path(value, is_schema) for value in values)
    return all(
        value is not None
        and (_NUMBER.fullmatch(value) or _ZONE.fullmatch(value) or value.lower() in _WORDS)
        for value in values
    )


def _is_path(value: str, is_schema: Knows) -> bool:
    # set_config has the whole list in one value.
    parts = [part.strip().strip('"') for part in value.split(",")]
    return "'" not in value and all(
        part in ("", "$user", "public", "pg_catalog") or is_schema(part) for part in parts
    )


def _call(tree: Tree, is_schema: Knows, is_named: Knows, is_role: Knows) -> str | None:
    """Return a SELECT that only calls set_config or pg_notify, with constants."""
    targets = tree.get("targetList", ())
    if len(targets) != 1 or "fromClause" in tree or "whereClause" in tree:
        return None
    call = targets[0]["ResTarget"].get("val", {}).get("FuncCall", {})
    names = [part.get("String", {}).get("sval", "") for part in call.get("funcname", ())]
    given = [_constant(argument) for argument in call.get("args", ())]
    if None in given:
        return None
    function, values = (names or [""])[-1], [str(value) for value in given]
    if function == "pg_notify" and len(values) == 2:
        channel = _channel_word(values[0], is_named)
        return f"SELECT pg_notify('{channel}', '{_as_long(values[1])}')"
    if function != "set_config" or len(values) != 3:
        return None
    name, value, is_local = values[0].lower(), values[1], values[2]
    if name == "role" and is_local in ("1", "t", "true") and _is_plain(value, is_role):
        return f"SELECT set_config('role', '{value}', true)"
    if not harmless({name: ""}) or not _are_harmless(name, [value], is_schema):
        return None
    local = is_local in ("1", "t", "true") or bool(_REACHES_OTHERS.fullmatch(name))
    return f"SELECT set_config('{name}', '{value}', {str(local).lower()})"


def _constant(tree: Tree) -> str | None:
    """Return a constant as text, None for everything else."""
    if "TypeCast" in tree:
        return _constant(tree["TypeCast"].get("arg", {}))
    constant = tree.get("A_Const")
    if constant is None or constant.get("isnull"):
        return None
    for kind, empty in (("sval", ""), ("fval", ""), ("ival", 0), ("boolval", False)):
        if kind in constant:
            value = constant[kind].get(kind, empty)
            return str(int(value)) if isinstance(value, bool) else str(value)
    return None


def _cursor(name: str) -> str:
    """Return another name; digits do not count, because clients number their cursors."""
    return "c_" + _code(re.sub(r"\d+", "", name))


def _channel(name: str, is_named: Knows) -> str:
    return in_quotes(_channel_word(name, is_named))


def _channel_word(name: str, is_named: Knows) -> str:
    return name if is_named(name) and "'" not in name else "channel_" + _code(name)


def _code(name: str) -> str:
    """Return digits that are equal for equal names, and that nobody can compute without the key."""
    return hashlib.blake2b(name.encode(), key=_KEY, digest_size=4).hexdigest()


def _as_long(payload: str) -> str:
    """Return x as long as a payload, up to the next power of two: few texts for many lengths."""
    return "x" * min(1 << max(len(payload) - 1, 0).bit_length(), 4096) if payload else ""
