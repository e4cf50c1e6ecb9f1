"""The facts of a server's host from afar, by the host collector; its disks are not among them."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.doctor.facts import Facts
from pgdyno.doctor.host_facts import Glance, glance, own_pid, read_host, window_between
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.processes.backends import postgres_parent
from pgdyno.observe.remote.host_session import HostLost, HostSession


class HostAfar:
    """Looks at the host when it is made, and again when it is told."""

    def __init__(self, command: tuple[str, ...], backend_pid: int) -> None:
        self._session = HostSession(command, read_pair())
        self._session.backend_pid = backend_pid
        self._why_not = ""
        self._first: Glance | None = None
        try:
            self._session.open()
            self._first = self._look()
        except (NotMeasurable, HostLost) as error:
            self._why_not = f"the server's host: {error}"
            self._session.close()

    def told(self, facts: Facts) -> Facts:
        """Return the facts with those of the host, or with why there are none."""
        if self._first is None:
            return replace(facts, no_host=self._why_not)
        try:
            last = self._look()
        except HostLost as error:
            return replace(facts, no_host=f"the server's host: {error}")
        finally:
            self._session.close()
        files, pid = self._session.files, self._session.backend_pid
        stat = files.by_path.get(f"/proc/{pid}/stat", "")
        postmaster_pid = postgres_parent(stat) if stat else 0
        if not postmaster_pid:
            why = f"process {pid} is no PostgreSQL on host {self._session.host}"
            return replace(facts, no_host=why)
        window = window_between(self._first, last, own_pid=own_pid())
        host = read_host(files, pid=postmaster_pid, window=window)
        seen_bytes = host.memory.get("total_bytes")
        return replace(facts, host=host, ram_bytes=facts.ram_bytes or seen_bytes)

    def _look(self) -> Glance:
        self._session.take("facts")
        return glance(monotonic_ns(), self._session.files)
