"""A server of the user's own, changed at the narrowest level that works, and put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdyno.errors import RefusedError, SpecError
from pgdyno.measure.beds import Beds
from pgdyno.measure.changes import SystemChanges
from pgdyno.measure.under_test import (
    Conditions,
    UnderTest,
)
from pgdyno.server import facts as server_facts
from pgdyno.server import settings as server_settings
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.system_settings import SystemSettings
from pgdyno.server.target import Target
from pgdyno.spec.experiment import Experiment, Variant


class ForeignBeds(Beds):
    """A server of the user's own, changed at the narrowest level that works.

    What a session may change is given to the load's sessions alone. The rest is changed for the
    whole server by the `admin` role or the user's commands, journaled first and undone.
    """

    def __init__(
        self, experiment: Experiment, conditions: Conditions, under_test: UnderTest
    ) -> None:
        super().__init__()
        self._experiment = experiment
        self._variants = experiment.all_variants()
        self._under_test = under_test
        wanted = {name.lower() for v in self._variants for name in self._settings_of(v)}
        is_superuser = bool(under_test.facts.rights.get("superuser"))
        own = {"user", "superuser"} if is_superuser else {"user"}
        with under_test.control() as connection:
            contexts = server_settings.contexts(connection, wanted)
        self._refuse_what_cannot_be(wanted, contexts, conditions)
        self._system_names = frozenset(n for n in wanted if contexts[n] not in own)
        restarts = any(contexts[name] == "postmaster" for name in self._system_names)
        self._changes = self._changes_of(restarts=restarts) if self._system_names else None

    def ready(self, variant: int | None) -> UnderTest:
        """Return the server as the variant's sessions see it; read back in a new session."""
        assert variant is not None, "every run of such an experiment is of a variant"
        settings = self._settings_of(self._variants[variant])
        system = {n: v for n, v in settings.items() if n.lower() in self._system_names}
        target = self._target_of({n: v for n, v in settings.items() if n not in system})
        if self._changes is not None:
            self._changes.apply(system, target, self.journal)
        with connect(target, verb=self._under_test.verb) as connection:
            server_settings.require(connection, settings)
            facts = server_facts.collect(connection, target)
        return replace(self._under_test, target=target, facts=facts)

    def close(self) -> None:
        """Put the server's settings back as they were."""
        if self._changes is not None:
            self._changes.undo(self.journal)

    def _settings_of(self, variant: Variant) -> dict[str, str]:
        return {**self._experiment.server.settings, **variant.settings}

    def _target_of(self, settings: Mapping[str, str]) -> Target:
        target = self._under_test.target
        given = "".join(f" -c {name}={_escaped(value)}" for name, value in settings.items())
        return replace(target, options=(target.options + given).strip())

    def _changes_of(self, *, restarts: bool) -> SystemChanges:
        server = self._experiment.server
        names = ", ".join(sorted(self._system_names))
        if restarts and server.restart_command is None and server.apply_command is None:
            raise RefusedError(
                f"{names}: at least one of these needs a restart of {self._under_test.facts.host}.",
                hint="give --restart-command, or --apply-command if that restarts it",
            )
        if server.admin is None and server.apply_command is None:
            raise RefusedError(
                f"{names} would be changed for all of {self._under_test.facts.host}.",
                hint="name the role that may do that with --admin CONNINFO, or --apply-command",
            )
        admin = self._under_test.target
        if server.admin is not None:
            admin = resolve(conninfo=server.admin).target
            self._require_same_server(admin)
        system = SystemSettings(
            admin, self._under_test.verb, server.apply_command, server.restart_command
        )
        return SystemChanges(system, self._system_names, restarts)

    def _require_same_server(self, admin: Target) -> None:
        """Raise RefusedError unless `admin` leads to the server under test, not to another."""
        with self._under_test.control() as connection:
            ours = connection.execute(_STARTED).fetchone()
        with connect(admin, verb=self._under_test.verb) as connection:
            theirs = connection.execute(_STARTED).fetchone()
        if ours != theirs:
            raise RefusedError(
                f"--admin leads to {admin.place}, which is another server than"
                f" {self._under_test.target.place}: they were not started at the same time.",
                hint="name the server under test in --admin",
            )

    def _refuse_what_cannot_be(
        self, wanted: set[str], contexts: Mapping[str, str], conditions: Conditions
    ) -> None:
        for variant in self._variants:
            others = {*variant.changes()} - {*variant.settings, "script", "clients", "protocol"}
            if others:
                raise SpecError(
                    f"Variant {variant.name!r} changes {', '.join(sorted(others))}, which is not"
                    " possible on a server that pgdyno did not start.",
                    hint="compare on a scratch server (--scratch)",
                )
            risks = [f"{n} = off" for n in WEAKENING if _is_off(self._settings_of(variant).get(n))]
            if risks and not conditions.permissions.allow_durability_risk:
                raise RefusedError(
                    f"{variant.name!r} sets {', '.join(risks)}: acknowledged commits can be lost"
                    " at a crash.",
                    hint="remove it, or add --allow-risk durability",
                )
        for name in sorted(wanted):
            if contexts.get(name, "internal") == "internal":
                raise SpecError(
                    f"{name} cannot be set on PostgreSQL {self._under_test.facts.version}.",
                    hint="SHOW ALL lists the settings there are",
                )


# To the microsecond: no two servers share it, and every role may ask.
_STARTED = "SELECT extract(epoch FROM pg_postmaster_start_time())"
WEAKENING = ("fsync", "full_page_writes", "synchronous_commit")


def _is_off(value: str | None) -> bool:
    return value is not None and value.lower() in ("off", "false", "no", "0", "f", "n")


def _escaped(value: str) -> str:
    """Return a value as it stands in start-up options: blanks and backslashes escaped."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
