"""What each kind of crash cannot show."""

from __future__ import annotations

from collections.abc import Mapping

NOT_SHOWN: Mapping[str, str] = {
    "kill": (
        "a loss of power: the kernel still writes what a killed server gave it, so fsync = off "
        "loses nothing here (--kind power)"
    ),
    "power": "caches inside the drive: --kind command with your power switch shows them",
    "failover": "a loss of power on either server (--kind power)",
    "command": "what your command does not cut off",
}
