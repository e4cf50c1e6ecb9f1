"""Records of older engines are read: their results are stored."""

from __future__ import annotations

from typing import Any

from pgdyno.engine.records import Summary

# As contract 1.12 wrote it, without what may be absent.
FLAT: dict[str, Any] = {
    "record": "summary",
    "time_ns": 9,
    "ending": "completed",
    "phases": [],
    "counts": {},
    "transactions_committed_all_phases": 7,
    "scripts": [],
    "failures": {},
    "distributions": [],
    "unfinished_ages_ns": [],
    "between_transactions_ns": 11,
    "think_time_ns": 12,
    "connections_lost": 2,
    "reconnects": 1,
    "idle": {"opened_count": 4, "alive_count": 3},
    "round_trips": 70,
    "bytes_sent": 700,
    "bytes_received": 800,
    "cpu_user_ns": 50,
    "cpu_system_ns": 60,
    "resident_bytes_max": 4096,
    "threads": [],
}


def test_a_summary_without_groups_is_read_as_one_with_groups() -> None:
    summary = Summary.model_validate(FLAT)
    assert summary.clients.between_transactions_ns == 11
    assert (summary.clients.think_time_ns, summary.clients.fairness) == (12, None)
    assert (summary.connections.lost_count, summary.connections.reconnect_count) == (2, 1)
    assert summary.connections.idle is not None
    assert (summary.traffic.round_trips, summary.traffic.bytes_received) == (70, 800)
    assert (summary.engine.cpu_user_ns, summary.engine.resident_bytes_max) == (50, 4096)


def test_a_summary_with_groups_is_written_and_read_alike() -> None:
    summary = Summary.model_validate(FLAT)
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
