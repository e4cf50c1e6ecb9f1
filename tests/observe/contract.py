"""Tests that every collector must pass: inherit the class, and define a fixture `collector`."""

from __future__ import annotations

from pgdyno.observe.catalogue import every_collector
from pgdyno.observe.collector import Collector, Row

_TYPES = {"int64": int, "float64": float, "text": str}
_INT64 = 1 << 63


class CollectorContract:
    """Rows have the declared columns, types and keys; counters grow; the catalogue knows it."""

    # True if the source exists on every machine, so that the first sample has rows.
    gives_rows = True

    def test_a_collector_is_in_the_catalogue_under_its_name(self, collector: Collector) -> None:
        assert every_collector()[collector.name] is type(collector)
        assert collector.meaning
        assert collector.interval_ns > 0

    def test_every_column_has_unit_and_meaning(self, collector: Collector) -> None:
        for column in collector.columns:
            assert column.unit, column.name
            assert column.meaning, column.name
            assert column.name not in ("time_ns", "interval_ns")

    def test_rows_have_exactly_the_declared_columns_and_types(self, collector: Collector) -> None:
        rows = collector.sample(1)
        assert bool(rows) or not self.gives_rows
        for row in rows:
            assert row.keys() == {column.name for column in collector.columns}
            for column in collector.columns:
                value = row[column.name]
                if value is None:
                    assert column.is_nullable, column.name
                    continue
                assert type(value) is _TYPES[column.dtype], column.name
                if isinstance(value, int):
                    assert -_INT64 <= value < _INT64, column.name

    def test_keys_tell_the_rows_of_one_instant_apart(self, collector: Collector) -> None:
        rows = collector.sample(1)
        keys = [_key(collector, row) for row in rows]
        assert len(set(keys)) == len(keys)

    def test_counters_never_fall_between_two_samples(self, collector: Collector) -> None:
        first = {_key(collector, row): row for row in collector.sample(1)}
        for row in collector.sample(2):
            before = first.get(_key(collector, row), row)
            for column in collector.columns:
                value, earlier = row[column.name], before[column.name]
                if column.nature == "counter" and not column.dips and value is not None:
                    assert isinstance(value, int)
                    assert isinstance(earlier, int)
                    assert value >= earlier, column.name


def _key(collector: Collector, row: Row) -> tuple[object, ...]:
    return tuple(row[column.name] for column in collector.columns if column.nature == "key")
