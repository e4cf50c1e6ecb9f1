"""Clocks that are set meanwhile are noticed; clocks that only differ, or are slewed, are not."""

from __future__ import annotations

from pgdyno.clock import ClockPair, read_pair
from pgdyno.measure.clock_watch import ClockWatch
from pgdyno.observe.round_trips import ServerClock

SECOND_NS = 1_000_000_000


def server(ahead_s: float, *, uncertainty_ms: float = 1.0) -> ServerClock:
    return ServerClock(round(ahead_s * SECOND_NS), round(uncertainty_ms * 1e6))


def test_a_servers_clock_that_was_set_is_named_with_the_step() -> None:
    notice = ClockWatch(read_pair()).notice(server(2.0), server(-58.0))
    assert notice is not None
    assert notice["kind"] == "clock_set"
    assert "the clock of the server by -60.0 s" in notice["message"]
    assert "this host" not in notice["message"]


def test_a_clock_that_is_wrong_all_the_time_was_not_set() -> None:
    watch = ClockWatch(read_pair())
    watch.look()
    assert watch.notice(server(7200.0), server(7200.01)) is None
    assert watch.notice(None, server(7200.0)) is None


def test_a_slow_answer_of_the_server_is_not_a_step_of_its_clock() -> None:
    far = server(0.0, uncertainty_ms=400), server(0.5, uncertainty_ms=400)
    assert ClockWatch(read_pair()).notice(*far) is None


def test_another_clock_of_the_server_is_not_a_step_of_this_hosts_clock() -> None:
    now = read_pair()
    yesterday = ClockPair(now.monotonic_ns, now.unix_ns - 86_400 * SECOND_NS)
    assert ClockWatch(yesterday).notice(None, None) is None
