"""The brake: ends a run in the second in which a condition such as `p99>2s` is met."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.engine.records import HistogramRecord, Interval, Record
from pgdyno.measure.watching import percentile_ms
from pgdyno.spec.condition import Condition

_PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
_SECOND_NS = 1_000_000_000


class Brake:
    """Sees the records of one run; `why` says which condition was met, "" while none is."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        self._spent_ns = 0
        self._completed_count = 0
        self.why = ""

    def see(self, record: Record) -> bool:
        """Take one record in; return True once, when the run is to be ended."""
        if self.why or not self._conditions:
            return False
        for name, value in self._values(record).items():
            for condition in self._conditions:
                if condition.name == name and condition.is_met(value):
                    unit = "tps" if name == "tps" else "ms"
                    self.why = f"{condition.text} ({name} was {value:,.4g} {unit} for a second)"
                    return True
        return False

    def _values(self, record: Record) -> dict[str, float]:
        """Return what this record tells of the last second, by name."""
        if isinstance(record, HistogramRecord):
            if record.measured != "latency" or record.script is not None or not record.count:
                return {}
            found = {name: percentile_ms(record, percent) for name, percent in _PERCENTS.items()}
            return {**found, "mean": record.sum_ns / record.count / 1e6}
        if not isinstance(record, Interval) or record.phase not in ("warm", "measure"):
            return {}
        self._spent_ns += record.interval_ns
        self._completed_count += record.counts.completed
        if self._spent_ns < _SECOND_NS:
            return {}
        tps = self._completed_count * 1e9 / self._spent_ns
        self._spent_ns = self._completed_count = 0
        return {"tps": tps}
