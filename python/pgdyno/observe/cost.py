"""What watching costs: CPU of each collector and of its backend on the server."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, key


@dataclass(slots=True)
class Spent:
    """Totals of one collector; `backend_cpu_ns` is 0 where the backend cannot be seen."""

    cpu_ns: int = 0
    backend_cpu_ns: int = 0
    sample_count: int = 0


class OwnCost:
    """Adds up what collectors cost, and is itself one: its rows keep the cost in the results."""

    name: ClassVar[str] = "observer"
    meaning: ClassVar[str] = "What watching costs, by collector"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("collector", "name of the collector"),
        counter("cpu_ns", "ns", "CPU time of its thread in the lab"),
        counter("backend_cpu_ns", "ns", "CPU time of its backend; 0 when that cannot be seen"),
        counter("samples", "samples", "samples taken, failed ones included"),
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}

    def add(
        self, collector: str, *, cpu_ns: int, backend_cpu_ns: int, sample_count: int = 1
    ) -> None:
        """Add the cost of some samples."""
        with self._lock:
            spent = self._spent.setdefault(collector, Spent())
            spent.cpu_ns += cpu_ns
            spent.backend_cpu_ns += backend_cpu_ns
            spent.sample_count += sample_count

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a collector."""
        with self._lock:
            return [
                {
                    "collector": name,
                    "cpu_ns": spent.cpu_ns,
                    "backend_cpu_ns": spent.backend_cpu_ns,
                    "samples": spent.sample_count,
                }
                for name, spent in sorted(self._spent.items())
            ]
