"""CPU time of the server's processes by kind; the load's backends are one kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Protocol

from pgdyno.observe.collector import (
    SECOND_NS,
    Column,
    NotMeasurable,
    Row,
    Scope,
    counter,
    gauge,
    key,
)
from pgdyno.observe.processes.proc_files import (
    OpenFiles,
    parse_schedstat,
    parse_stat,
    parse_usage,
    read_children,
)
from pgdyno.observe.processes.usage import Accounts, Process, UsageReader
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.waits import OWN_PREFIX, PARALLEL_WORKER

LOAD = "load"
OBSERVER = "observer"
POSTMASTER = "postmaster"

# The query runs only when a new process is seen: application_name comes with the start-up packet,
# and the kind of a backend does not change.
SQL = (
    f"SELECT pid, CASE WHEN backend_type = '{PARALLEL_WORKER}' THEN backend_type"
    f" WHEN strpos(application_name, %s) = 1 THEN '{LOAD}'"
    f" WHEN strpos(application_name, '{OWN_PREFIX}') = 1 THEN '{OBSERVER}'"
    " ELSE coalesce(backend_type, 'unknown') END"
    " FROM pg_catalog.pg_stat_get_activity(NULL)"
)


class ServerProcesses(Protocol):
    """The server's processes on the host they run on.

    `times` reads ns on a core, ns waiting for a core and the number of time slices; `usage` reads
    the counts of `proc_files.usage`.
    """

    times: UsageReader
    usage: UsageReader

    def postmaster_of(self, backend_pid: int) -> int:
        """Return the parent of one of the server's backends; 0 while it is not known yet.

        Raises: NotMeasurable when that number is not a process of PostgreSQL there.
        """
        ...

    def children(self, pid: int) -> list[int]:
        """Return the children of a process. Raises: FileNotFoundError when it is gone."""
        ...


class LocalProcesses:
    """The server's processes on this host."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._folder = proc
        self.times: UsageReader = OpenFiles(proc, "schedstat", parse_schedstat)
        self.usage: UsageReader = OpenFiles(proc, "stat", parse_usage)

    def postmaster_of(self, backend_pid: int) -> int:
        """Return the parent of one of the server's backends."""
        if not (self._folder / "self" / "schedstat").exists():
            raise NotMeasurable("This kernel has no /proc/<pid>/schedstat.")
        folder = self._folder / str(backend_pid)
        try:
            parent_pid = postgres_parent((folder / "stat").read_text(errors="replace"))
        except FileNotFoundError:
            parent_pid = 0
        if not parent_pid:
            raise NotMeasurable(
                "The server's processes cannot be seen from here: is it in a container?"
            )
        return parent_pid

    def children(self, pid: int) -> list[int]:
        """Return the children of a process."""
        return read_children(self._folder, pid)


def postgres_parent(stat_text: str) -> int:
    """Return the parent of a process from its file stat; 0 if it is not PostgreSQL."""
    name = stat_text[stat_text.index("(") + 1 : stat_text.rindex(")")]
    return parse_stat(stat_text).parent_pid if name.startswith("postgres") else 0


class BackendsCollector:
    """Samples CPU time and time waiting for a core of the server's processes.

    Groups: `load` (backends of the run's load, without their parallel workers), `observer`,
    `postmaster`, else the backend type as in pg_stat_activity; `other` for processes that are not
    listed there.
    """

    name: ClassVar[str] = "backends"
    scope: ClassVar[Scope] = "processes"
    meaning: ClassVar[str] = "CPU time of the server's processes by kind, ended ones included"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "'load' = backends of this run's load, else as in pg_stat_activity"),
        gauge("processes", "processes", "how many live now"),
        counter("run_ns", "ns", "time on a core (schedstat)"),
        counter("wait_ns", "ns", "time runnable and waiting for a core (schedstat)"),
        counter("slices", "times", "number of times on a core (schedstat)"),
    )

    def __init__(
        self,
        session: ServerSession,
        load_application_name: str,
        host: ServerProcesses | None = None,
    ) -> None:
        self._session = session
        self._load_application_name = load_application_name
        self._host: ServerProcesses = host or LocalProcesses()
        self._accounts = Accounts(self._host.times, width=3)
        self._own_backend_pid = 0
        self._postmaster_pid = 0
        self._seen_before: set[int] = set()

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each group."""
        self._find_postmaster()
        if not self._postmaster_pid:
            return []  # The session is not open yet, or nobody has looked yet.
        living = [self._postmaster_pid, *self._host.children(self._postmaster_pid)]
        self._assign(self._accounts.unknown(living))
        return [
            {
                "backend_type": group,
                "processes": process_count,
                "run_ns": run_ns,
                "wait_ns": wait_ns,
                "slices": slices,
            }
            for group, (process_count, (run_ns, wait_ns, slices)) in sorted(
                self._accounts.update(living).items()
            )
        ]

    def groups(self) -> dict[int, str]:
        """Return the kind of every process seen, by its number."""
        return {pid: process.group for pid, process in self._accounts.processes.items()}

    def processes(self) -> Mapping[int, Process]:
        """Return every process by its pid, with its times at the last sample."""
        return self._accounts.processes

    def close(self) -> None:
        """Close the files kept open."""
        self._accounts.close()

    def _find_postmaster(self) -> None:
        """Find the server's processes from our own backend, again after each reconnect."""
        own_pid = self._session.backend_pid
        if own_pid == self._own_backend_pid:
            return
        self._postmaster_pid = self._host.postmaster_of(own_pid)
        if self._postmaster_pid:
            self._own_backend_pid = own_pid

    def _assign(self, unknown: list[int]) -> None:
        """Give new processes their groups; a process that is still starting gets it at the next
        sample.
        """
        if not unknown:
            return
        groups = dict(self._session.fetch(SQL, [self._load_application_name]))
        for pid in unknown:
            if pid == self._postmaster_pid:
                self._accounts.assign(pid, POSTMASTER)
            elif pid in groups:
                self._accounts.assign(pid, groups[pid])
            elif pid in self._seen_before:
                self._accounts.assign(pid, "other")
        self._seen_before = set(unknown)
