"""How much memory the settings allow: at least, and at most if all sessions work at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Unknown
from pgdyno.settings.rule import rule_of
from pgdyno.settings.value import amount

# At the peak a statement is assumed to sort or hash once; in the worst case once in each process.
_SORTS_AT_PEAK = 1
ALLOWING_SETTINGS = (
    *("shared_buffers", "wal_buffers", "work_mem", "hash_mem_multiplier", "temp_buffers"),
    *("max_connections", "max_parallel_workers", "maintenance_work_mem"),
    *("autovacuum_work_mem", "autovacuum_max_workers"),
)
"""The settings of the sum."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part of the sum: the memory used in any case, and the memory that settings allow."""

    name: str
    low_bytes: int
    high_bytes: int
    how: str


@dataclass(frozen=True, slots=True)
class MemorySum:
    """The whole sum against the memory of the server. `ram_bytes`: None if not known."""

    parts: tuple[MemoryPart, ...]
    ram_bytes: int | None

    @property
    def low_bytes(self) -> int:
        """Return the memory that is used in any case or by the sessions seen at work."""
        return sum(part.low_bytes for part in self.parts)

    @property
    def high_bytes(self) -> int:
        """Return what the settings allow."""
        return sum(part.high_bytes for part in self.parts)


def memory_sum(facts: CheckFacts) -> MemorySum:
    """Return the sum of what the settings of a server allow."""
    server = facts.on_server()
    try:
        ram_bytes: int | None = facts.memory_bytes()
    except Unknown:
        ram_bytes = None

    def of(name: str) -> float:
        return server.size_bytes(name) if name in server.settings else 0.0

    peak = facts.peak.sessions if facts.peak is not None else 0
    return MemorySum(_parts(of, peak), ram_bytes)


def allowed_bytes(settings: Mapping[str, str], major: int) -> int:
    """Return the high end of the same sum, of settings as postgresql.conf has them.

    Args: settings, every setting of the server; one that is missing counts as 0.
    """

    def of(name: str) -> float:
        rule = rule_of(name, major)
        size_bytes = amount(rule, settings[name]) if rule is not None and name in settings else None
        return size_bytes or 0.0

    return sum(part.high_bytes for part in _parts(of, 0))


def _parts(of: Callable[[str], float], peak: int) -> tuple[MemoryPart, ...]:
    """Return the parts. Args: of, name -> bytes or number; peak, sessions seen at work.

    Limits: a backend's memory for catalogues and plans (about 5 to 20 MB) is not included.
    """
    connections, workers = int(of("max_connections")), int(of("max_parallel_workers"))
    hashes, work = max(1.0, of("hash_mem_multiplier")), of("work_mem")
    buffers = of("wal_buffers")
    if buffers < 0:  # -1: 1/32 of shared_buffers, at most a WAL file.
        buffers = min(of("shared_buffers") / 32, 16 << 20)
    shared = int(of("shared_buffers") + buffers)
    own, count = of("autovacuum_work_mem"), int(of("autovacuum_max_workers"))
    own = own if own >= 0 else of("maintenance_work_mem")
    return (
        MemoryPart("shared_buffers and wal_buffers", shared, shared, "one time"),
        MemoryPart(
            "work_mem",
            int(peak * _SORTS_AT_PEAK * work),
            int((connections + workers) * hashes * work),
            f"{peak} sessions at work x {_SORTS_AT_PEAK}, up to {connections} connections and"
            f" {workers} parallel workers x {hashes:g} (hash_mem_multiplier)",
        ),
        MemoryPart(
            "temp_buffers",
            0,
            int(connections * of("temp_buffers")),
            f"up to {connections} connections",
        ),
        MemoryPart(
            "maintenance",
            0,
            int(of("maintenance_work_mem") + count * own),
            f"up to one command by hand and {count} autovacuum workers",
        ),
    )
