"""Time in which work stood still for want of CPU, memory or disk: /proc/pressure."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.host.files import HERE, HostFiles

RESOURCES = ("cpu", "memory", "io")


def parse(text: str) -> Row:
    """Return the totals of one file; None where the kernel does not tell."""
    totals: Row = {"some_ns": None, "full_ns": None}
    for line in text.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if name == "total" and f"{kind}_ns" in totals:
                totals[f"{kind}_ns"] = int(value) * 1000
    return totals


class PressureCollector:
    """Samples pressure stall information."""

    name: ClassVar[str] = "pressure"
    meaning: ClassVar[str] = "Time in which work stood still for want of CPU, memory or disk"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("resource", "cpu, memory or io"),
        counter("some_ns", "ns", "time in which at least one task waited", is_nullable=True),
        counter("full_ns", "ns", "time in which no task could go on", is_nullable=True),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a resource."""
        if not self._files.exists("/proc/pressure"):
            raise NotMeasurable("This kernel has no pressure stall information (/proc/pressure).")
        rows: list[Row] = []
        for resource in RESOURCES:
            try:
                text = self._files.text(f"/proc/pressure/{resource}")
            except FileNotFoundError:
                continue
            except OSError as error:
                # Built in, and switched off: the files are there and cannot be read.
                raise NotMeasurable(
                    f"Pressure stall information is switched off here ({error.strerror})."
                ) from error
            rows.append({"resource": resource, **parse(text)})
        return rows
