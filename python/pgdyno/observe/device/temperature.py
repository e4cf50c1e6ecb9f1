"""Temperatures of disks and processors: the kernel's hardware monitors in /sys/class/hwmon.

NVMe disks are among them since Linux 5.5, others since 5.6 where drivetemp is loaded. Values are
thousandths of a degree.
Source: the kernel's Documentation/hwmon/sysfs-interface.rst and drivetemp.rst.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, NotMeasurable, Row, key
from pgdyno.observe.host.files import HERE, HostCollector, HostFiles, text_or_nothing

_CHIPS = "/sys/class/hwmon/hwmon*/name"


def _degrees(name: str, meaning: str, *, is_nullable: bool = True) -> Column:
    return Column(name, "float64", "degrees Celsius", meaning, "gauge", is_nullable)


class TemperatureCollector(HostCollector):
    """Samples every sensor, with the limits of its manufacturer."""

    name: ClassVar[str] = "temperature"
    meaning: ClassVar[str] = "Temperatures of disks, processors and boards"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("chip", "nvme, coretemp, k10temp, ...: the driver's name"),
        key("place", "the disk, such as nvme0n1 or sda, else the monitor, such as hwmon2"),
        key("sensor", "its label, such as Composite or Package id 0"),
        _degrees("temperature_celsius", "now", is_nullable=False),
        _degrees("high_celsius", "the device is too warm from here on"),
        _degrees("critical_celsius", "the device protects itself from here on"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        super().__init__(files)
        self._sensors: list[tuple[str, Row]] | None = None

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each sensor that answers."""
        if self._sensors is None:
            self._sensors = list(self._found())
        if not self._sensors:
            raise NotMeasurable(
                "No temperature can be read here: the kernel shows no sensor (/sys/class/hwmon),"
                " as in most virtual machines and containers."
            )
        rows: list[Row] = []
        for path, fixed in self._sensors:
            now = _celsius(self._files, path)
            if now is not None:
                rows.append({**fixed, "temperature_celsius": now})
        return rows

    def _found(self) -> list[tuple[str, Row]]:
        sensors: list[tuple[str, Row]] = []
        for chip in self._files.matching(_CHIPS):
            folder = chip.rpartition("/")[0]
            disks = [
                disk
                for below in ("nvme*n*", "block/*")
                for disk in self._files.matching(f"{folder}/device/{below}")
            ]
            place = (disks or [folder])[0].rpartition("/")[2]
            for path in self._files.matching(f"{folder}/temp*_input"):
                base = path.removesuffix("_input")
                label = text_or_nothing(self._files, f"{base}_label").strip()
                fixed: Row = {
                    "chip": text_or_nothing(self._files, chip).strip(),
                    "place": place,
                    "sensor": label or base.rpartition("/")[2],
                    "high_celsius": _celsius(self._files, f"{base}_max"),
                    "critical_celsius": _celsius(self._files, f"{base}_crit"),
                }
                sensors.append((path, fixed))
        return sensors


def _celsius(files: HostFiles, path: str) -> float | None:
    text = text_or_nothing(files, path).strip()
    return int(text) / 1000 if text.lstrip("-").isdigit() else None
