"""Reads the server's facts in one read-only session of short statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgdyno.features.doctor.finding import Unknown
from pgdyno.features.doctor.server_sql import SQL
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.sql_collector import pick
from pgdyno.server.configuration import Setting, settings_in
from pgdyno.settings.rule import unit_amount

LOOK_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a role that some verb needs."""

    role: str
    is_superuser: bool
    monitor: bool
    checkpoint: bool
    alter_system: bool
    create_in_database: bool
    create_in_public: bool
    reload: bool
    can_write: bool


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """One server as one role sees it.

    `answers`: the row of each statement, by its name. `failures`: the server's message for each
    statement that failed.
    """

    major: int
    settings: Mapping[str, Setting]
    answers: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def rights(self) -> Rights:
        """Return the rights of the role."""
        return Rights(*self.answer("role"))

    @property
    def data_folder(self) -> str:
        """Return the data directory from the setting, "" if the role may not see it."""
        known = self.settings.get("data_directory")
        return known.text if known is not None else ""

    def answer(self, name: str) -> tuple[Any, ...]:
        """Return the row of a statement. Raises: Unknown with the server's message."""
        if name not in self.answers:
            raise Unknown(f"the server's error: {self.failures.get(name, 'none')}")
        return self.answers[name]

    def text(self, name: str) -> str:
        """Return the text of a setting in pg_settings. Raises: Unknown for an unknown setting."""
        if name not in self.settings:
            raise Unknown(f"{name} is not a setting of PostgreSQL {self.major}, or not visible")
        return self.settings[name].text

    def is_on(self, name: str) -> bool:
        """Return whether a boolean setting is on."""
        return self.text(name) == "on"

    def number(self, name: str) -> float:
        """Return the number of a setting without unit."""
        return float(self.text(name))

    def size_bytes(self, name: str) -> int:
        """Return the bytes of a setting that is a size."""
        return int(self.number(name)) * int(unit_amount(self.settings[name].rule.unit)[0])

    def duration_ms(self, name: str) -> float:
        """Return the ms of a setting that is a duration."""
        return self.number(name) * unit_amount(self.settings[name].rule.unit)[0]


def read_server(session: ServerSession) -> ServerSeen:
    """Send every statement once and return the answers; refusals are kept as messages.

    Raises: psycopg.Error if even the settings cannot be read, or the connection is lost.
    """
    settings = read_settings(session)
    answers: dict[str, tuple[Any, ...]] = {}
    failures: dict[str, str] = {}
    for name in SQL:
        if name in ("settings", "active"):
            continue
        try:
            answers[name] = ask(session, name)
        except psycopg.Error as error:
            if not session.is_open:
                raise
            failures[name] = " ".join(str(error).split())
    return ServerSeen(session.version, settings, answers, failures)


def read_settings(session: ServerSession) -> dict[str, Setting]:
    """Return every setting that this role may see."""
    return settings_in(session.fetch(pick("settings", SQL["settings"], session.version)))


def ask(session: ServerSession, name: str) -> tuple[Any, ...]:
    """Return the only row of one of the doctor's statements."""
    [row] = session.fetch(pick(name, SQL[name], session.version))
    return row


def peak_active(session: ServerSession, pause: Callable[[float], None], looks: int = 5) -> int:
    """Return the largest number of other sessions at work at one time, from a few samples."""
    peak = 0
    for look in range(looks):
        if look:
            pause(LOOK_PAUSE_S)
        peak = max(peak, int(ask(session, "active")[0]))
    return peak
