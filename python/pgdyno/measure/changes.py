"""The journal of changes on servers that pgdyno did not start, and its undoing.

An entry with the previous state is on the disk before anything is changed; "undone" follows when
it is as it was again. What has no such end is undone by `pgdyno undo`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pgdyno.errors import ServerError
from pgdyno.process import cleanup, signals
from pgdyno.server.system_settings import SystemSettings
from pgdyno.server.target import Target
from pgdyno.store.folder import ExperimentFolder

Journal = Callable[[Mapping[str, Any]], None]


class SystemChanges:
    """Settings changed for a whole server during one experiment, undone on every way out."""

    def __init__(self, system: SystemSettings, names: frozenset[str], restarts: bool) -> None:
        """Change nothing yet. Args: names, all that any variant changes for the whole server."""
        self._system = system
        self._names = names
        self._restarts = restarts
        self._previous: dict[str, str | None] | None = None
        self._token = 0

    def apply(self, wanted: Mapping[str, str], target: Target, journal: Journal) -> None:
        """Make the server have the variant's settings, and what it does not set as it was.

        Raises: ServerError when they do not hold in a new session of `target`.
        """
        if self._previous is None:
            previous = self._system.entries(self._names)
            journal(_entry(self._system, previous, restarts=self._restarts))
            self._previous = previous
            place = self._system.admin.place
            self._token = cleanup.register(f"settings of {place}", lambda: self.undo(journal))
        chosen = {**self._previous, **{name.lower(): value for name, value in wanted.items()}}
        try:
            self._system.apply(chosen, needs_restart=self._restarts)
            self._system.require(target, wanted)
        except ServerError as error:
            if self._system.recover(self._previous, target):
                error.message += " It was brought back by the recover command."
            raise

    def undo(self, journal: Journal) -> None:
        """Put everything back as it was; a signal meanwhile does not cut this short."""
        if self._previous is None:
            return
        with signals.shielded():
            _put_back(self._system, self._previous, restarts=self._restarts)
            journal(_undone(self._system.admin.as_document(), self._previous))
            self._previous = None
            cleanup.forget(self._token)


def outstanding(folder: ExperimentFolder) -> list[dict[str, Any]]:
    """Return the changes of an experiment that were never undone, the newest first."""
    found: list[dict[str, Any]] = []
    for entry in folder.audit():
        if entry.get("change") == "settings":
            found.append(entry)
        elif entry.get("change") == "undone" and found:
            # Several servers are put back in any order. Older journals do not say which it was.
            of_server = [one for one in found if one["admin"] == entry.get("admin", one["admin"])]
            found.remove(of_server[-1])
    return found[::-1]


def undo_outstanding(
    folder: ExperimentFolder, reach: Callable[[Mapping[str, str]], Target]
) -> list[str]:
    """Put back what a killed experiment left; return the names of the settings.

    Args: reach, from the place an entry names to where and as whom to connect.
    Raises: ServerError when the server refuses; what was put back until then is in the journal.
    """
    names: list[str] = []
    for entry in outstanding(folder):
        system = SystemSettings(
            admin=reach(entry["admin"]),
            verb="undo",
            apply_command=entry.get("apply_command"),
            restart_command=entry.get("restart_command"),
            recover_command=entry.get("recover_command"),
        )
        previous = dict(entry["previous"])
        with signals.shielded():
            _put_back(system, previous, restarts=bool(entry["restarts"]))
            folder.add_audit(_undone(entry["admin"], previous))
        names += sorted(previous)
    return names


def _put_back(
    system: SystemSettings, previous: Mapping[str, str | None], *, restarts: bool
) -> None:
    system.recover(previous, system.admin)
    system.apply(previous, needs_restart=restarts)
    system.require_entries(previous)


def _entry(
    system: SystemSettings, previous: Mapping[str, str | None], *, restarts: bool
) -> dict[str, Any]:
    return {
        "change": "settings",
        "admin": system.admin.as_document(),
        "apply_command": system.apply_command,
        "restart_command": system.restart_command,
        "recover_command": system.recover_command,
        "restarts": restarts,
        "previous": dict(previous),
    }


def _undone(admin: Mapping[str, Any], previous: Mapping[str, str | None]) -> dict[str, Any]:
    return {"change": "undone", "admin": dict(admin), "names": sorted(previous)}


def reached_again(place: Mapping[str, str], given: Target) -> Target:
    """Return `given`, which must be the server that `place` names, in that role's place.

    Raises: ServerError if it is another server.
    """
    same = given.host == place["host"] and given.ports == place["port"]
    if not same:
        raise ServerError(
            f"The changes were made on {place['host']}:{place['port']}, not on {given.place}.",
            hint="name that server",
        )
    return replace(given, database=place["database"])
