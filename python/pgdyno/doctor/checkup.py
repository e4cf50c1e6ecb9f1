"""The doctor's look before every run: the host once a command, the server each time, no waiting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.clock import monotonic_ns
from pgdyno.doctor.examine import judged, target_line
from pgdyno.doctor.facts import Facts, PeakActive
from pgdyno.doctor.host_facts import Window, glance, own_pid, read_host, window_between
from pgdyno.doctor.server_seen import ask, read_server
from pgdyno.doctor.session import read_only
from pgdyno.doctor.storage_facts import read_place
from pgdyno.errors import PgdynoError
from pgdyno.server.target import Target

_WINDOW_NS = 500_000_000
# Loading the data and the run before are in the last minute's pressure.
_OUR_OWN_DOING = frozenset({"pressure"})


class Checkup:
    """Examines servers before their runs; made when the command begins.

    What went on at the host is seen between that moment and the first run half a second later.
    """

    def __init__(self) -> None:
        self._first = glance(monotonic_ns())
        self._seen: Window | None = None
        self._hosts: dict[tuple[str, str, int | None], Facts] = {}

    def document(
        self, target: Target, *, clients: int, postmaster_pid: int | None, data_folder: Path | None
    ) -> dict[str, Any] | None:
        """Return what is kept of a run, `pgdyno.doctor/1`; None when the server does not answer.

        Args: clients, how many the load will have; postmaster_pid and data_folder, where the
        server is on this host.
        """
        try:
            with read_only(target, "doctor") as (session, reached):
                seen = read_server(session)
                others = int(ask(session, "active")[0])
                facts = Facts(
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
                        here,
                        server=seen,
                        others_active=others,
                        peak=facts.peak,
                        host=replace(here.host, window=self._window()),
                    )
                examined = judged(target_line(reached, seen), facts)
                kept = tuple(one for one in examined.findings if one.id not in _OUR_OWN_DOING)
                return replace(examined, findings=kept).as_document()
        except PgdynoError:
            return None  # The run itself will say what is wrong with the server.

    def _window(self) -> Window | None:
        """Return what went on since the command began, once that is long enough to tell."""
        if self._seen is None:
            last = glance(monotonic_ns())
            if last.time_ns - self._first.time_ns >= _WINDOW_NS:
                self._seen = window_between(self._first, last, own_pid=own_pid())
        return self._seen


def _host(postmaster_pid: int, folder: Path | None) -> Facts:
    host = read_host(pid=postmaster_pid)
    return Facts(
        host=host,
        data=read_place("data", folder) if folder else None,
        wal=read_place("WAL", folder / "pg_wal") if folder else None,
        ram_bytes=host.memory.get("total_bytes"),
        postmaster_pid=postmaster_pid,
    )
