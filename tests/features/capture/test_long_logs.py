"""Captures of long logs: memory has a limit, and nothing is counted less for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.features.capture import mixed_logs as logs
from tests.features.capture.test_log_transactions import READ, entry

from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.reading import log_grouping, log_seconds
from pgdyno.features.capture.reading.log import Logged, LogRequest
from pgdyno.features.capture.reading.log_seconds import Seconds
from pgdyno.features.capture.reading.means import MeansOfStatements
from pgdyno.features.capture.reading.names import Names


def read(path: Path, database: str, prefix: str | None = None) -> Logged:
    return Logged(
        LogRequest([path], database, prefix),
        Names({"public.pgbench_accounts": ["aid"]}, ["public"]),
    )


def joined(logged: Logged) -> Capture:
    return logged.joined(logs.EMPTY, lambda _: {}, {}, MeansOfStatements(()))


def test_fewer_transactions_are_kept_if_all_take_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    logs.write_mixed_log(path, 4_000_000)
    whole = joined(read(path, "db"))
    limit_bytes = 200_000
    monkeypatch.setattr(log_grouping, "_KEPT_BYTES_MAX", limit_bytes)
    logged = read(path, "db")
    groups = logged.grouping.groups.values()
    sizes = [len(kept.packed) + 250 for group in groups for kept in group.kept]
    assert limit_bytes / 4 < sum(sizes) <= limit_bytes
    short = joined(logged)
    assert len(short.templates) == len(whole.templates)
    rates = [(t.name, t.rate_tps) for t in whole.templates]
    assert [(t.name, t.rate_tps) for t in short.templates] == rates
    calls = {s.id: s.counters.calls for s in whole.statements}
    assert all(s.counters.calls == pytest.approx(calls[s.id], 0.1) for s in short.statements)


def test_a_curve_of_many_seconds_has_longer_intervals_and_the_same_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_seconds, "_COUNTED_MAX", 100)
    seconds = Seconds()
    for second in range(1000):
        seconds.add(second * 1_000_000, 500_000)
    arrivals = seconds.arrivals(1)
    assert arrivals.interval_s == 16
    assert sum(arrivals.transactions) == seconds.total == 1000
    assert arrivals.active_sessions[1] == 0.5


def test_sessions_that_are_forgotten_leave_what_they_began(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    many = 70_000
    begun = entry("0.1", 0, "BEGIN") + entry("0.1", 0, READ, ["1"])
    lines = (entry(f"{number:x}.2", 1, READ, ["1"]) for number in range(many))
    path.write_text(begun + "".join(lines) + entry("0.1", 2, "COMMIT"))
    logged = read(path, "core", "%m [%p] %u@%d %c ")
    assert sum(group.count for group in logged.grouping.groups.values()) == many
    cut = "transactions began before the logs or ended after them"
    assert any(note.startswith(cut) for note in logged.notes())


@pytest.mark.slow
def test_a_log_that_is_three_times_as_long_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for megabytes in (300, 900):
        path = tmp_path / f"{megabytes}.log"
        logs.write_mixed_log(path, megabytes * 1_000_000)
        peaks.append(logs.capture(path).resident_bytes_max)
        path.unlink()
    assert peaks[1] < 1.1 * peaks[0], peaks
