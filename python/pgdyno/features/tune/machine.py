"""Reads the facts that formulas of settings use from what the doctor saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgdyno.features.doctor.finding import Unknown
from pgdyno.quantities import format_bytes
from pgdyno.settings.formula import Disk, Machine

if TYPE_CHECKING:
    from pgdyno.features.doctor.check_facts import CheckFacts


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


def machine_text(machine: Machine, *, is_disk_assumed: bool = False) -> str:
    """Return the facts about the machine that the rules use.

    If a fact is missing, the text names the option that gives it.
    """
    disk = f"{machine.disk}{' (assumed)' * is_disk_assumed}" if machine.disk else ""
    known = {
        "RAM": format_bytes(machine.ram_bytes) if machine.ram_bytes else "not known (--ram)",
        "cores": str(machine.cores) if machine.cores else "not known (--cores)",
        "disk": disk or "not known (--disk)",
        "max_connections": str(machine.connections),
        "load": machine.load,
        "database": format_bytes(machine.database_bytes)
        if machine.database_bytes
        else "taken as large",
    }
    return ", ".join(f"{name} {value}" for name, value in known.items())


def _disk(facts: CheckFacts) -> Disk | None:
    """Return the kind of the data's disk; None where it is not seen."""
    disks = facts.data.disks if facts.data is not None else ()
    if not disks or any(disk.is_rotational is None for disk in disks):
        return None
    if any(disk.is_rotational for disk in disks):
        return "hdd"
    return "nvme" if all(disk.is_nvme for disk in disks) else "ssd"
