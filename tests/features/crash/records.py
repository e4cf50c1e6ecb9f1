"""Crash records for tests, by what they differ in."""

from __future__ import annotations

from typing import Any

from pgdyno.features.crash.record import CheckSeen, CrashRecord

BAD = CheckSeen("pg_checksums", "bad", "block 3 is torn")


def crash(number: int = 1, **changes: Any) -> CrashRecord:
    """Return a crash that lost nothing, with some fields changed."""
    usual: dict[str, Any] = {
        "number": number,
        "arm": "",
        "phase": "load",
        "seed": 7,
        "hit": True,
        "acknowledged": 1000,
        "in_doubt": 8,
        "in_doubt_committed": 3,
        "restart_ns": 100_000_000,
        "redo_began_ns": 150_000_000,
        "redo_ended_ns": 400_000_000,
        "answered_ns": 500_000_000,
        "wal_bytes": 10_000_000,
        "checks": (CheckSeen("pg_checksums", "good", "every page has its checksum"),),
    }
    return CrashRecord(**{**usual, **changes})


def losing(number: int = 1, *, lost: int = 30, lost_ns: int = 210_000_000) -> CrashRecord:
    """Return a crash that lost the last commits."""
    return crash(number, lost=lost, lost_ns=lost_ns)
