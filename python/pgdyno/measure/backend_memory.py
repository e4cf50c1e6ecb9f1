"""Whether the connections of an experiment fit into memory, measured on the server itself."""

from __future__ import annotations

import statistics
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import RefusedError
from pgdyno.measure.run_progress import RunProgress
from pgdyno.observe.processes.programs import parse
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

SESSIONS = 5
# Fewer connections need no measuring: a few hundred fit on any machine that runs PostgreSQL.
ASKED_FROM = 500
# Queries that a session runs before it is measured: most of its memory is its cache of the
# catalogue.
_WARM_UP = "SELECT count(*) FROM pg_catalog.pg_stat_all_tables"
_GIB, _MIB = 2**30, 2**20


@dataclass(frozen=True, slots=True)
class BackendMemory:
    """The memory that one more backend needs, and the memory that this host has.

    A backend needs its private memory and its page tables. Its proportional share of the rest (Pss)
    is not used: it is divided by a few sessions here, but by thousands in the load.
    Limits: page tables grow with the part of shared_buffers that a backend has touched.
    """

    backend_bytes: int
    available_bytes: int

    def needed_bytes(self, connections: int) -> int:
        """Return the memory that this number of backends needs."""
        return self.backend_bytes * connections

    def fitting_count(self) -> int:
        """Return how many backends fit."""
        return self.available_bytes // self.backend_bytes


def refuse_too_little_memory(
    target: Target,
    *,
    connections: int,
    is_local: bool,
    verb: str,
    is_confirmed: bool,
    progress: RunProgress,
    proc: Path = Path("/proc"),
) -> None:
    """Raise RefusedError if the connections need more memory than there is, unless confirmed.

    If they need more than half of it, print how much. A server elsewhere, or one whose processes
    may not be read, is not checked.
    """
    if not is_local or connections < ASKED_FROM:
        return
    memory = measured(target, verb=verb, proc=proc)
    if memory is None:
        return
    needed = memory.needed_bytes(connections)
    words = (
        f"{connections:,} connections need about {_gib(needed)} of memory"
        f" ({memory.backend_bytes / _MIB:.1f} MiB each, measured with {SESSIONS} sessions);"
        f" {_gib(memory.available_bytes)} are available."
    )
    if needed > memory.available_bytes and not is_confirmed:
        raise RefusedError(
            words,
            hint=f"use at most {memory.fitting_count():,} connections, share them (--active) or a"
            " pooler, or add --confirm-memory",
        )
    if needed > memory.available_bytes // 2:
        progress.said(words)


def measured(target: Target, *, verb: str, proc: Path = Path("/proc")) -> BackendMemory | None:
    """Return the memory that a backend of this server needs, None if the kernel hides it."""
    sizes: list[int] = []
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(connect(target, verb=verb, run="memory")) for _ in range(SESSIONS)
        ]
        for session in sessions:
            session.execute(_WARM_UP)
        for session in sessions:
            with suppress(OSError):
                process = proc / str(session.info.backend_pid)
                private = parse((process / "smaps_rollup").read_text())[2]
                sizes.append(private + (_kilobytes(process / "status", "VmPTE") or 0))
    available = _kilobytes(proc / "meminfo", "MemAvailable")
    if not any(sizes) or available is None:
        return None
    return BackendMemory(max(1, round(statistics.median(sizes))), available)


def _kilobytes(path: Path, name: str) -> int | None:
    """Return the bytes of a line such as `MemAvailable: 12 kB`; None where there is none."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:,.1f} GiB"
