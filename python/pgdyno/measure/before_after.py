"""What is read from the server before and after one run.

This is: counters, settings, round trips, clocks, the health of disks, the doctor's findings.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.clock import ClockPair
from pgdyno.engine.job import Job, LoadWork
from pgdyno.errors import PgdynoError
from pgdyno.measure.checkup import Checkup
from pgdyno.measure.clock_watch import ClockWatch
from pgdyno.measure.under_test import UnderTest
from pgdyno.observe.device.health import Health, HealthUnknown, read_health, slowed_by_heat
from pgdyno.observe.observer import Observer
from pgdyno.observe.remote.processes import read_health_afar
from pgdyno.observe.round_trips import RoundTrips, ServerClock, measure
from pgdyno.observe.settings_seen import SettingsSeen, changes, read_settings_seen
from pgdyno.observe.totals import Totals, read_totals
from pgdyno.process import signals
from pgdyno.server.connect import connect, took_too_long
from pgdyno.server.target import Target


class BeforeAfter:
    """Looks at a server before and after a run, for a moment each; its errors never end a run."""

    def __init__(self, under_test: UnderTest, clock: ClockPair, name: str) -> None:
        self._under_test, self._clock, self._name = under_test, clock, name
        self._disks = _disks(under_test)
        self._health, self._health_unknown = _healths(self._disks, None)
        self._settings, self._trips = self._look()
        signals.insist()
        self._clock_watch = ClockWatch(clock)
        self.notices: list[dict[str, Any]] = []

    def look_at_clock(self) -> None:
        """Note whether this host's wall clock was set; call it often while the run lasts."""
        self._clock_watch.look()

    def doctor(self, checkup: Checkup, clients: int) -> dict[str, Any] | None:
        """Return the doctor's document about the present server."""
        facts = self._under_test.facts
        folder = facts.settings.get("data_directory")
        target = self._under_test.direct or self._under_test.target
        command = self._under_test.host_command
        findings = checkup.document(
            target,
            clients=clients,
            postmaster_pid=facts.postmaster_pid if facts.is_local else None,
            data_folder=Path(folder) if folder and facts.is_local else None,
            host_command=command,
        )
        if command is not None:
            disks = checkup.disks(target)
            self._disks = tuple(name for name in disks if name.startswith("nvme"))
            self._health, self._health_unknown = _healths(self._disks, command)
        return findings

    def document(self, observer: Observer) -> dict[str, Any]:
        """Look again, and return the results of both looks as keys of server.json.

        Afterwards `notices` has the notices about the run.
        """
        settings, trips = self._look()
        notice = self._clock_watch.notice(_clock_of(self._trips), _clock_of(trips))
        self.notices += [notice] if notice is not None else []
        known = self._settings is not None and settings is not None
        # Disks that did not answer before the run are not asked again.
        health, _ = _healths(tuple(self._health), self._under_test.host_command)
        return {
            "settings_changed": [
                change.as_document() for change in changes(self._settings or {}, settings or {})
            ]
            if known
            else None,
            "round_trips": {
                "before": self._trips.as_document() if self._trips else None,
                "after": trips.as_document() if trips else None,
            },
            "host_clock": _host_clock(observer),
            "samples_with_priority": observer.samples_with_priority,
            "disks": {name: self._disk(name, health) for name in self._disks},
        }

    @property
    def ahead_ns(self) -> int:
        """Return how far the server's clock is ahead of the experiment's; 0 if not known."""
        clock = _clock_of(self._trips)
        return clock.ahead_ns if clock is not None else 0

    def _disk(self, name: str, after: dict[str, Health]) -> dict[str, Any]:
        if name not in self._health or name not in after:
            return {"unknown": self._health_unknown.get(name, "It no longer answers.")}
        return {
            "before": asdict(self._health[name]),
            "after": asdict(after[name]),
            "slowed_by_heat": slowed_by_heat(self._health[name], after[name]),
        }

    def _look(self) -> tuple[SettingsSeen | None, RoundTrips | None]:
        """Return settings and round trips; None if the server no longer answers."""
        here = self._under_test
        # If possible, not in the load's database, because there it counts as work of the load.
        path = here.target if here.direct is not None else here.observe
        try:
            with connect(
                here.observe, verb=here.verb, run=self._name, patient=True, read_only=True
            ) as connection:
                settings = read_settings_seen(connection)
            with connect(
                path, verb=here.verb, run=self._name, patient=True, read_only=True
            ) as connection:
                return settings, measure(connection, self._clock)
        except (psycopg.Error, PgdynoError, OSError):
            return None, None


def _clock_of(trips: RoundTrips | None) -> ServerClock | None:
    return trips.clock if trips is not None else None


def _host_clock(observer: Observer) -> dict[str, Any] | None:
    host = observer.host
    if host is None or not host.offset.answers:
        return None
    return {
        "host": host.host,
        "ahead_ns": host.offset.offset_ns,
        "uncertainty_ns": host.offset.uncertainty_ns,
    }


def _disks(under_test: UnderTest) -> tuple[str, ...]:
    """Return the NVMe disks of data and WAL; nothing if the server is on another host."""
    facts = under_test.facts
    if not facts.is_local:
        return ()
    places = (facts.data_storage, facts.wal_storage)
    names = (name for place in places if place is not None for name in place.disks)
    return tuple(dict.fromkeys(name for name in names if name.startswith("nvme")))


def _healths(
    disks: tuple[str, ...], command: tuple[str, ...] | None
) -> tuple[dict[str, Health], dict[str, str]]:
    """Return disk -> its health, and disk -> the reason why its health is not known.

    Args: command, runs a shell on the disks' host; None if that is this host.
    """
    healths: dict[str, Health] = {}
    unknown: dict[str, str] = {}
    if command is not None:
        told = read_health_afar(command, disks) if disks else {}
        healths = {name: health for name, health in told.items() if isinstance(health, Health)}
        return healths, {name: reason for name, reason in told.items() if isinstance(reason, str)}
    for name in disks:
        try:
            healths[name] = read_health(name)
        except HealthUnknown as error:
            unknown[name] = str(error)
    return healths, unknown


# A server that ends thousands of sessions may accept no connection for longer than the timeout.
_TRIES_AFTER = 6
_ENDING_S = 5.0
_ENDING_S_PER_SESSION = 0.01
# A session whose process hangs does not end, and who asked for the end waits.
_ENDING_S_AFTER_SIGNAL = 0.5


def totals_after(under_test: UnderTest, job: Job, name: str) -> Totals | None:
    """Return the server's counters after the load, when its sessions have ended.

    Returns: None if the server no longer answers.
    """
    work = job.work
    assert isinstance(work, LoadWork)
    sessions = work.arrivals.clients + work.connect.idle_connections
    timeout_s = _ENDING_S + sessions * _ENDING_S_PER_SESSION
    if signals.requested() is not None:
        timeout_s = _ENDING_S_AFTER_SIGNAL
    return totals(under_test, name, timeout_s=timeout_s, tries_count=_TRIES_AFTER)


def _end_pooled_sessions(console: Target, verb: str, name: str) -> None:
    """Let our own pooler end its sessions on the server; they report their work when they end."""
    try:
        with connect(console, verb=verb, run=name, console=True) as connection:
            connection.execute(b"RECONNECT")
    except (psycopg.Error, PgdynoError):
        return  # They stay, and the totals say that they are not exact.


def totals(
    under_test: UnderTest,
    name: str,
    *,
    timeout_s: float = _ENDING_S,
    tries_count: int = 1,
) -> Totals | None:
    """Return the server's counters; None if the server no longer answers.

    Args: timeout_s, how long to wait for the end of the load's sessions; tries_count, how often to
    try to connect if a connection takes too long.
    Limits: a pooler of the user's own keeps its sessions, so there is no wait for their end.
    """
    if under_test.is_pooled:
        timeout_s = 0.0
    elif under_test.pooler is not None:
        _end_pooled_sessions(under_test.pooler, under_test.verb, name)
    for tries_left in reversed(range(tries_count)):
        try:
            observe, verb = under_test.observe, under_test.verb
            with connect(observe, verb=verb, run=name, patient=True) as connection:
                return read_totals(
                    connection,
                    database=under_test.database,
                    load_application_name=under_test.application_name(name),
                    timeout_s=timeout_s,
                )
        except (psycopg.Error, PgdynoError) as error:
            if not (tries_left and took_too_long(error)):
                return None
    return None
