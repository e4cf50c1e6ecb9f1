"""Words that text, page and document of a crash share."""

from __future__ import annotations

from collections.abc import Mapping

BLIND = "The test cannot see losses here"
EVENTS: Mapping[str, tuple[str, str]] = {
    "kill": ("crash", "crashes"),
    "power": ("power failure", "power failures"),
    "failover": ("failover", "failovers"),
    "command": ("crash", "crashes"),
}
NOT_SHOWN: Mapping[str, str] = {
    "kill": (
        "a loss of power: the kernel still writes what a killed server gave it, so fsync = off "
        "loses nothing here (--kind power)"
    ),
    "power": "caches inside the drive: --kind command with your power switch shows them",
    "failover": "a loss of power on either server (--kind power)",
    "command": "what your command does not cut off",
}


def events(kind: str, count: int) -> str:
    """Return "1 crash" or "60 power failures"."""
    return f"{count:,} {EVENTS[kind][count != 1]}"
