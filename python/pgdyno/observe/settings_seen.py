"""Reads all settings of the server, its roles and databases at one moment, and lists changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]
SettingsSeen = Mapping[tuple[str, str], str]

# The values that a new session gets: settings of our own session do not count.
SETTINGS_SQL = (
    "SELECT '', name, coalesce(reset_val, '') || coalesce(' ' || unit, '')"
    " FROM pg_catalog.pg_settings WHERE name <> 'application_name'"
    " UNION ALL SELECT concat_ws(' of ', coalesce('role ' || r.rolname, 'every role'),"
    " 'database ' || d.datname), split_part(one, '=', 1), substr(one, strpos(one, '=') + 1)"
    " FROM pg_catalog.pg_db_role_setting s CROSS JOIN unnest(s.setconfig) one"
    " LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole"
    " LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase"
)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that changed; `of` is "" for the server itself. None: not set."""

    name: str
    of: str
    before: str | None
    after: str | None

    def as_document(self) -> dict[str, Any]:
        """Return JSON-able values."""
        return asdict(self)


def read_settings_seen(connection: Connection) -> SettingsSeen:
    """Return every value with its unit, by owner and name. Raises: psycopg.Error."""
    rows = connection.execute(SETTINGS_SQL).fetchall()
    return {(str(of), str(name)): str(value) for of, name, value in rows}


def changes(before: SettingsSeen, after: SettingsSeen) -> tuple[SettingChange, ...]:
    """Return the settings that changed, in order."""
    places = sorted(before.keys() | after.keys())
    return tuple(
        SettingChange(name, of, before.get((of, name)), after.get((of, name)))
        for of, name in places
        if before.get((of, name)) != after.get((of, name))
    )
