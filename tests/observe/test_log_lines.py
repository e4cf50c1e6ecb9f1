"""The tail of a log that grows, and the times of its events."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from pgdyno.engine.log_events import events_in
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.log.collector import happened_ns
from pgdyno.observe.log.tails import BYTES_MAX, Tail

T = 1_790_000_000_123_000_000


@pytest.mark.parametrize(
    ("zone", "stamp"),
    [
        ("Europe/Berlin", "2026-09-21 16:13:20.123 CEST"),
        # More than one place has this name of a zone, so the setting decides.
        ("Asia/Kolkata", "2026-09-21 19:43:20.123 IST"),
        ("Asia/Kathmandu", "2026-09-21 19:58:20.123 +0545"),
    ],
)
def test_times_are_read_in_the_zone_of_the_log(zone: str, stamp: str) -> None:
    lines = f"{stamp} [1] LOG:  checkpoint starting: wal\n".encode()
    [event] = events_in(lines, "%m [%p] ")
    assert happened_ns(event, ZoneInfo(zone), T + 1) == T


def test_an_event_of_another_clock_has_the_time_of_its_sample() -> None:
    [event] = events_in(
        b"2020-01-01 00:00:00.000 UTC [1] LOG:  checkpoint starting: wal\n", "%m [%p] "
    )
    assert happened_ns(event, ZoneInfo("UTC"), T) == T


@pytest.mark.parametrize(
    ("line", "prefix"),
    [
        (b"2026-09-21 14:13:20.123 UTC [66] app@shop web ERROR:  23505: no\n", "%m [%p] %u@%d %a "),
        (b"2026-09-21 14:13:20.123 UTC 1a.42 web app ERROR:  no\n", "%m %c %a %u "),
        (
            b'{"timestamp":"2026-09-21 14:13:20.123 UTC","user":"app","dbname":"shop","pid":66,'
            b'"application_name":"web","error_severity":"ERROR","message":"no"}\n',
            "%m ",
        ),
    ],
)
def test_an_error_of_the_log_has_its_session(line: bytes, prefix: str) -> None:
    [event] = events_in(line, prefix)
    assert (event.user, event.application, event.pid) == ("app", "web", 66)


def test_an_error_of_a_log_without_names_has_none() -> None:
    [event] = events_in(b"2026-09-21 14:13:20.123 UTC ERROR:  no\n", "%m ")
    assert (event.user, event.application, event.pid) == ("", "", None)


class GrowingLog:
    """Log files in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"log/1": b"before\n"}
        self.current = "log/1"

    def size_bytes(self, path: str) -> int:
        return len(self.files[path])

    def read(self, path: str, offset: int, length: int) -> bytes:
        return self.files[path][offset : offset + length]


def test_a_tail_gives_whole_new_lines_over_rotations() -> None:
    log = GrowingLog()
    tail = Tail(log, lambda: log.current)
    assert tail.new_lines() == b""
    log.files["log/1"] += b"one\ntw"
    assert tail.new_lines() == b"one\n"
    log.files["log/1"] += b"o\nlost by the rotation"
    assert tail.new_lines() == b"two\n"
    log.files["log/2"], log.current = b"three\n", "log/2"
    assert tail.new_lines() == b"three\n"
    log.files["log/2"] = b""
    assert tail.new_lines() == b""
    log.files["log/2"] = b"four\n"
    assert tail.new_lines() == b"four\n"


def test_a_log_that_grows_too_fast_is_not_read_whole() -> None:
    log = GrowingLog()
    tail = Tail(log, lambda: log.current)
    tail.new_lines()
    log.files["log/1"] += b"x" * BYTES_MAX + b"\nlast\n"
    assert tail.new_lines().endswith(b"\nlast\n")
    assert tail.skipped_bytes == 6


def test_an_unreadable_log_is_reported_at_once() -> None:
    class Closed(GrowingLog):
        def read(self, path: str, offset: int, length: int) -> bytes:
            raise NotMeasurable("no right")

    log = Closed()
    with pytest.raises(NotMeasurable):
        Tail(log, lambda: log.current).new_lines()
