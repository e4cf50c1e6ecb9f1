"""Energy the processors and memory used: RAPL counters in /sys/class/powercap.

Source: the kernel's Documentation/power/powercap/powercap.rst. The counter begins again at
max_energy_range_uj, which is each machine's own: it is added up here rather than stored raw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.host.files import HERE, HostFiles, text_or_nothing

_DOMAINS = "/sys/class/powercap/*:*/name"


@dataclass(slots=True)
class _Domain:
    folder: str
    name: str
    range_uj: int
    last_uj: int | None = None
    total_uj: int = 0


class EnergyCollector:
    """Samples each domain; the first sample of a run is 0."""

    name: ClassVar[str] = "energy"
    meaning: ClassVar[str] = "Energy used by processors and memory (RAPL)"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("domain", "package-0, package-0/dram, psys, ...; parts of a package are in its sum"),
        counter("energy_uj", "uJ", "since the first sample"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files
        self._domains: list[_Domain] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a domain."""
        if self._domains is None:
            self._domains = self._found()
        if not self._domains:
            raise NotMeasurable(
                "Energy cannot be read here: no RAPL counter in /sys/class/powercap, as in most"
                " virtual machines."
            )
        for domain in self._domains:
            self._add(domain)
        return [{"domain": one.name, "energy_uj": one.total_uj} for one in self._domains]

    def _add(self, domain: _Domain) -> None:
        try:
            now_uj = int(self._files.text(f"{domain.folder}/energy_uj"))
        except (FileNotFoundError, PermissionError):
            raise NotMeasurable(
                f"Energy is counted here ({domain.folder}) for root's eyes only."
            ) from None
        if domain.last_uj is not None:
            grown_uj = now_uj - domain.last_uj
            domain.total_uj += grown_uj if grown_uj >= 0 else grown_uj + domain.range_uj
        domain.last_uj = now_uj

    def _found(self) -> list[_Domain]:
        names: dict[str, str] = {}
        found: list[_Domain] = []
        for path in self._files.matching(_DOMAINS):
            folder = path.rpartition("/")[0]
            if "mmio" in folder:
                continue  # The same counters by another door.
            number = folder.rpartition("/")[2]
            name = text_or_nothing(self._files, path).strip()
            parent = names.get(number.rpartition(":")[0])
            names[number] = f"{parent}/{name}" if parent else name
            range_uj = text_or_nothing(self._files, f"{folder}/max_energy_range_uj").strip()
            found.append(_Domain(folder, names[number], int(range_uj or 0)))
        return found
