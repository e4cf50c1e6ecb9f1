"""All facts for the checks. An unknown fact is None, or raises Unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.features.doctor.finding import NO_MONITOR, NO_SERVER, NO_SHELL, Unknown
from pgdyno.features.doctor.flush import FlushTimes
from pgdyno.features.doctor.host_facts import HostState
from pgdyno.features.doctor.server_seen import ServerSeen
from pgdyno.features.doctor.storage_facts import Disk, StoragePlace
from pgdyno.observe.device.health import Health
from pgdyno.server.find import Binaries

_SYSTEM_BYTES_MAX = 2 << 30


@dataclass(frozen=True, slots=True)
class PeakActive:
    """The largest number of sessions at work at one time, and where it was observed."""

    sessions: int
    source: str


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """One server and the host it runs on.

    `host`, `data` and `wal` are None if the host could not be examined; `no_host` and `no_places`
    say why. `ram_bytes`: the RAM of the server's host, measured or from the user. `others_active`:
    sessions at work during the examination. `peak`: sessions at work, perhaps earlier. `health`:
    each disk's report about itself, or why it has none. `is_afar`: the host is another host.
    `known_cores` and `known_bytes`: cores and size of all data, if the user gave them.
    `scratch`: the programs of scratch servers, if the host alone is examined.
    """

    host: HostState | None = None
    server: ServerSeen | None = None
    data: StoragePlace | None = None
    wal: StoragePlace | None = None
    ram_bytes: int | None = None
    peak: PeakActive | None = None
    others_active: int | None = None
    flush: FlushTimes | None = None
    data_folder: Path | None = None
    postmaster_pid: int | None = None
    health: Mapping[str, Health | str] = field(default_factory=dict)
    no_host: str = NO_SHELL
    no_places: str = "this user may not read the location of the server's data"
    is_afar: bool = False
    scratch: tuple[Binaries, ...] = ()
    known_cores: int | None = None
    known_bytes: int | None = None

    @property
    def cores(self) -> int | None:
        """Return the cores of the server's host, None if they are not known."""
        return self.host.cores if self.known_cores is None and self.host else self.known_cores

    @property
    def data_bytes(self) -> int | None:
        """Return the size of all databases of the server, None if it is not known."""
        size = self.server.answers.get("data_size") if self.server is not None else None
        if self.known_bytes is not None or size is None or size[0] is None:
            return self.known_bytes
        return int(size[0])

    def on_host(self) -> HostState:
        """Return the host's facts. Raises: Unknown if the host could not be examined."""
        if self.host is None:
            raise Unknown(self.no_host)
        return self.host

    def source_of(self, setting: str) -> str:
        """Return the source of a setting's value, "" for PostgreSQL's default, or if not known."""
        known = self.server.settings.get(setting) if self.server is not None else None
        if known is None or known.source in ("default", "session", "override"):
            return ""
        return known.place

    def on_server(self) -> ServerSeen:
        """Return the server's facts. Raises: Unknown if no server was named."""
        if self.server is None:
            raise Unknown(NO_SERVER)
        return self.server

    def on_watched_server(self) -> ServerSeen:
        """Return the server's facts.

        Raises: Unknown if no server was named, or sessions of other roles are not visible.
        """
        server = self.on_server()
        if not server.rights.monitor:
            raise Unknown(NO_MONITOR)
        return server

    def places(self) -> tuple[StoragePlace, ...]:
        """Return the places of data and WAL, one place if both are on one mount."""
        self.on_host()
        places = [place for place in (self.data, self.wal) if place is not None]
        if not places:
            raise Unknown(self.no_places)
        if len(places) == 2 and places[0].mount_point == places[1].mount_point:
            return (places[0],)
        return tuple(places)

    def with_server_of(self, other: CheckFacts) -> CheckFacts:
        """Return these facts with the server and its sessions from another examination."""
        return replace(
            self, server=other.server, others_active=other.others_active, peak=other.peak
        )

    def disks(self) -> tuple[Disk, ...]:
        """Return the disks with data and WAL, empty if they are not visible."""
        places = [place for place in (self.data, self.wal) if place is not None]
        return tuple(dict.fromkeys(disk for place in places for disk in place.disks))

    def half_seen(self) -> str:
        """Return why checks of storage judge only the data's disk; "" if they judge both disks."""
        if self.is_afar and self.data is not None and self.wal is None:
            return "the host's user has no access to the data directory"
        return ""

    def memory_bytes(self) -> int:
        """Return the memory that the server may use: RAM, or a control group's lower limit."""
        limits = self.host.limits if self.host is not None else None
        limit_bytes = limits.memory_bytes if limits is not None else None
        known = [size for size in (self.ram_bytes, limit_bytes) if size is not None]
        if not known:
            raise Unknown("the memory size is not known: set --ram, such as --ram 28GB")
        return min(known)


def system_bytes(memory_bytes: int) -> int:
    """Return the memory for the operating system: a sixteenth, at most 2 GB."""
    return min(memory_bytes // 16, _SYSTEM_BYTES_MAX)
