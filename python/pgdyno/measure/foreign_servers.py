"""The user's own servers, changed at the narrowest level that works, and restored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.errors import PgdynoError, RefusedError, ServerError, SpecError
from pgdyno.measure.changes import SystemChanges
from pgdyno.measure.own_server import reached
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import UnderTest
from pgdyno.quantities import format_bytes, is_whole
from pgdyno.server import configuration, server_facts
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.system_settings import SystemSettings, answers, is_writable
from pgdyno.server.target import Target
from pgdyno.spec.experiment import Server
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.units import size_bytes
from pgdyno.spec.variant import COMMANDS, Variant

# What a variant may change there in addition to settings: the load, or its path to the server.
_OF_THE_LOAD = frozenset({"script", "clients", "idle", "active", "protocol", "dsn"})


@dataclass(frozen=True, slots=True)
class _Means:
    """The role or commands that change a variant's server, from the variant or the experiment.

    `are_shared`: the commands are the experiment's, which do not name a server.
    """

    admin: str | None
    apply_command: str | None
    restart_command: str | None
    recover_command: str | None
    are_shared: bool

    @classmethod
    def of(cls, variant: Variant, server: Server) -> _Means:
        """Return the role or commands of a variant."""
        own = [getattr(variant, name) for name in COMMANDS]
        shared = [getattr(server, name) for name in COMMANDS]
        apply, restart, recover = own if any(own) else shared
        return cls(
            admin=variant.admin or server.admin,
            apply_command=apply,
            restart_command=restart,
            recover_command=recover,
            are_shared=not any(own) and any(shared),
        )

    @property
    def commands(self) -> tuple[str | None, str | None, str | None]:
        """Return the three commands."""
        return self.apply_command, self.restart_command, self.recover_command


@dataclass(frozen=True, slots=True)
class _Place:
    """One server, reached with one connection string, and the object that changes its settings."""

    under_test: UnderTest
    system_names: frozenset[str]
    changes: SystemChanges | None


class ForeignServers(Servers):
    """The user's own servers, changed at the narrowest level that works.

    Settings that a session may change are set only in the load's sessions. The rest is changed for
    the whole server by the `admin` role or the user's commands, journaled first and undone.
    A variant with a `dsn` is on another server, or reaches the same server in another way.
    """

    def __init__(self, setup: Setup, under_test: UnderTest) -> None:
        super().__init__()
        self._experiment = experiment = setup.experiment
        self._under_test = under_test
        self._allows_risk = setup.permissions.allow_durability_risk
        variants = self._variants = list(experiment.all_variants())
        self._known = {variant.id for variant in experiment.planned_variants()}
        # A setting that a later variant changes may need a restart: then every run gets one.
        self._wanted = {name.lower() for own in variants for name in self._settings_of(own)}
        self._wanted |= {name.lower() for name in experiment.design.settings_searched()}
        self._changed: dict[str, tuple[SystemChanges, _Means]] = {}
        self._places: dict[tuple[str | None, _Means], _Place] = {}
        for variant in variants:
            self._refuse_what_cannot_be(variant)
        for variant in variants:
            key = self._key(variant)
            if key not in self._places:
                own = under_test
                if variant.dsn is not None:
                    own_target = resolve(conninfo=variant.dsn).target
                    own = reached(setup, own_target, dsn=variant.dsn)
                self._places[key] = self._place(own, variant)

    def ready(
        self,
        variant: PlannedVariant | None,
        round_number: int = 0,  # noqa: ARG002
        *,
        restarts: bool = False,
    ) -> UnderTest:
        """Return the server with the variant's settings, which a new session confirmed."""
        assert variant is not None, "every run of such an experiment is of a variant"
        if variant.id not in self._known:
            self._admit(variant.spec)
            self._known.add(variant.id)
        place = self._places[self._key(variant.spec)]
        settings = self._settings_of(variant.spec)
        system = {n: v for n, v in settings.items() if n.lower() in place.system_names}
        own = {n: v for n, v in settings.items() if n not in system}
        target = place.under_test.target.with_settings(own)
        if place.changes is not None:
            is_restart = place.changes.is_restart(system, is_asked=restarts)
            with self.spent.on("restart" if is_restart else "reload"):
                place.changes.apply(system, target, self.journal, is_restart=is_restart)
        with connect(target, verb=place.under_test.verb, patient=True) as connection:
            configuration.require(connection, settings)
            kind = KINDS[place.under_test.facts.dataset.kind]
            roles = [place.under_test.observe.user]
            facts = server_facts.collect(connection, target, kind, own_roles=roles)
        return replace(place.under_test, target=target, facts=facts)

    def are_lost(self) -> bool:
        """Return whether none of the servers answers; one that is starting is waited for."""
        return not any(
            answers(place.under_test.target, place.under_test.verb)
            for place in self._places.values()
        )

    def close(self) -> None:
        """Restore the settings of each server separately.

        Raises: the first error, after all were tried.
        """
        errors: list[PgdynoError] = []
        for changes, _ in self._changed.values():
            try:
                changes.undo(self.journal)
            except PgdynoError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _admit(self, variant: Variant) -> None:
        """Prepare a variant that the design created while the experiment runs.

        Limits: it must be on the server of the spec, or on one that a variant of the spec is on.
        Raises: ServerError if the variant is not possible or not allowed: the others go on.
        """
        variants, wanted = list(self._variants), set(self._wanted)
        try:
            self._include(variant)
        except (SpecError, RefusedError) as error:
            self._variants, self._wanted = variants, wanted
            raise ServerError(error.message, hint=error.hint) from error

    def _include(self, variant: Variant) -> None:
        self._refuse_what_cannot_be(variant)
        key = self._key(variant)
        is_known = key in self._places
        assert is_known or variant.dsn is None, f"{variant.name} is on a server that is not opened"
        under_test = self._places[key].under_test if is_known else self._under_test
        self._variants.append(variant)
        self._wanted |= {name.lower() for name in self._settings_of(variant)}
        self._places[key] = self._place(under_test, variant)

    def _key(self, variant: Variant) -> tuple[str | None, _Means]:
        return variant.dsn, _Means.of(variant, self._experiment.server)

    def _settings_of(self, variant: Variant) -> dict[str, str]:
        return {**self._experiment.server.settings, **variant.settings}

    def _place(self, under_test: UnderTest, variant: Variant) -> _Place:
        is_superuser = bool(under_test.facts.rights.get("superuser"))
        own = {"user", "superuser"} if is_superuser else {"user"}
        with under_test.control() as connection:
            contexts = configuration.contexts(connection, self._wanted)
        for name in sorted(self._wanted):
            if contexts.get(name, "internal") == "internal":
                raise SpecError(
                    f"{name} cannot be set on PostgreSQL {under_test.facts.version}.",
                    hint="SHOW ALL lists the settings",
                )
        names = frozenset(n for n in self._wanted if contexts[n] not in own)
        if not names:
            return _Place(under_test, names, None)
        restarting = frozenset(name for name in names if contexts[name] == "postmaster")
        restarts = bool(restarting)
        means = _Means.of(variant, self._experiment.server)
        before = self._places.get(self._key(variant))
        if before is not None and before.changes is not None:
            _require_means(means, under_test, names, restarts=restarts)
            if restarts:
                self._refuse_what_may_not_start(before.changes.system, under_test, names)
            before.changes.include(names, restarting)
            return _Place(under_test, names, before.changes)
        changes = self._changes_of(under_test, names, means, restarting)
        return _Place(under_test, names, changes)

    def _changes_of(
        self,
        under_test: UnderTest,
        names: frozenset[str],
        means: _Means,
        restarting: frozenset[str],
    ) -> SystemChanges:
        """Return the object that changes the whole server: one for all paths to this server."""
        restarts = bool(restarting)
        _require_means(means, under_test, names, restarts=restarts)
        data_dir = _data_dir(under_test)
        with under_test.control() as connection:
            started = str(connection.execute(_STARTED).fetchone())
        if started in self._changed:
            known, first = self._changed[started]
            if first.commands != means.commands:
                raise SpecError(
                    f"Two variants name different commands for {under_test.target.place}.",
                    hint=f"give all its variants the same {', '.join(COMMANDS)}",
                )
            return known
        if means.are_shared and any(other.are_shared for _, other in self._changed.values()):
            raise SpecError(
                "apply_command, restart_command and recover_command do not know their server, "
                "and the variants change several servers.",
                hint=(
                    "give the variants of each server, or the level of its factor, their own "
                    "commands"
                ),
            )
        target = under_test.target
        if means.admin is not None:
            target = resolve(conninfo=means.admin).target
            _require_same_server(under_test, target, started)
        system = SystemSettings(
            target,
            under_test.verb,
            *means.commands,
            data_dir=data_dir,
            command_timeout_s=self._experiment.server.command_timeout_s,
        )
        if restarts:
            self._refuse_what_may_not_start(system, under_test, names)
        of_spec = {name.lower() for own in self._variants for name in self._settings_of(own)}
        each_run = not restarting.isdisjoint(of_spec)
        changes = SystemChanges(system, names, restarting, restarts_each_run=each_run)
        self._changed[started] = changes, means
        return self._changed[started][0]

    def _refuse_what_may_not_start(
        self, system: SystemSettings, under_test: UnderTest, names: frozenset[str]
    ) -> None:
        """Refuse a restart that could not be undone, and values that prevent a start."""
        facts = under_test.facts
        if not system.can_start_again:
            raise RefusedError(
                f"{', '.join(sorted(names))}: {facts.host} must be restarted. If it does not "
                "start with a variant's value, pgdyno cannot restore the value.",
                hint=(
                    "add --recover-command CMD, which gets the previous settings as JSON on "
                    "standard input and starts the server with them"
                ),
            )
        for variant in self._variants:
            settings = {name.lower(): v for name, v in self._settings_of(variant).items()}
            asked = settings.get("shared_buffers", "")
            needed = _bytes_of_buffers(asked)
            if needed is not None and facts.ram_bytes and needed > facts.ram_bytes:
                raise RefusedError(
                    f"Variant {variant.name!r}: shared_buffers={asked} exceeds the memory of "
                    f"{facts.host} ({format_bytes(facts.ram_bytes)}), so the "
                    "server would not start.",
                    hint="use a smaller value",
                )

    def _refuse_what_cannot_be(self, variant: Variant) -> None:
        others = {*variant.changes()} - {*variant.settings} - _OF_THE_LOAD
        if others:
            raise SpecError(
                f"Variant {variant.name!r} changes {', '.join(sorted(others))}, which needs "
                "a server that pgdyno started.",
                hint="compare on a scratch server (--scratch)",
            )
        risks = [f"{n} = off" for n in WEAKENING if _is_off(self._settings_of(variant).get(n))]
        if risks and not self._allows_risk:
            raise RefusedError(
                f"{variant.name!r} sets {', '.join(risks)}: a crash may lose acknowledged commits.",
                hint="remove it, or add --allow-risk durability",
            )


def _require_means(
    means: _Means, under_test: UnderTest, names: frozenset[str], *, restarts: bool
) -> None:
    """Raise RefusedError unless the user named a role or commands that may change the server."""
    listed, host = ", ".join(sorted(names)), under_test.facts.host
    if restarts and means.restart_command is None and means.apply_command is None:
        raise RefusedError(
            f"{listed}: at least one of these needs a restart of {host}.",
            hint="add --restart-command, or --apply-command if that command restarts the server",
        )
    if means.admin is None and means.apply_command is None:
        raise RefusedError(
            f"{listed} would change for all users of {host}.",
            hint="name the role that may do this with --admin CONNINFO, or use --apply-command",
        )


def _data_dir(under_test: UnderTest) -> Path | None:
    """Return the server's data directory if its files can be written, else None."""
    storage = under_test.facts.data_storage
    path = Path(storage.path) if under_test.facts.is_local and storage is not None else None
    return path if is_writable(path) else None


def _bytes_of_buffers(text: str) -> int | None:
    """Return a size as postgresql.conf has it, in bytes; a bare number counts pages of 8 kB."""
    try:
        return int(text) * 8192 if is_whole(text.strip()) else size_bytes(text)
    except SpecError:
        return None


def _require_same_server(under_test: UnderTest, admin: Target, started: str) -> None:
    """Raise RefusedError unless `admin` leads to the server under test, not to another."""
    with connect(admin, verb=under_test.verb) as connection:
        theirs = str(connection.execute(_STARTED).fetchone())
    if started != theirs:
        raise RefusedError(
            f"--admin leads to {admin.place}, which is another server than "
            f"{under_test.target.place}: their start times differ.",
            hint="name the server under test in --admin",
        )


# The start time in microseconds identifies a server, and every role may read it.
_STARTED = "SELECT extract(epoch FROM pg_postmaster_start_time())"
WEAKENING = ("fsync", "full_page_writes", "synchronous_commit")


def _is_off(value: str | None) -> bool:
    return value is not None and value.lower() in ("off", "false", "no", "0", "f", "n")
