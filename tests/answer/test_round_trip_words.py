"""How the times of connecting and of SELECT 1 are printed."""

from __future__ import annotations

from typing import Any

from pgdyno.answer.telemetry import _facts


def times(count: int) -> dict[str, Any]:
    return {"count": count, "p50_ns": 200_000, "p95_ns": 400_000, "max_ns": 500_000}


def test_the_longest_of_a_few_connects_is_not_printed_as_their_p95() -> None:
    server = {"round_trips": {"before": {"connect": times(5), "statement": times(200)}}}
    [(_, words)] = _facts(server, None, 0)
    assert words == "connect 0.200 ms (longest of 5: 0.500 ms), SELECT 1: 0.200 ms (p95 0.400 ms)"


def test_a_run_at_a_unix_socket_has_no_time_of_connecting() -> None:
    server = {"round_trips": {"before": {"connect": None, "statement": times(200)}}}
    [(_, words)] = _facts(server, None, 0)
    assert words == "SELECT 1: 0.200 ms (p95 0.400 ms)"
