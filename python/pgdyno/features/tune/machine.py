"""The facts that formulas of settings use: the machine, the load, and the server's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pgdyno.features.doctor.finding import Unknown
from pgdyno.features.tune.formula import Value

if TYPE_CHECKING:
    from pgdyno.features.doctor.check_facts import CheckFacts

Disk = Literal["hdd", "ssd", "san", "nvme"]
Load = Literal["web", "oltp", "dw", "desktop", "mixed"]
LOADS: tuple[Load, ...] = ("web", "oltp", "dw", "desktop", "mixed")
DISKS: tuple[Disk, ...] = ("hdd", "ssd", "san", "nvme")


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts about one server; None is a fact that is not known.

    `connections`: max_connections. `database_bytes` and `wal_disk_bytes`: None counts as large.
    """

    major: int
    connections: int
    ram_bytes: int | None = None
    cores: int | None = None
    disk: Disk | None = None
    load: Load = "oltp"
    database_bytes: int | None = None
    wal_disk_bytes: int | None = None

    def names(self) -> dict[str, Value]:
        """Return what formulas may use, by name."""
        return {
            "ram": self.ram_bytes,
            "cores": self.cores,
            "disk": self.disk,
            "load": self.load,
            "connections": self.connections,
            "version": self.major,
            "database": self.database_bytes if self.database_bytes is not None else float("inf"),
            "wal_disk": self.wal_disk_bytes or 0,
        }


def machine_of(facts: CheckFacts, given: Mapping[str, object]) -> Machine:
    """Return the machine as the doctor saw it. Args: given, facts of the user, which come first."""
    server = facts.on_server()
    try:
        ram_bytes: int | None = facts.memory_bytes()
    except Unknown:
        ram_bytes = None
    size = server.answers.get("size")
    seen: dict[str, object] = {
        "ram_bytes": ram_bytes,
        "cores": facts.host.cores if facts.host is not None else None,
        "disk": _disk(facts),
        "database_bytes": int(size[0]) if size is not None else None,
        "wal_disk_bytes": facts.wal.total_bytes or None if facts.wal is not None else None,
    }
    known = {name: value for name, value in given.items() if value is not None}
    return Machine(
        major=server.major,
        connections=int(server.number("max_connections")),
        **{**seen, **known},  # type: ignore[arg-type]
    )


def _disk(facts: CheckFacts) -> Disk | None:
    """Return the kind of the data's disk; None where it is not seen."""
    disks = facts.data.disks if facts.data is not None else ()
    if not disks or any(disk.is_rotational is None for disk in disks):
        return None
    if any(disk.is_rotational for disk in disks):
        return "hdd"
    return "nvme" if all(disk.is_nvme for disk in disks) else "ssd"
