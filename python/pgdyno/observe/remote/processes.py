"""The server's processes on its own host, of what the host collector sent."""

from __future__ import annotations

from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.processes.accounts import CpuTime, cpu_time
from pgdyno.observe.processes.backends import postgres_parent
from pgdyno.observe.remote.host_session import HostSession


class ReceivedProcesses:
    """Reads them from the last sample; the script finds them by one backend, told in the next."""

    def __init__(self, session: HostSession) -> None:
        self._session = session

    def postmaster_of(self, backend_pid: int) -> int:
        """Return the parent of one of the server's backends; 0 until a sample was asked for it."""
        if self._session.sampled_pid != backend_pid:
            self._session.backend_pid = backend_pid
            return 0
        text = self._session.files.by_path.get(f"/proc/{backend_pid}/stat", "")
        postmaster_pid = postgres_parent(text) if text else 0
        if not postmaster_pid:
            raise NotMeasurable(
                f"The server's processes cannot be seen on host {self._session.host}: process"
                f" {backend_pid} is no PostgreSQL there. Is it another host, or a container?"
            )
        self._session.server_pids = {"server": postmaster_pid}
        return postmaster_pid

    def children(self, pid: int) -> list[int]:
        """Return the children of the postmaster: whatever was sent, but itself."""
        sent = [path.split("/") for path in self._session.files.by_path]
        numbers = [words[2] for words in sent if words[-1] == "schedstat"]
        return [int(number) for number in numbers if int(number) != pid]

    def read(self, pid: int) -> CpuTime | None:
        """Return the times of a process, None when it is gone."""
        texts = self._session.files.by_path
        try:
            stat, schedstat = texts[f"/proc/{pid}/stat"], texts[f"/proc/{pid}/schedstat"]
            return cpu_time(stat.encode(), schedstat.encode())
        except (KeyError, ValueError, IndexError):
            return None

    def forget(self, pid: int) -> None:
        """Keep nothing: every sample brings all."""
