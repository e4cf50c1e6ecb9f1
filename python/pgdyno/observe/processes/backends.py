"""CPU time of the server's processes, by kind, the load's own backends apart."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.processes.accounts import Accounts
from pgdyno.observe.processes.proc_files import parse_stat, read_children
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.waits import OWN_PREFIX

LOAD = "load"
OBSERVER = "observer"
POSTMASTER = "postmaster"
STARTING = "starting"

# Asked only when a process is seen for the first time: application_name comes with the start-up
# packet, and what a backend is does not change.
SQL = (
    f"SELECT pid, CASE WHEN starts_with(application_name, %s) THEN '{LOAD}'"
    f" WHEN starts_with(application_name, '{OWN_PREFIX}') THEN '{OBSERVER}'"
    " ELSE coalesce(backend_type, 'unknown') END"
    " FROM pg_catalog.pg_stat_get_activity(NULL)"
)


class BackendsCollector:
    """Samples CPU time and time waiting for a core of the server's processes, on the same host.

    Groups: `load` (backends of the run's load), `observer`, `postmaster`, else the backend type as
    in pg_stat_activity; `other` for processes that are not listed there.
    """

    name: ClassVar[str] = "backends"
    meaning: ClassVar[str] = "CPU time of the server's processes by kind, ended ones included"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "'load' = backends of this run's load, else as in pg_stat_activity"),
        gauge("processes", "processes", "how many live now"),
        counter("cpu_user_ns", "ns", "CPU time in user mode; in steps of a clock tick"),
        counter("cpu_system_ns", "ns", "CPU time in the kernel; in steps of a clock tick"),
        counter("run_ns", "ns", "time on a core (schedstat)"),
        counter("wait_ns", "ns", "time runnable and waiting for a core (schedstat)"),
    )

    def __init__(
        self,
        session: ServerSession,
        load_application_name: str,
        *,
        proc: Path = Path("/proc"),
    ) -> None:
        self._session = session
        self._load_application_name = load_application_name
        self._proc = proc
        self._accounts = Accounts(proc)
        self._own_backend_pid = 0
        self._postmaster_pid = 0
        self._seen_before: set[int] = set()

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a group."""
        if not (self._proc / "self" / "schedstat").exists():
            raise NotMeasurable("This kernel has no /proc/<pid>/schedstat.")
        self._find_postmaster()
        living = [self._postmaster_pid, *read_children(self._proc, self._postmaster_pid)]
        self._assign(self._accounts.unknown(living))
        return [
            {
                "backend_type": group,
                "processes": total.process_count,
                "cpu_user_ns": total.cpu.user_ns,
                "cpu_system_ns": total.cpu.system_ns,
                "run_ns": total.cpu.run_ns,
                "wait_ns": total.cpu.wait_ns,
            }
            for group, total in sorted(self._accounts.update(living).items())
        ]

    def close(self) -> None:
        """Close the files kept open."""
        self._accounts.close()

    def _find_postmaster(self) -> None:
        """Find the server's processes from our own backend, again after each reconnect."""
        own_pid = self._session.backend_pid
        if own_pid == self._own_backend_pid:
            return
        folder = self._proc / str(own_pid)
        try:
            is_postgres = (folder / "comm").read_text().startswith("postgres")
            parent_pid = parse_stat((folder / "stat").read_text(errors="replace")).parent_pid
        except FileNotFoundError:
            is_postgres, parent_pid = False, 0
        if not is_postgres:
            raise NotMeasurable(
                "The server's processes cannot be seen from here: is it in a container?"
            )
        self._own_backend_pid, self._postmaster_pid = own_pid, parent_pid

    def _assign(self, unknown: list[int]) -> None:
        """Give new processes their groups; one still starting up gets it at the next sample."""
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
