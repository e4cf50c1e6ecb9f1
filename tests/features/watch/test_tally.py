"""What a watch adds up: transactions, waits, gaps and resets, in bounded memory."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.features.watch.samples import SECOND_NS, Row, database, nobody, wait, waits, wal

from pgdyno.analysis.estimate import Estimate
from pgdyno.features.watch import tally as watch_tally
from pgdyno.features.watch.clocks import EventClocks
from pgdyno.features.watch.document import (
    Watched,
    WatchedWork,
    quiet_answer,
    sentence,
    statement_of,
)
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.statements import Calls, KnownTexts
from pgdyno.features.watch.tally import SampleGap, Stretches, Tally
from pgdyno.features.watch.verbs.watch import line_parts, packed, statement_lines
from pgdyno.features.watch.words import call_words, share_words


def tally() -> Tally:
    return Tally(SECOND_NS)


def test_transactions_of_the_whole_server_are_counted_without_our_own() -> None:
    seen = tally()
    seen.take("database", database(1, 1000, own_transactions=40))
    seen.take("database", database(2, 1112, own_transactions=52))
    assert seen.total.transactions == 100
    assert seen.total.tps == 100.0
    assert seen.connections == 12


def test_parallel_workers_are_no_transactions_where_the_server_counts_them() -> None:
    seen = tally()
    worker = [wait("", 1, 4, backend_type="parallel worker")]
    for second, launched in ((1, 0), (2, 96)):
        rows = database(second, 122 * second, parallel_transactions=launched)
        seen.take("waits", worker)
        seen.take("database", rows)
    assert seen.total.tps == 24.0
    assert not seen.total.has_uncounted_workers
    assert sentence(seen, WatchedWork.of(seen)).startswith("24 tps")


def test_transactions_with_parallel_workers_are_no_count_where_nobody_counts_the_workers() -> None:
    seen = tally()
    worker = [wait("", 1, 4, backend_type="parallel worker")]
    for second in (1, 2):
        rows = database(second, 122 * second)
        seen.take("database", [row | {"parallel_transactions": None} for row in rows])
        seen.take("waits", worker)
    assert seen.total.has_uncounted_workers
    assert sentence(seen, WatchedWork.of(seen)).startswith("at most 120 tps")
    assert "tps at most 120" in line_parts(seen.total, 1)


def test_a_transaction_of_ours_counted_one_interval_late_adds_up_to_nothing() -> None:
    seen = tally()
    counted = ((1000, 10), (1011, 22), (1024, 34))  # Twelve in each interval.
    for second, (commits, own) in enumerate(counted, 1):
        seen.take("database", database(second, commits, own_transactions=own))
    assert seen.total.transactions == 0
    seen.take("database", database(4, 1035, own_transactions=46))
    assert seen.total.transactions == -1
    assert seen.total.tps == 0.0


def test_results_from_before_our_own_transactions_were_counted_can_be_read() -> None:
    seen = tally()
    for second, own in ((1, float("nan")), (2, float("nan"))):
        rows = [row | {"own_transactions": own} for row in database(second, second * 7)]
        seen.take("database", rows)
    assert seen.total.tps == 7.0


def test_a_gap_is_counted_as_a_gap_and_not_as_slowness() -> None:
    seen = tally()
    seen.take("database", database(1, 0))
    seen.take("database", database(2, 102))
    seen.take("database", database(11, 9000, interval=0))
    seen.take("database", database(12, 9102))
    assert seen.total.tps == 100.0
    assert seen.gaps == [SampleGap(11 * SECOND_NS, 9 * SECOND_NS)]
    assert seen.seen_ns == 2 * SECOND_NS


def test_a_sample_that_comes_far_too_late_leaves_a_gap() -> None:
    seen = tally()
    seen.take("database", database(1, 0))
    seen.take("database", database(9, 801, interval=8))
    assert seen.gap_count == 1
    assert seen.total.tps is None


@pytest.mark.parametrize("after", [database(2, 5), database(2, 2000, stats_reset_ns=7)])
def test_an_interval_with_a_reset_is_left_out_and_counted(after: list[dict[str, int]]) -> None:
    seen = tally()
    seen.take("database", database(1, 1000))
    seen.take("database", after)
    assert (seen.reset_count, seen.total.transactions, seen.gap_count) == (1, 0, 0)


def test_sessions_at_work_are_a_mean_over_samples_with_nobody_counted() -> None:
    seen = tally()
    seen.take("waits", waits(("IO:WALSync", 1, 3), ("", 2, 1)))
    seen.take("waits", nobody())
    assert seen.total.wait_samples == 2
    assert seen.total.active == 2.0
    assert seen.peak_sessions == 4
    assert seen.total.by_statement == {1: Counter({"IO:WALSync": 3}), 2: Counter({"": 1})}


def test_sessions_that_are_not_at_work_are_left_out() -> None:
    idle = wait("Client:ClientRead", 1, 9, state="idle in transaction")
    other = wait("IO:DataFileRead", 0, 2, backend_type="autovacuum worker")
    seen = tally()
    seen.take("waits", [idle, other])
    assert seen.total.active == 0.0


def test_a_session_that_answered_while_it_was_looked_at_was_at_work() -> None:
    seen = tally()
    seen.take("waits", waits(("Client:ClientRead", 1, 3)))
    assert seen.total.active == 3.0
    assert seen.total.by_event == Counter({"": 3})


def test_the_number_of_active_sessions_is_unknown_without_the_right() -> None:
    unseen = wait("", 0, 9, backend_type="unknown", state="")
    seen = tally()
    seen.take("database", database(1, 0))
    seen.take("database", database(2, 102))
    seen.take("waits", [unseen, wait("Lock:tuple", 1, 1)])
    assert (seen.total.wait_samples, seen.total.active, seen.peak_sessions) == (0, None, 0)
    assert (
        sentence(seen, WatchedWork.of(seen)) == "100 tps, active sessions not visible to this role"
    )


def test_a_server_that_does_not_come_back_leaves_a_gap_until_the_end() -> None:
    seen = tally()
    seen.close(9 * SECOND_NS)
    assert seen.gaps == []
    seen.take("database", database(1, 0))
    seen.take("database", database(2, 102))
    seen.close(4 * SECOND_NS)
    assert seen.gaps == []
    seen.close(9 * SECOND_NS)
    assert seen.gaps == [SampleGap(9 * SECOND_NS, 7 * SECOND_NS)]
    assert seen.gap_count == 1


def test_wal_is_counted_by_its_position_and_a_new_timeline_is_left_out() -> None:
    seen = tally()
    for second, position in ((1, 0), (2, 3_000_000), (3, 1_000), (4, 3_001_000)):
        seen.take("wal", wal(second, position))
    assert seen.total.wal_bytes == 6_000_000
    assert seen.total.wal_bytes_per_second == 3_000_000.0


def test_statements_and_gaps_are_kept_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_tally, "_STATEMENTS_MAX", 10)
    monkeypatch.setattr(watch_tally, "_GAPS_KEPT", 5)
    seen = tally()
    for number in range(1, 200):
        seen.take("waits", waits(("", number, 1)))
        seen.take("database", database(number, 0, interval=0))
    assert len(seen.total.by_statement) == 11
    assert sum(share.total() for share in seen.total.by_statement.values()) == 199
    assert (len(seen.gaps), seen.gap_count) == (6, 198)


def test_a_look_shows_only_what_is_new() -> None:
    seen = tally()
    seen.take("database", database(1, 0))
    seen.take("database", database(2, 12, blks_hit=9, blks_read=1))
    seen.take("waits", waits(("", 1, 2), ("Lock:tuple", 1, 1), ("A:b", 1, 1), ("C:d", 1, 1)))
    seen.take("wal", wal(1, 0))
    seen.take("wal", wal(2, 2_000_000))
    assert line_parts(seen.look(), 12) == [
        "tps 10",
        "active 5/12: CPU? 2, Lock:tuple 1, A:b 1, other 1",
        "WAL 2.0 MB/s",
        "hits 90 %",
    ]
    assert line_parts(seen.look(), 12) == []


@pytest.mark.parametrize(("until", "is_short"), [(6, True), (20, False)])
def test_a_busy_server_is_not_called_healthy_after_a_few_seconds(
    until: int, is_short: bool
) -> None:
    seen = tally()
    for second in range(until + 1):
        seen.take("database", database(second, 10 * second))
        for _ in range(10):
            seen.take("waits", waits(("", 1, 3)))
    answer = quiet_answer(seen, WatchedWork.of(seen), [])
    assert answer.startswith("too short to judge statements, watch 12 s or longer: ") is is_short
    assert answer.startswith("nothing found that is wrong: ") is not is_short


def test_an_answer_that_is_not_urgent_names_its_cause() -> None:
    forced = IncidentFinding(
        kind="forced checkpoints", said="", next_step="", answer="9 of 14 checkpoints were forced"
    )
    seen = tally()
    quiet = quiet_answer(seen, WatchedWork.of(seen), [forced, forced])
    assert quiet == "not urgent: 9 of 14 checkpoints were forced and 1 more"


def test_the_sentence_says_when_nothing_was_seen() -> None:
    seen = tally()
    assert sentence(seen, WatchedWork.of(seen)) == "nothing was observed"
    seen.take("database", database(1, 0))
    seen.take("database", database(2, 1002))
    seen.take("waits", waits(("", 1, 3)))
    seen.take("database", database(9, 2000, interval=0))
    assert sentence(seen, WatchedWork.of(seen)) == "1,000 tps, at most 3 active sessions; 1 gap"
    # One sample of three sessions does not say what most of the time is.
    for _ in range(9):
        seen.take("waits", waits(("", 1, 3)))
    assert "; 100 % of DB time is CPU or not instrumented; 1 gap" in sentence(
        seen, WatchedWork.of(seen)
    )


def test_a_call_of_commit_takes_its_share_of_db_time_with_the_wait_for_its_flush() -> None:
    seen = tally()
    seen.take("database", database(1, 0))
    for second in (2, 3):
        seen.take("database", database(second, 100 * second))
        seen.take("waits", waits(("IO:WALSync", 7, 1), ("Lock:tuple", 8, 1)))
    counted = {"lasted_ns": 2_000_000_000, "asked_ns": 2_000_000_000, "began_utc": ""}
    watched = Watched(seen, **counted, is_complete=True, is_local=True, version="", cost_ns=None)
    after = Calls({7: (500, 0.2)}, at_ns=2_000_000_000)
    statement = statement_of(watched, WatchedWork.of(seen), 7, before=Calls(), after=after)
    assert statement["share_ratio"] == 0.5
    assert statement["ms_per_call"] == pytest.approx(0.0004)
    # One session at work for the 2 s that were seen, over 500 calls.
    assert statement["db_ms_per_call"] == pytest.approx(4.0)


def at_work_for(seconds: int, each_second: int, *, active_ns: int, own_ns: int = 0) -> Tally:
    """Return what was seen of a server with this growth of active_time in each second."""
    seen = tally()
    for second in range(seconds + 1):
        counts = {"active_time_ns": 7 + second * active_ns, "own_active_ns": second * own_ns}
        both = {**counts, "own_active_least_ns": second * own_ns}
        seen.take("database", database(second, 100 * second, **both))
        for sample in range(each_second):
            # In the second half a lock is waited for; a statement shows up in one sample of all.
            event = "Lock:tuple" if second > seconds / 2 else ""
            query = 9 if (second, sample) == (1, 1) else 7
            seen.take("waits", waits((event, query, 2), ("", 8, 1)))
    return seen


def test_sessions_at_work_are_the_servers_count_without_our_own() -> None:
    seen = at_work_for(30, 10, active_ns=3_300_000_000, own_ns=100_000_000)
    at_work = seen.at_work()
    assert at_work is not None
    assert (at_work.how, at_work.mean.value) == ("counted", pytest.approx(3.2))
    work = WatchedWork.of(seen)
    assert sum(work.sessions(share).value for share in work.by_event.values()) == pytest.approx(3.2)
    assert sum(work.sessions(share).value for share in work.by_statement.values()) == pytest.approx(
        3.2
    )
    assert sentence(seen, WatchedWork.of(seen)).startswith(
        "98 tps, 3.20 active sessions on average, at most 3; "
    )


def test_the_sentence_says_when_the_server_has_little_to_do() -> None:
    seen = tally()
    for second in range(31):
        counts = {"active_time_ns": 7 + second * 100_000_000, "own_active_ns": 0}
        counts |= {"own_active_least_ns": 0}
        seen.take("database", database(second, 4_000 * second, **counts))
        for look in range(10):
            seen.take("waits", waits(("", 1, 1)) if look == 0 else nobody())
    said = sentence(seen, WatchedWork.of(seen))
    assert said.startswith("3,998 tps, 0.1")
    assert said.endswith(
        "the server mostly waits for its clients: look at the application and the network"
    )


def reading(*, read_ns: int, active_ns: int = 2_000_000_000) -> Tally:
    """Return a watch of 30 s with these growths each second; samples see a quarter of it reading.

    Once a second, a vacuum reads, too.
    """
    seen = tally()
    for second in range(31):
        counts = {"active_time_ns": 7 + second * active_ns, "own_active_ns": 0}
        counts |= {"own_active_least_ns": 0, "blk_read_time_ns": second * read_ns}
        seen.take("database", database(second, 100 * second, **counts))
        for sample in range(8):
            groups = [("", 7, 1), ("IO:DataFileRead" if sample % 2 else "Lock:tuple", 7, 1)]
            vacuum = wait("IO:DataFileRead", 0, 1, backend_type="autovacuum worker")
            seen.take("waits", [*waits(*groups), *([vacuum] if sample == 1 else [])])
    return seen


def test_reading_is_what_the_servers_clock_counted_and_samples_divide_the_rest() -> None:
    # Clients are in four of five sightings of reading: 1.2 of 1.5 sessions by the clock.
    work = WatchedWork.of(reading(read_ns=1_500_000_000))
    sessions = {event: work.sessions(share).value for event, share in work.by_event.items()}
    assert sessions["IO:DataFileRead"] == pytest.approx(1.2)
    # Without a wait event twice as often as in a lock, in 0.8 sessions.
    assert sessions[""] == pytest.approx(0.8 * 2 / 3)
    assert sessions["Lock:tuple"] == pytest.approx(0.8 / 3)
    assert work.counted == {"IO:DataFileRead"}
    share = work.by_event["IO:DataFileRead"]
    assert share.low is not None
    assert share.low < 0.6 < (share.high or 0.0)


def test_an_io_worker_has_no_share_of_the_clock_of_the_session_that_it_reads_for() -> None:
    clocks = EventClocks()
    clocks.take("blk_read_time_ns", 600, 1000)
    worker = wait("IO:DataFileRead", 0, 2, backend_type="io worker", state="")
    clocks.take_sample([wait("IO:AioIoCompletion", 7, 1), worker])
    event = ("IO:AioIoCompletion",)
    assert clocks.counted({event[0]: 1}) == [(event, pytest.approx(0.6), pytest.approx(1.8))]


def test_the_sentence_of_a_watch_names_the_event_that_the_clock_makes_the_largest() -> None:
    seen = reading(read_ns=2_000_000_000)
    assert "; 80 % of DB time is IO:DataFileRead" in sentence(seen, WatchedWork.of(seen))


@pytest.mark.parametrize("read_ns", [0, 3_000_000_000])
def test_a_clock_that_is_off_or_counts_more_than_all_sessions_binds_nothing(read_ns: int) -> None:
    work = WatchedWork.of(reading(read_ns=read_ns))
    assert work.sessions(work.by_event["IO:DataFileRead"]).value == pytest.approx(0.5)
    assert not work.counted


def test_a_clock_that_was_reset_adds_nothing_for_that_interval() -> None:
    clocks = EventClocks()
    for grown_ns in (500, -9000, 300):
        clocks.take("write_time_ns", grown_ns, 1000)
    assert clocks.counted({}) == [(("IO:WalWrite",), pytest.approx(0.4), 0.0)]


def test_an_event_seen_a_few_times_has_only_an_upper_end() -> None:
    seen = at_work_for(30, 10, active_ns=3_000_000_000)
    counted = {"lasted_ns": 30 * SECOND_NS, "asked_ns": 30 * SECOND_NS, "began_utc": ""}
    watched = Watched(seen, **counted, is_complete=True, is_local=True, version="", cost_ns=None)
    after = Calls({7: (900, 9.0), 9: (10, 0.1)}, at_ns=30 * SECOND_NS)
    often, few = (
        statement_of(watched, WatchedWork.of(seen), query, before=Calls(), after=after)
        for query in (7, 9)
    )
    assert call_words(often).startswith("66.")
    assert share_words(often).startswith("66.")
    assert few["sightings"] == 2
    assert call_words(few).startswith("under ")
    assert share_words(few) == "under 0.8 %"


def test_a_watch_of_days_keeps_few_stretches_and_no_sample_is_lost() -> None:
    stretches = Stretches()
    for number in range(10_000):
        stretches.begin()
        stretches.add("Lock:tuple" if number % 2 else "", number % 3, 2)
    events = stretches.events(1000.0, seed=1)
    assert dict(zip(events.events, events.point_count, strict=True)) == {"": 1.0, "Lock:tuple": 1.0}
    assert stretches.statements(1000.0, seed=1).point_count.sum() == pytest.approx(2.0)
    assert len(stretches._kept) <= 240


def test_the_lag_of_the_slowest_standby_is_known_and_none_without_standbys() -> None:
    seen = tally()
    assert seen.replay_lag_ns is None
    lags = (200_000_000, None, float("nan"))
    seen.take("replication", [{"replay_lag_ns": lag} for lag in lags])
    assert seen.replay_lag_ns == 200_000_000


def disk(second: float, **bytes_of: tuple[int, int]) -> list[Row]:
    stamp = {"time_ns": int(second * SECOND_NS), "interval_ns": SECOND_NS}
    return [
        {**stamp, "device": device, "read_bytes": read, "write_bytes": written}
        for device, (read, written) in bytes_of.items()
    ]


def test_the_disk_that_does_most_is_shown_since_one_can_lie_on_another() -> None:
    seen = tally()
    seen.take("disk", disk(1, vda=(0, 0), dm0=(0, 0)))
    seen.take("disk", disk(3, vda=(2_000_000, 12_000_000), dm0=(1_000_000, 12_000_000)))
    assert line_parts(seen.look(), 12) == ["disk 6.0 MB/s out, 1.0 in"]
    assert line_parts(seen.look(), 12) == []


def test_on_a_narrow_terminal_the_live_line_wraps_without_loss() -> None:
    parts = ["tps 309", "active 1.2/8", "WAL 0.2 MB/s", "lag 1.5 s"]
    assert packed("03:36:23", parts, 79) == [
        "03:36:23 tps 309  active 1.2/8  WAL 0.2 MB/s  lag 1.5 s"
    ]
    assert packed("03:36:23", parts, 45) == [
        "03:36:23 tps 309  active 1.2/8  WAL 0.2 MB/s",
        "         lag 1.5 s",
    ]
    assert packed("03:36:23", parts[:1], 5) == ["03:36:23 tps 309"]


def test_the_statements_at_work_are_named_with_what_they_wait_for() -> None:
    seen = tally()
    seen.take("waits", waits(("IO:WALSync", 7, 6), ("", 7, 1), ("", 8, 2), ("Lock:tuple", 0, 1)))
    texts = KnownTexts({7: "COMMIT", 8: "SELECT  1\n FROM t"})
    assert statement_lines(seen.look(), texts) == [
        "   70 %  COMMIT                                        IO:WALSync",
        "   20 %  SELECT 1 FROM t                               CPU?",
    ]
    seen.take("waits", waits(("", 9, 1)))
    assert statement_lines(seen.look(), KnownTexts({})) == [f"  100 %  {'query 9':44}  CPU?"]
    assert statement_lines(seen.look(), KnownTexts({})) == []


def sampled_of(numbers: Sequence[int]) -> Estimate:
    """Return the mean of numbers of sessions, one in each second."""
    stretches = Stretches()
    for number in numbers:
        stretches.begin()
        stretches.add("", 1, number)
    mean = stretches.mean(len(numbers))
    assert mean is not None
    return mean


def test_the_mean_of_the_sessions_at_work_has_an_interval() -> None:
    numbers = [0, 4, 1, 3, 2, 2, 5, 0, 3, 1, 4, 2]
    few = sampled_of(numbers[:7])
    assert (few.value, few.low) == (pytest.approx(statistics.mean(numbers[:7])), None)
    mean = sampled_of(numbers)
    assert mean.value == pytest.approx(statistics.mean(numbers))
    assert mean.low is not None
    assert mean.high is not None
    assert 0 < mean.low < mean.value < mean.high < 4


def test_sessions_that_stay_for_several_samples_make_the_interval_wider() -> None:
    narrow, wide = sampled_of([0, 3] * 50), sampled_of([0] * 50 + [3] * 50)
    assert narrow.high is not None
    assert wide.high is not None
    assert wide.high - wide.value > 5 * (narrow.high - narrow.value)
    always = sampled_of([1] * 30)
    assert (always.low, always.high) == pytest.approx((0.9, 1.1))
