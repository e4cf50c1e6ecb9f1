"""Runs the doctor's checks before every run: the host once a command, the server each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.clock import monotonic_ns
from pgdyno.errors import PgdynoError
from pgdyno.features.doctor.check_facts import CheckFacts, PeakActive
from pgdyno.features.doctor.examine import judged, target_line
from pgdyno.features.doctor.host_afar import HostAfar
from pgdyno.features.doctor.host_facts import Window, glance, own_pid, read_host, window_between
from pgdyno.features.doctor.server_seen import ServerSeen, ask, read_server
from pgdyno.features.doctor.session import read_only
from pgdyno.features.doctor.storage_facts import read_place
from pgdyno.measure.checkup import Checkup
from pgdyno.process import signals
from pgdyno.server.target import Target

_WINDOW_NS = 500_000_000
# The pressure of the last minute contains the previous run or the loading of data. The observer
# reads the health of disks before and after each run.
_LEFT_OUT = frozenset({"pressure", "disk_health"})


class ServerCheckup(Checkup):
    """Examines servers before their runs; created when the command starts.

    The activity on the host is measured from this moment to the first run, at least half a second.
    """

    def __init__(self) -> None:
        self._first = glance(monotonic_ns())
        self._seen: Window | None = None
        self._hosts: dict[tuple[str, str, int | None], CheckFacts] = {}
        self._last: tuple[str, CheckFacts] | None = None

    def document(
        self,
        target: Target,
        *,
        clients: int,
        postmaster_pid: int | None,
        data_folder: Path | None,
        host_command: tuple[str, ...] | None = None,
    ) -> dict[str, Any] | None:
        """Return the examination before a run, `pgdyno.doctor/1`; None if the server is down.

        Args: clients, of the load; postmaster_pid and data_folder, None if the server is on another
        host; host_command, which runs a shell on that host.
        """
        try:
            with read_only(target, "doctor") as (session, reached):
                seen = read_server(session)
                others = int(ask(session, "active")[0])
                facts = CheckFacts(
                    server=seen,
                    others_active=others,
                    peak=PeakActive(max(clients, others), "this load"),
                )
                if postmaster_pid is not None:
                    key = (target.host, target.ports, postmaster_pid)
                    if key not in self._hosts:
                        self._hosts[key] = _host(postmaster_pid, data_folder)
                    here = self._hosts[key]
                    assert here.host is not None, "the host was read"
                    facts = replace(
                        here.with_server_of(facts), host=replace(here.host, window=self._window())
                    )
                elif host_command is not None:
                    afar = self._afar(target, host_command, session.backend_pid, seen)
                    facts = afar.with_server_of(facts)
                self._last = target_line(reached, seen), facts
                return _document(*self._last)
        except PgdynoError:
            self._last = None
            return None  # The run itself will report the server's error.

    def disks(self, target: Target) -> tuple[str, ...]:
        """Return the disks with the data and the WAL of a server on another host."""
        facts = self._hosts.get((target.host, target.ports, None), CheckFacts())
        return tuple(disk.name for disk in facts.disks())

    def _afar(
        self, target: Target, command: tuple[str, ...], backend_pid: int, seen: ServerSeen
    ) -> CheckFacts:
        """Return the facts about another host, which is examined once a command."""
        key = (target.host, target.ports, None)
        if key not in self._hosts:
            afar = HostAfar(command, backend_pid, seen.data_folder)
            signals.sleep(_WINDOW_NS / 1e9)
            self._hosts[key] = afar.told(CheckFacts())
        return self._hosts[key]

    def _window(self) -> Window | None:
        """Return the activity since the command started, None if this was too short ago."""
        if self._seen is None:
            last = glance(monotonic_ns())
            if last.time_ns - self._first.time_ns >= _WINDOW_NS:
                self._seen = window_between(self._first, last, own_pid=own_pid())
        return self._seen


def _document(line: str, facts: CheckFacts) -> dict[str, Any]:
    examined = judged(line, facts)
    kept = tuple(finding for finding in examined.findings if finding.id not in _LEFT_OUT)
    return replace(examined, findings=kept).as_document()


def _host(postmaster_pid: int, folder: Path | None) -> CheckFacts:
    host = read_host(pid=postmaster_pid)
    return CheckFacts(
        host=host,
        data=read_place("data", folder) if folder else None,
        wal=read_place("WAL", folder / "pg_wal") if folder else None,
        ram_bytes=host.memory.get("total_bytes"),
        postmaster_pid=postmaster_pid,
    )
