"""Facts about a server's host that is another host: from the host collector, or from its file."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.host_facts import Glance, Window, glance, read_host, window_between
from pgdyno.features.doctor.storage_facts import place_received
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.host.files import ReceivedFiles
from pgdyno.observe.processes.backends import postgres_parent
from pgdyno.observe.remote.host_session import HostLost, HostSession
from pgdyno.observe.remote.processes import known_or_why

_NO_PLACES = (
    "the host's user may not inspect the server's process, and data_directory is not readable"
)


class HostAfar:
    """Examines the host when it is created, and again on request."""

    def __init__(self, command: tuple[str, ...], backend_pid: int, data_folder: str = "") -> None:
        self._session = HostSession(command, read_pair())
        self._session.backend_pid = backend_pid
        self._session.data_folder = data_folder
        self._why_not = ""
        self._first: Glance | None = None
        try:
            self._session.open()
            self._first = self._look()
        except (NotMeasurable, HostLost) as error:
            self._why_not = f"the server's host: {error}"
            self._session.close()

    def told(self, facts: CheckFacts) -> CheckFacts:
        """Return the facts, completed with those of the host, or with the reason why not."""
        if self._first is None:
            return replace(facts, no_host=self._why_not)
        try:
            last = self._look()
            disks = told_by(self._session.files, facts, None, self._session.data_folder).disks()
            if any(disk.is_nvme for disk in disks):
                self._session.take("health")
        except HostLost as error:
            return replace(facts, no_host=f"the server's host: {error}")
        finally:
            self._session.close()
        files, pid = self._session.files, self._session.backend_pid
        stat = files.by_path.get(f"/proc/{pid}/stat", "")
        if not (stat and postgres_parent(stat)):
            why = f"process {pid} is not a PostgreSQL on host {self._session.host}"
            return replace(facts, no_host=why)
        window = window_between(self._first, last, own_pid=0)
        return told_by(files, facts, window, self._session.data_folder)

    def _look(self) -> Glance:
        self._session.take("facts")
        return glance(monotonic_ns(), self._session.files)


def told_by(
    files: ReceivedFiles, facts: CheckFacts, window: Window | None, data_folder: str
) -> CheckFacts:
    """Return the facts, completed with host, places and memory from these files."""
    host = read_host(files, pid=_server_pid(files), window=window)
    seen = replace(
        facts,
        host=host,
        no_places=_NO_PLACES,
        data=place_received("data", files, data_folder),
        wal=place_received("WAL", files),
        ram_bytes=facts.ram_bytes or host.memory.get("total_bytes"),
        is_afar=True,
    )
    health = {disk.name: known_or_why(files, disk.name) for disk in seen.disks()}
    return replace(seen, health=health)


def _server_pid(files: ReceivedFiles) -> int:
    """Return the pid of the postmaster, whose control groups were sent; 0 if there is none."""
    groups = files.matching("/proc/[1-9]*/cgroup")
    return int(groups[0].split("/")[2]) if groups else 0
