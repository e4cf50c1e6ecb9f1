"""Energy that processors and memory used: RAPL counters in /sys/class/powercap.

Source: the kernel's Documentation/power/powercap/powercap.rst. The counter begins again at
max_energy_range_uj, which differs between machines. Therefore it is added up here and not stored
raw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, NotMeasurable, Row, counter, gauge, key
from pgdyno.observe.host.files import HERE, HostCollector, HostFiles, text_or_nothing

_DOMAINS = "/sys/class/powercap/*:*/name"


@dataclass(slots=True)
class _Domain:
    folder: str
    name: str
    range_uj: int
    last_uj: int | None = None
    total_uj: int = 0


class EnergyCollector(HostCollector):
    """Samples each domain; the first sample of a run is 0."""

    name: ClassVar[str] = "energy"
    meaning: ClassVar[str] = "Energy used by processors and memory (RAPL)"
    columns: ClassVar[tuple[Column, ...]] = (
        key("domain", "package-0, package-0/dram, psys, ...; parts of a package are in its sum"),
        counter("energy_uj", "uJ", "since the first sample"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        super().__init__(files)
        self._domains: list[_Domain] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each domain."""
        if self._domains is None:
            self._domains = self._found()
        if not self._domains:
            raise NotMeasurable(
                "Energy cannot be read here: no RAPL counter in /sys/class/powercap, as in most"
                " virtual machines."
            )
        for domain in self._domains:
            self._add(domain)
        return [{"domain": domain.name, "energy_uj": domain.total_uj} for domain in self._domains]

    def _add(self, domain: _Domain) -> None:
        try:
            now_uj = int(self._files.text(f"{domain.folder}/energy_uj"))
        except (FileNotFoundError, PermissionError):
            raise NotMeasurable(
                f"Only root may read the energy counters here ({domain.folder})."
            ) from None
        if domain.last_uj is not None:
            grown_uj = now_uj - domain.last_uj
            if grown_uj < 0:
                # If the kernel does not report the range, the counter began again at 0.
                grown_uj = grown_uj + domain.range_uj if domain.range_uj else now_uj
            domain.total_uj += grown_uj
        domain.last_uj = now_uj

    def _found(self) -> list[_Domain]:
        names: dict[str, str] = {}
        domains: list[_Domain] = []
        for path in self._files.matching(_DOMAINS):
            folder = path.rpartition("/")[0]
            if "mmio" in folder:
                continue  # The same counters, shown a second time under another path.
            number = folder.rpartition("/")[2]
            name = text_or_nothing(self._files, path).strip()
            parent = names.get(number.rpartition(":")[0])
            names[number] = f"{parent}/{name}" if parent else name
            range_uj = text_or_nothing(self._files, f"{folder}/max_energy_range_uj").strip()
            domains.append(_Domain(folder, names[number], int(range_uj or 0)))
        return domains


_CORES = "/sys/devices/system/cpu/cpu*"


class FrequencyCollector(HostCollector):
    """Samples all cores; keeps only mean, lowest and highest, to avoid a row for each core."""

    name: ClassVar[str] = "frequency"
    meaning: ClassVar[str] = "Frequency of the cores, and how often heat slowed them"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("mean_hz", "Hz", "mean over all cores", is_nullable=True),
        gauge("lowest_hz", "Hz", "of the slowest core", is_nullable=True),
        gauge("highest_hz", "Hz", "of the fastest core", is_nullable=True),
        counter("core_throttles", "times", "a core was slowed by heat", is_nullable=True),
        counter("package_throttles", "times", "a processor was slowed by heat", is_nullable=True),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        super().__init__(files)
        self._paths: dict[str, list[str]] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        if self._paths is None:
            self._paths = {
                name: self._files.matching(f"{_CORES}/{name}")
                for name in (
                    "cpufreq/scaling_cur_freq",
                    "thermal_throttle/core_throttle_count",
                    "thermal_throttle/package_throttle_count",
                )
            }
        khz, by_core, by_package = map(self._numbers, self._paths.values())
        if not khz and not by_core:
            raise NotMeasurable(
                "The cores' frequency cannot be read here: no cpufreq in /sys, as in most virtual"
                " machines."
            )
        return [
            {
                "mean_hz": sum(khz) * 1000 // len(khz) if khz else None,
                "lowest_hz": min(khz) * 1000 if khz else None,
                "highest_hz": max(khz) * 1000 if khz else None,
                "core_throttles": sum(by_core) if by_core else None,
                # Every core reports the count of its processor.
                "package_throttles": max(by_package) if by_package else None,
            }
        ]

    def _numbers(self, paths: list[str]) -> list[int]:
        texts = (text_or_nothing(self._files, path).strip() for path in paths)
        return [int(text) for text in texts if text.isdigit()]
