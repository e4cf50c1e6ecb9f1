"""How fast the cores run, and how often heat slowed them: cpufreq and thermal_throttle in /sys."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, gauge
from pgdyno.observe.host.files import HERE, HostFiles, text_or_nothing

_CORES = "/sys/devices/system/cpu/cpu*"


class FrequencyCollector:
    """Samples all cores, and keeps their mean, lowest and highest: a row a core would be many."""

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
        self._files = files
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
                # Every core tells the count of its processor.
                "package_throttles": max(by_package) if by_package else None,
            }
        ]

    def _numbers(self, paths: list[str]) -> list[int]:
        texts = (text_or_nothing(self._files, path).strip() for path in paths)
        return [int(text) for text in texts if text.isdigit()]
