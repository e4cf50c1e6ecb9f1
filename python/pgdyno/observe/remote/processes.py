"""The server's processes on its own host, of what the host collector sent."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.processes.accounts import Counts, Reader
from pgdyno.observe.processes.backends import postgres_parent
from pgdyno.observe.processes.proc_files import parse_schedstat, parse_usage
from pgdyno.observe.remote.host_session import HostSession


class ReceivedProcesses:
    """Reads them from the last sample; the script finds them by one backend, told in the next."""

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self.times: Reader = _Received(session, "schedstat", parse_schedstat)
        self.usage: Reader = _Received(session, "stat", parse_usage)

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


class _Received:
    """Reads one file of processes, of the last sample."""

    def __init__(self, session: HostSession, name: str, parse: Callable[[bytes], Counts]) -> None:
        self._session, self._name, self._parse = session, name, parse

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        try:
            text = self._session.files.by_path[f"/proc/{pid}/{self._name}"]
            return self._parse(text.encode())
        except (KeyError, ValueError, IndexError):
            return None

    def forget(self, pid: int) -> None:
        """Keep nothing: every sample brings all."""
