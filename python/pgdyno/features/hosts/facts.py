"""What is known of each host after a run: its share of the work, its clock, its CPU."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class LoadHostFacts(BaseModel):
    """One host in one run; counts are of the measured phase.

    `start_skew_ns`: its last thread began this much after the common instant; the clock's error is
    not part of it. `busy_ratio`: of its busiest thread. `offered_tps`: None in a closed loop.
    `lost`: why the host was lost, "" if it was not.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    thread_count: int
    client_count: int
    transaction_count: int
    measured_ns: int
    clock_offset_ns: int
    clock_error_ns: int
    clock_drift_ppm: float | None = None
    clock_drift_error_ppm: float | None = None
    start_skew_ns: int | None = None
    cpu_ns: int = 0
    worker_cpu_ns: int | None = None
    busy_ratio: float | None = None
    timer_lag_ns_p99: int | None = None
    steal_ratio: float | None = None
    core_count: int = 1
    offered_tps: float | None = None
    is_local: bool = False
    lost: str = ""

    @property
    def tps(self) -> float:
        """Return the completed transactions per second of the measured phase."""
        return self.transaction_count * 1e9 / self.measured_ns if self.measured_ns else 0.0
