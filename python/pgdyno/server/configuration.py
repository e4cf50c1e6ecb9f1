"""Settings of a server: written to its configuration, compared with those a new session sees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgdyno.errors import ServerError, SpecError
from pgdyno.server.connect import Connection
from pgdyno.settings.rule import SettingRule
from pgdyno.settings.value import as_boolean, current_word, in_units

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


@dataclass(frozen=True, slots=True)
class _Shown:
    setting: str
    unit: str | None
    vartype: str
    enumvals: tuple[str, ...]
    source: str


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


@dataclass(frozen=True, slots=True)
class LiveSetting:
    """A setting of a running server. Example: "4MB" of work_mem, context "user".

    Args: value, as SHOW prints it; context and is_pending, as in pg_settings.
    """

    name: str
    value: str
    context: str
    is_pending: bool


def live_settings(connection: Connection, names: Iterable[str]) -> dict[str, LiveSetting]:
    """Return these settings by their names in lower case; unknown names are left out."""
    rows = connection.execute(
        # Not as our own session has set it.
        "SELECT name, CASE source WHEN 'session' THEN reset_val ELSE current_setting(name) END,"
        " context, pending_restart FROM pg_settings"
        " WHERE lower(name) = ANY(%s) ORDER BY name",
        [sorted({name.lower() for name in names})],
    ).fetchall()
    return {str(name).lower(): LiveSetting(str(name), *others) for name, *others in rows}


def contexts(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Return pg_settings.context of each setting: whether a change needs a reload, a restart ..."""
    return {name: live.context for name, live in live_settings(connection, names).items()}


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
    rows = connection.execute(
        # Our own sessions set a few of them. What they began with is what the load gets.
        "SELECT name, coalesce(reset_val, setting), unit, vartype, enumvals, source"
        " FROM pg_settings"
        " WHERE lower(name) = ANY(%s)",
        [[name.lower() for name in wanted]],
    ).fetchall()
    shown = {
        str(name).lower(): _Shown(setting, unit, vartype, tuple(enumvals or ()), source)
        for name, setting, unit, vartype, enumvals, source in rows
    }
    result = []
    for name, value in wanted.items():
        seen = shown.get(name.lower())
        asked = value.strip().lower()
        same = _SAME.get((name.lower(), asked), asked)
        if seen is None or not (_is_same(value.strip(), seen) or same == seen.setting):
            text = None if seen is None else seen.setting + (f" x {seen.unit}" if seen.unit else "")
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


def _is_same(wanted: str, seen: _Shown) -> bool:
    if wanted.lower() == seen.setting.lower() or wanted.lower() == "default":
        return True
    rule = SettingRule("", seen.vartype, "", seen.unit or "", "", "", seen.enumvals, "")
    if seen.vartype == "bool":
        return as_boolean(wanted) is (seen.setting == "on")
    if seen.vartype == "enum":
        is_listed = current_word(wanted, rule) in seen.enumvals
        is_same = current_word(wanted, rule) == seen.setting
        return is_same or (not is_listed and seen.source != "default")
    if seen.vartype in ("integer", "real"):
        number = in_units(wanted, rule)
        # The server prints a real number with few digits.
        shown = float(seen.setting)
        return number is not None and (number == -1 or abs(number - shown) <= abs(shown) * 1e-5)
    return False
