"""Processes of this host: identity, priority and cores.

The kernel reuses pids, so a process is identified by its pid together with its start time.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ProcessError
from pgdyno.process import signals
from pgdyno.process.child import descendants, run, signal_all


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one boot of this host; `started` is equal only for the same process."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of a running process, or None if there is none with that pid."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started)

    def is_running(self) -> bool:
        """True while exactly this process runs (a zombie does not count)."""
        return _start_of(self.pid) == self.started

    def end(self, *, grace_s: float, signal_number: signal.Signals) -> bool:
        """End a process that is not our child: send the signal, wait, then send SIGKILL.

        SIGKILL ends the processes below it too. A backend that waits for a lock of a dead backend
        would not see that its postmaster is gone.
        Args: grace_s, the longest wait. Returns: True if the process ran. A process with another
        start time gets no signal.
        """
        if not self.is_running():
            return False
        with signals.shielded():
            os.kill(self.pid, signal_number)
            # Who was stopped handles the signal only when it goes on.
            os.kill(self.pid, signal.SIGCONT)
            self._await_end(grace_s)
            if self.is_running():
                signal_all((self.pid, *descendants(self.pid)), signal.SIGKILL)
                self._await_end(grace_s)
        return True

    def _await_end(self, grace_s: float) -> None:
        deadline_ns = monotonic_ns() + int(grace_s * 1e9)
        while self.is_running() and monotonic_ns() < deadline_ns:
            signals.sleep(0.02)


def _start_of(pid: int) -> str | None:
    if not Path("/proc/self/stat").exists():
        return _start_by_ps(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # The name may have blanks and brackets.
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{boot}:{start_ticks}"


def _start_by_ps(pid: int) -> str | None:
    try:
        completed = run(["ps", "-o", "lstart=", "-p", str(pid)], timeout_s=10)
    except ProcessError:
        return None
    return completed.stdout.strip() or None


def give_priority(thread: int) -> bool:
    """Give a thread or process of this host priority; return False without the privilege.

    Only for a thread that nearly always sleeps: when it wakes, it interrupts the process on its
    core. Its children get no priority. Source: sched(7), SCHED_FIFO; it needs CAP_SYS_NICE.
    """
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(thread, policy, os.sched_param(1))
    except OSError:
        return False
    return True


def cores_of(thread: int) -> list[int]:
    """Return the cores on which a thread or process of this host may run; none if it is gone."""
    try:
        return sorted(os.sched_getaffinity(thread))
    except OSError:
        return []


def stay_on(core: int, *threads: int) -> None:
    """Keep threads or processes of this host on one core, as far as the kernel permits it."""
    for thread in threads:
        with suppress(OSError):
            os.sched_setaffinity(thread, {core})
