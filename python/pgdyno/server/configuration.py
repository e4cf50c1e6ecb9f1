"""Settings of a server: written to its configuration, compared with those a new session sees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.errors import ServerError, SpecError
from pgdyno.quantities import format_bytes
from pgdyno.server.connect import Connection
from pgdyno.settings.rule import SettingRule, as_initdb_leaves, unit_amount
from pgdyno.settings.value import as_boolean, current_word, in_units, written

# Settings by which pgdyno finds and protects a scratch cluster; a variant may not change them.
RESERVED = frozenset(
    {
        "cluster_name",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?")
# Values that the server lists, but shows as another value (PostgreSQL 15 and later).
_SAME = {("wal_compression", "on"): "pglz"}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A setting whose value in a new session is not the wanted one."""

    name: str
    wanted: str
    seen: str | None

    def __str__(self) -> str:
        seen = "no such setting" if self.seen is None else repr(self.seen)
        return f"{self.name}: requested {self.wanted!r}, found {seen}"


def checked(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with lower-case names. Raises: SpecError for an impossible setting."""
    result: dict[str, str] = {}
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise SpecError(f"{name!r} is not the name of a setting.", hint="--set name=value")
        if name.lower() in RESERVED:
            raise SpecError(
                f"pgdyno sets {name.lower()} of a scratch server itself.",
                hint="remove it; --data-dir and --wal-dir place the files",
            )
        if "\n" in value or "\0" in value:
            raise SpecError(f"{name} = {value!r} must be one line.", hint="--set name=value")
        result[name.lower()] = value
    return result


def as_configuration(settings: Mapping[str, str]) -> str:
    """Return lines of postgresql.conf."""
    lines = []
    for name, value in settings.items():
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'\n")
    return "".join(lines)


# pg_settings.source, as the command that sets such a value.
_SOURCES = {
    "database": "ALTER DATABASE",
    "user": "ALTER ROLE",
    "database user": "ALTER ROLE IN DATABASE",
    "global": "ALTER ROLE ALL",
    "client": "the connection's options",
}


def source_text(source: str, file: str | None, line: int | None) -> str:
    """Return where a value comes from: a file with its line, or the command that set it.

    Args: as in pg_settings; file is None where none set it, or this role may not see which.
    """
    if not file:
        return _SOURCES.get(source, source)
    by = " (ALTER SYSTEM)" if file.endswith("/postgresql.auto.conf") else ""
    return f"{file} line {line}{by}"


# What new sessions of this role and database get: pgdyno's own sessions set a few of them.
SETTINGS_SQL = (
    "SELECT name, vartype, context, coalesce(unit, ''), coalesce(min_val, ''),"
    " coalesce(max_val, ''), coalesce(enumvals, '{}'), coalesce(boot_val, ''),"
    " coalesce(reset_val, setting, ''),"
    " CASE source WHEN 'session' THEN reset_val ELSE current_setting(name, true) END, source,"
    " sourcefile, sourceline, pending_restart, short_desc FROM pg_catalog.pg_settings"
)
_NOT_SET = ("default", "override", "client")
# Folders and languages differ on each server.
_PLACE = re.compile(
    r"lc_\w+|timezone|log_timezone|datestyle|default_text_search_config|.*_file|.*_director(y|ies)"
    r"|.*_directory|port|listen_addresses|cluster_name|unix_socket_\w+|ssl.*|application_name"
    r"|client_encoding|server_\w+|in_hot_standby|transaction_\w+|krb_\w+|dynamic_library_path"
)
_SECRET = re.compile(r"conninfo|password|passphrase|command")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a server, or of a postgresql.conf, as new sessions get it.

    Args: text, as pg_settings has it, in units of `rule`: "16384" of shared_buffers; `show`, as
    SHOW prints it: "128MB", or as a file has it where the server refuses it; `source`, as in
    pg_settings; `place`, where the value comes from in words; `objection`, why the server refuses
    the value, "" if it does not; `description`, the server's.
    """

    rule: SettingRule
    text: str
    show: str = ""
    source: str = "default"
    place: str = ""
    is_pending: bool = False
    description: str = ""
    objection: str = ""

    @property
    def is_secret(self) -> bool:
        """Return whether the value may hold a secret; a number or a word out of a list does not."""
        is_text = self.rule.vartype == "string"
        return "." in self.rule.name or (is_text and _SECRET.search(self.rule.name) is not None)

    @property
    def value(self) -> str:
        """Return the value as postgresql.conf has it; "(not shown)" if it may hold a secret."""
        if self.objection:
            return self.show
        return "(not shown)" if self.is_secret and self.text else written(self.rule, self.text)

    @property
    def built_in(self) -> str:
        """Return PostgreSQL's default as postgresql.conf has it."""
        return written(self.rule, self.rule.built_in)

    @property
    def is_set(self) -> bool:
        """Return whether somebody set the value: in a file, or for a role or a database."""
        return self.source not in _NOT_SET and self.rule.context != "internal"

    @property
    def is_changed(self) -> bool:
        """Return whether the value differs from PostgreSQL's default."""
        is_place = _PLACE.fullmatch(self.rule.name.lower()) is not None
        return self.is_set and self.value != self.built_in and not is_place

    @property
    def shown(self) -> str:
        """Return the value with its unit, as text for a reader: "128 MB"."""
        amount, kind = unit_amount(self.rule.unit)
        if kind == "bytes" and not self.text.startswith("-"):
            return format_bytes(int(self.text) * int(amount))
        return "(not shown)" if self.is_secret else f"{self.text} {self.rule.unit}".rstrip()


def settings_in(rows: Iterable[Sequence[Any]]) -> dict[str, Setting]:
    """Return the settings by name in lower case. Args: rows, the answer to SETTINGS_SQL."""
    settings = {}
    for name, kind, context, unit, low, high, values, built_in, text, show, *rest in rows:
        source, file, line, is_pending, description = rest
        rule = SettingRule(name, kind, context, unit, low, high, tuple(values), built_in)
        if name == "max_stack_depth":
            rule = as_initdb_leaves(rule)
        place = source_text(source, file, line)
        settings[str(name).lower()] = Setting(
            rule, text, show or "", source, place, bool(is_pending), description
        )
    return settings


def live_settings(connection: Connection, names: Iterable[str]) -> dict[str, Setting]:
    """Return these settings by their names in lower case; unknown names are left out."""
    asked = f"{SETTINGS_SQL} WHERE lower(name) = ANY(%s) ORDER BY name"
    rows = connection.execute(asked, [sorted({name.lower() for name in names})])
    return settings_in(rows.fetchall())


def contexts(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Return pg_settings.context of each setting: whether a change needs a reload, a restart ..."""
    return {name: live.rule.context for name, live in live_settings(connection, names).items()}


def first_refused(connection: Connection) -> tuple[str, str, str] | None:
    """Return name, value and error of the first line of the configuration with an error.

    The server reads the files again for this. A setting that only a restart can change counts as
    correct, because the running server does not check its value.
    """
    row = connection.execute(
        "SELECT f.name, f.setting, f.error FROM pg_file_settings f"
        " LEFT JOIN pg_settings s ON lower(s.name) = lower(f.name)"
        " WHERE f.error IS NOT NULL"
        " AND (f.error <> 'setting could not be applied' OR s.context <> 'postmaster')"
        # A removed line has no name; its setting stays in effect until a restart.
        " AND (f.name IS NOT NULL OR f.error NOT LIKE '%cannot be changed without restarting%')"
        " ORDER BY f.seqno LIMIT 1"
    ).fetchone()
    return None if row is None else (str(row[0]), str(row[1]), str(row[2]))


def read_back(connection: Connection, wanted: Mapping[str, str]) -> list[Mismatch]:
    """Return the settings that this session does not see as wanted.

    The connection must be new, and the load's own: a role or database may override the server.
    Limits: if a value lets the server choose (-1, default), or is a spelling of an enum that
    pg_settings does not list, every value counts as wanted.
    """
    present = live_settings(connection, wanted)
    result = []
    for name, value in wanted.items():
        seen = present.get(name.lower())
        asked = value.strip().lower()
        same = _SAME.get((name.lower(), asked), asked)
        if seen is None or not (_is_same(value.strip(), seen) or same == seen.text):
            text = (
                None
                if seen is None
                else seen.text + (f" x {seen.rule.unit}" if seen.rule.unit else "")
            )
            result.append(Mismatch(name, value, text))
    return result


def require(connection: Connection, wanted: Mapping[str, str]) -> None:
    """Raise ServerError unless the session sees every setting as wanted."""
    wrong = read_back(connection, wanted)
    if wrong:
        raise ServerError(
            f"Some settings did not take effect: {'; '.join(map(str, wrong))}.",
            hint="something overrides them: ALTER SYSTEM, ALTER ROLE or ALTER DATABASE ... SET",
        )


def _is_same(wanted: str, seen: Setting) -> bool:
    rule = seen.rule
    if wanted.lower() == seen.text.lower() or wanted.lower() == "default":
        return True
    if rule.vartype == "bool":
        return as_boolean(wanted) is (seen.text == "on")
    if rule.vartype == "enum":
        is_same = current_word(wanted, rule) == seen.text
        is_listed = current_word(wanted, rule) in rule.values
        return is_same or (not is_listed and seen.source != "default")
    if rule.is_number:
        number = in_units(wanted, rule)
        # The server prints a real number with few digits.
        shown = float(seen.text)
        return number is not None and (number == -1 or abs(number - shown) <= abs(shown) * 1e-5)
    return False
