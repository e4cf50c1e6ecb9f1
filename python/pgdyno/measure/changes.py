"""The journal of changes on servers that pgdyno did not start, and its undoing.

Before a change, an entry with the previous state is on the disk. After the previous state is back,
the entry "undone" follows. `pgdyno undo` undoes changes without this entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pgdyno.errors import InterruptedByUser, PgdynoError, RefusedError, ServerError
from pgdyno.process import cleanup, signals
from pgdyno.redaction import redacted
from pgdyno.server.system_settings import SystemSettings
from pgdyno.server.target import Target
from pgdyno.server.user_command import COMMAND_TIMEOUT_S
from pgdyno.store.audit import AUDIT, is_foreign, lines_given_up
from pgdyno.store.folder import ExperimentFolder

Journal = Callable[[Mapping[str, Any]], None]


class SystemChanges:
    """Settings that an experiment changes for a whole server, restored on every exit path."""

    def __init__(
        self,
        system: SystemSettings,
        names: frozenset[str],
        restarting: frozenset[str],
        *,
        restarts_each_run: bool,
    ) -> None:
        """Change nothing yet.

        Args: names, the settings that variants change server-wide; restarting, those of them that
        need a restart; restarts_each_run, every change restarts the server, so that all runs begin
        in the same state.
        """
        self.system = system
        self._names = names
        self._restarting = restarting
        self._restarts_each_run = restarts_each_run
        # The values that the server was started with, of `restarting`; None: not known.
        self._started_with: dict[str, str] | None = {}
        self._previous: dict[str, str | None] | None = None
        self._values: dict[str, str] = {}
        self._journaled: list[dict[str, str | None]] = []
        self._token = 0
        self._left_down: ServerError | None = None

    @property
    def _restarts(self) -> bool:
        """Return whether any change may restart the server."""
        return bool(self._restarting)

    def include(self, names: frozenset[str], restarting: frozenset[str]) -> None:
        """Change these settings, too, from the next `apply` on."""
        self._names |= names
        self._restarting |= restarting

    def is_restart(self, wanted: Mapping[str, str], *, is_asked: bool) -> bool:
        """Return whether the server must be restarted for these values. Args: is_asked, anyway."""
        if not self._restarts:
            return False
        return self._restarts_each_run or is_asked or self._started_with != self._of_start(wanted)

    def _of_start(self, wanted: Mapping[str, str]) -> dict[str, str]:
        return {n.lower(): v for n, v in wanted.items() if n.lower() in self._restarting}

    def apply(
        self, wanted: Mapping[str, str], target: Target, journal: Journal, *, is_restart: bool
    ) -> None:
        """Give the server the variant's settings, and restore all others.

        Args: is_restart, from the method of this name.
        Raises: ServerError if a new session of `target` has other values.
        """
        if self._left_down is not None:
            raise self._left_down
        if new := self._names - (self._previous or {}).keys():
            previous = self.system.entries(new)
            _refuse_secrets(previous)
            values = self.system.values(new)
            journal(_entry(self.system, previous, values, restarts=self._restarts))
            self._journaled.append(previous)
            if self._previous is None:
                place = self.system.admin.place
                self._token = cleanup.register(f"settings of {place}", lambda: self.undo(journal))
            self._previous = {**(self._previous or {}), **previous}
            self._values = {**self._values, **values}
        assert self._previous is not None, "there is a name to change"
        chosen = {**self._previous, **{name.lower(): value for name, value in wanted.items()}}
        try:
            self.system.apply(chosen, needs_restart=is_restart)
            self._started_with = self._of_start(wanted) if is_restart else self._started_with
            self.system.require(target, wanted)
        except ServerError as error:
            self._started_with = None
            if self._restarts and self.system.is_down():
                self._bring_back(error, wanted)
            raise

    def undo(self, journal: Journal) -> None:
        """Restore everything; a signal does not interrupt this."""
        if self._previous is None:
            return
        with signals.shielded():
            try:
                self.system.put_back(self._previous, self._values, restarts=self._restarts)
            except InterruptedByUser:
                # The journal keeps them for `pgdyno undo`.
                names, self._previous = ", ".join(sorted(self._previous)), None
                cleanup.forget(self._token)
                raise ServerError(
                    "A second signal ended the command that restores settings of "
                    f"{self.system.admin.place}: {names}.",
                    hint="pgdyno undo restores them",
                ) from None
            except ServerError as error:
                if self._left_down is not None:
                    raise self._left_down from error
                raise
            for previous in self._journaled:
                journal(_ended("undone", self.system.admin.as_document(), previous))
            self._previous, self._journaled = None, []
            cleanup.forget(self._token)

    def _bring_back(self, error: ServerError, wanted: Mapping[str, str]) -> None:
        """Start the server again with its previous settings, after a variant with which it does not
        start.
        """
        assert self._previous is not None
        how = "the recover command" if self.system.recover_command else "the previous settings"
        try:
            self.system.start_again(self._previous)
        except ServerError as failed:
            listed = ", ".join(f"{name}={value}" for name, value in sorted(wanted.items()))
            error.message += (
                f" {self.system.admin.place} is DOWN since it was restarted with {listed}, and "
                f"could not be started again: {failed.message}"
            )
            error.hint = self.system.by_hand(self._previous)
            self._left_down = error
        else:
            error.message += f" With {how} it was started again."


def _refuse_secrets(previous: Mapping[str, str | None]) -> None:
    """Raise RefusedError for a secret value: the journal would not keep it, so it could be lost."""
    hidden = [name for name, value in previous.items() if value and redacted(value) != value]
    if hidden:
        raise RefusedError(
            f"{hidden[0]} contains a password in postgresql.auto.conf. The journal stores no "
            "passwords, so pgdyno could not restore the value.",
            hint="remove the setting from the variants",
        )


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of undoing one journal: server, settings, and the error if it failed."""

    place: str
    previous: Mapping[str, str | None]
    was_changed: bool = False
    error: PgdynoError | None = None


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands that replace those of a journal, and their longest time in seconds.

    `confirmed`: the servers whose settings may be restored from the journal of somebody else.
    """

    apply_command: str | None = None
    restart_command: str | None = None
    recover_command: str | None = None
    command_timeout_s: float | None = None
    confirmed: tuple[str, ...] = ()


def undo_outstanding(
    folder: ExperimentFolder,
    reach: Callable[[Mapping[str, str]], Target],
    commands: Commands | None = None,
    *,
    with_applied: bool = False,
) -> list[Undone]:
    """Restore what a killed experiment left, each journal separately; return the result of each.

    Args: reach, a function from the place in a journal to the connection's target; commands,
    instead of the journal's; with_applied, also restore the changes of `apply_for_good`.
    """
    undone = []
    for entry in folder.outstanding_changes(with_applied=with_applied):
        previous = dict(entry["previous"])
        place = place_of(entry)
        try:
            _refuse_foreign_journal(folder, entry, commands or Commands())
            system = _system_of(entry, reach(entry["admin"]), commands or Commands())
            with signals.shielded(), folder.amending(AUDIT):
                was_changed = system.put_back(
                    previous, entry.get("values") or {}, restarts=bool(entry.get("restarts"))
                )
                folder.add_audit(_ended("undone", entry["admin"], previous))
        except InterruptedByUser:
            raise
        except PgdynoError as error:
            undone.append(Undone(place, previous, error=error))
        else:
            undone.append(Undone(place, previous, was_changed))
    return undone


def _refuse_foreign_journal(
    folder: ExperimentFolder, entry: Mapping[str, Any], given: Commands
) -> None:
    """Raise RefusedError, with all that would be done, for an entry that this user did not write.

    Somebody could have written a command or another server into it.
    """
    if not is_foreign(entry):
        return
    confirmation = f"{entry['admin'].get('database', '')}@{entry['admin']['host']}"
    if confirmation in given.confirmed:
        return
    names = ("apply_command", "restart_command", "recover_command")
    commands = {name: getattr(given, name) or entry.get(name) for name in names}
    executed = [f"{name.replace('_', ' ')}: {text}" for name, text in commands.items() if text]
    raise RefusedError(
        f"Another user or another host wrote the journal {folder.folder / AUDIT}, or somebody "
        f"changed it. It would change {place_of(entry)}, database "
        f"{entry['admin'].get('database', '')}, as {entry['admin'].get('user', '')}. It would "
        f"execute {'; '.join(executed) or 'no command of yours, only ALTER SYSTEM'}.",
        hint=f"if all of this is right, add --confirm {confirmation}",
    )


def apply_for_good(
    folder: ExperimentFolder,
    system: SystemSettings,
    wanted: Mapping[str, str],
    *,
    restarts: bool,
) -> None:
    """Change settings of a server so that they stay; the journal is first, so undo can follow.

    Args: restarts, restart the server with the command of `system`, where it has one; without
    one, the values that need a restart wait for it.
    Raises: ServerError when the server refuses; the journal then still has the previous values.
    """
    names = {name.lower() for name in wanted}
    previous = system.entries(names)
    _refuse_secrets(previous)
    entry = _entry(system, previous, system.values(names), restarts=restarts)
    with signals.shielded(), folder.amending(AUDIT):
        folder.add_audit({**entry, "change": "applied"})
        system.apply({n.lower(): value for n, value in wanted.items()}, needs_restart=restarts)


def dismiss_outstanding(folder: ExperimentFolder) -> list[Undone]:
    """Note that these changes will not be undone; return them."""
    dismissed = []
    journal = folder.audit()
    with folder.amending(AUDIT):
        for entry in folder.outstanding_changes():
            previous = dict(entry["previous"])
            folder.add_audit(_ended("dismissed", entry["admin"], previous))
            dismissed.append(Undone(place_of(entry), previous))
        if journal.damaged:
            folder.add_audit(lines_given_up(journal.damaged))
    return dismissed


def place_of(entry: Mapping[str, Any]) -> str:
    """Return "host:port" of the server that a journal is about."""
    return f"{entry['admin']['host']}:{entry['admin'].get('port', '')}"


def _system_of(entry: Mapping[str, Any], admin: Target, given: Commands) -> SystemSettings:
    data_dir = entry.get("data_dir")
    return SystemSettings(
        admin=admin,
        verb="undo",
        apply_command=given.apply_command or entry.get("apply_command"),
        restart_command=given.restart_command or entry.get("restart_command"),
        recover_command=given.recover_command or entry.get("recover_command"),
        data_dir=Path(data_dir) if data_dir else None,
        command_timeout_s=given.command_timeout_s
        or float(entry.get("command_timeout_s") or COMMAND_TIMEOUT_S),
    )


def _entry(
    system: SystemSettings,
    previous: Mapping[str, str | None],
    values: Mapping[str, str],
    *,
    restarts: bool,
) -> dict[str, Any]:
    return {
        "change": "settings",
        "admin": system.admin.as_document(),
        "apply_command": system.apply_command,
        "restart_command": system.restart_command,
        "recover_command": system.recover_command,
        "command_timeout_s": system.command_timeout_s,
        "data_dir": str(system.data_dir) if system.data_dir else None,
        "restarts": restarts,
        "previous": dict(previous),
        "values": dict(values),
    }


def _ended(
    how: Literal["undone", "dismissed"], admin: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    return {"change": how, "admin": dict(admin), "names": sorted(names)}


def reached_again(place: Mapping[str, str], given: Target) -> Target:
    """Return `given`, after a check that it is the server that `place` names.

    Raises: ServerError if it is another server.
    """
    same = given.host == place["host"] and given.ports == place["port"]
    if not same:
        raise ServerError(
            f"The changes were made on {place['host']}:{place['port']}, not on {given.place}.",
            hint="name that server with --admin",
        )
    return replace(given, database=place["database"])
