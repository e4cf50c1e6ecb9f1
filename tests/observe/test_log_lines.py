"""Lines of logs as servers of several versions write them, in all three formats."""

from __future__ import annotations

import json
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.log.lines import (
    LogEvent,
    events_of_csv,
    events_of_json,
    events_of_stderr,
    prefix_pattern,
)
from pgdyno.observe.log.tails import BYTES_MAX, Tail

DEFAULT = "%m [%p] "
T = 1_790_000_000_123_000_000
STAMP = "2026-09-21 14:13:20.123 UTC"
CHECKPOINT_15 = (
    "checkpoint complete: wrote 34 buffers (0.2%); 0 WAL file(s) added, 0 removed, 1 recycled;"
    " write=3.305 s, sync=0.004 s, total=3.345 s; sync files=9, longest=0.002 s, average=0.001 s;"
    " distance=267 kB, estimate=267 kB"
)
VACUUM = (
    'automatic vacuum of table "bank.public.pgbench_branches": index scans: 0\n'
    "\tpages: 0 removed, 3 remain, 3 scanned (100.00% of total)\n"
    "\tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.25 s"
)


def events(message: str, severity: str = "LOG", prefix: str = DEFAULT) -> list[LogEvent]:
    text = f"{STAMP} [42] {severity}:  {message}"
    return list(events_of_stderr(text.split("\n"), prefix_pattern(prefix), UTC))


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("checkpoint starting: time", LogEvent(T, "checkpoint_began", "LOG", what="time")),
        (
            "checkpoint starting: immediate force wait",
            LogEvent(T, "checkpoint_began", "LOG", what="immediate force wait"),
        ),
        (CHECKPOINT_15, LogEvent(T, "checkpoint", "LOG", duration_ns=3_345_000_000)),
        (
            'temporary file: path "base/pgsql_tmp/pgsql_tmp99.0", size 14000000',
            LogEvent(T, "temporary_file", "LOG", size_bytes=14_000_000),
        ),
        (
            "process 9 still waiting for ShareLock on transaction 745 after 1000.090 ms",
            LogEvent(T, "lock_wait", "LOG", what="ShareLock", duration_ns=1_000_090_000),
        ),
        (
            VACUUM,
            LogEvent(
                T, "autovacuum", "LOG", what="bank.public.pgbench_branches",
                duration_ns=250_000_000,
            ),
        ),
        (
            "duration: 1234.500 ms  statement: SELECT 'secret'",
            LogEvent(T, "slow_statement", "LOG", duration_ns=1_234_500_000),
        ),
        (
            "server process (PID 7) was terminated by signal 9: Killed",
            LogEvent(T, "crash", "LOG", what="signal 9"),
        ),
    ],
)  # fmt: skip
def test_log_events_are_kept_without_their_messages(message: str, event: LogEvent) -> None:
    assert events(message) == [event]


def test_errors_are_counted_and_talk_is_not() -> None:
    assert [event.kind for event in events("deadlock detected", "ERROR")] == ["deadlock"]
    assert [event.kind for event in events('relation "x" does not exist', "ERROR")] == ["error"]
    assert events("connection received: host=1.2.3.4") == []
    assert events("whatever", "DETAIL") == []


@pytest.mark.parametrize(
    ("prefix", "line"),
    [
        ("%m [%p] ", f"{STAMP} [7] "),
        ("%t:%r:%u@%d:[%p]: ", "2026-09-21 14:13:20 UTC:10.0.0.1(5):me@db:[7]: "),
        ("%n %e %q%a ", "1790000000.123 40P01 psql "),
        ("%q%-10p|%m|%%|", f"7         |{STAMP}|%|"),
        ("", ""),
    ],
)
def test_lines_are_read_behind_any_prefix(prefix: str, line: str) -> None:
    pattern = prefix_pattern(prefix)
    [event] = events_of_stderr([f"{line}ERROR:  deadlock detected"], pattern, UTC)
    assert event.kind == "deadlock"
    assert event.sqlstate == ("40P01" if "%e" in prefix else "")
    assert not prefix or event.time_ns // 1_000_000_000 == T // 1_000_000_000


def test_times_are_read_in_the_logs_own_zone() -> None:
    line = "2026-09-21 16:13:20.123 CEST [1] LOG:  checkpoint starting: wal"
    [event] = events_of_stderr([line], prefix_pattern(DEFAULT), ZoneInfo("Europe/Berlin"))
    assert event.time_ns == T


def test_csv_and_json_tell_the_same() -> None:
    fields = [STAMP, *("" for _ in range(10)), "ERROR", "40P01", "deadlock detected", "", ""]
    [of_csv] = events_of_csv([",".join(fields)], UTC)
    row = {"timestamp": STAMP, "error_severity": "ERROR", "state_code": "40P01"}
    text = json.dumps({**row, "message": "deadlock detected"})
    [of_json] = events_of_json([text, "{cut"], UTC)
    assert of_csv == of_json == LogEvent(T, "deadlock", "ERROR", "40P01")


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
    assert tail.new_lines() == []
    log.files["log/1"] += b"one\ntw"
    assert tail.new_lines() == ["one"]
    log.files["log/1"] += b"o\nlost by the rotation"
    assert tail.new_lines() == ["two"]
    log.files["log/2"], log.current = b"three\n", "log/2"
    assert tail.new_lines() == ["three"]
    log.files["log/2"] = b""
    assert tail.new_lines() == []
    log.files["log/2"] = b"four\n"
    assert tail.new_lines() == ["four"]


def test_a_log_that_grows_too_fast_is_not_read_whole() -> None:
    log = GrowingLog()
    tail = Tail(log, lambda: log.current)
    tail.new_lines()
    log.files["log/1"] += b"x" * BYTES_MAX + b"\nlast\n"
    assert tail.new_lines()[-1] == "last"
    assert tail.skipped_bytes == 6


def test_an_unreadable_log_is_reported_at_once() -> None:
    class Closed(GrowingLog):
        def read(self, path: str, offset: int, length: int) -> bytes:
            raise NotMeasurable("no right")

    log = Closed()
    with pytest.raises(NotMeasurable):
        Tail(log, lambda: log.current).new_lines()
