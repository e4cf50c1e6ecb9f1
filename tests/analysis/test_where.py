"""Where the time goes: parts and residual are the latency, and nothing counts twice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.where_samples import LATENCY, MS, ROOM, exact, facts, samples

from pgdyno.analysis.where import WhereTheTimeGoes, where_the_time_goes
from pgdyno.analysis.where_facts import ANSWERING, CountedEvents, WaitSamples
from pgdyno.analysis.where_statements import StatementPlace, named_statements
from pgdyno.errors import AnalysisError


def parts_ms(where: WhereTheTimeGoes) -> dict[str, float]:
    return {part.name: round(part.ms.value, 6) for part in where.parts}


def test_server_time_is_active_time_and_samples_only_split_it() -> None:
    waits = exact({"IO:WALSync": 3, "": 1})
    where = where_the_time_goes(facts(samples=waits), seed=1)
    assert parts_ms(where) == {"IO:WALSync": 6.0, "CPU or not instrumented": 2.0}
    assert where.server_ms == 8.0
    assert where.residual_ms == pytest.approx(2.0)
    assert where.residual_ratio == pytest.approx(0.2)


def test_samples_alone_give_server_time_by_littles_law() -> None:
    # 4 sessions active at every instant for 60 s, over 6,000 transactions: 40 ms each.
    where = where_the_time_goes(facts(samples=exact({"IO:WALSync": 3, "": 1})), seed=1)
    assert where.sampled_server_ms == pytest.approx(40.0)
    old = where_the_time_goes(
        facts(samples=exact({"IO:WALSync": 3, "": 1}), server_active_ms=None), seed=1
    )
    assert parts_ms(old)["IO:WALSync"] == pytest.approx(30.0)


def test_instants_without_active_sessions_count_in_the_sampled_time() -> None:
    waits = exact({"": 4})
    half = WaitSamples(np.arange(200) * 100 * MS, waits.time_ns, waits.event, waits.session_count)
    where = where_the_time_goes(facts(samples=half), seed=1)
    assert where.sampled_server_ms == pytest.approx(20.0)


def test_parts_and_residual_are_exactly_the_latency() -> None:
    where = where_the_time_goes(
        facts(
            samples=samples({"IO:WALSync": 3.0, "LWLock:WALWrite": 0.7, "": 1.1}),
            engine_round_trip_count=7.0,
            exchange_ns=30_000.0,
            engine_cpu_ns=50_000.0,
            engine_schedule_lag_ns=20_000.0,
            engine_connection_wait_ns=10_000.0,
            backends_cpu_ns=6000 * 1.2 * MS,
            backends_runqueue_ns=6000 * 0.3 * MS,
        ),
        seed=1,
    )
    total = math.fsum(part.ms.value for part in where.parts) + where.residual_ms
    assert total == pytest.approx(where.latency_ms.value, abs=1e-12)
    assert {part.side for part in where.parts} == {"server", "network", "client", "schedule"}


def test_the_wait_for_a_pooler_is_a_separate_part() -> None:
    without = where_the_time_goes(facts(), seed=1)
    waited_ns = facts().transaction_count * 0.5 * MS
    where = where_the_time_goes(facts(pooler_wait_ns=waited_ns), seed=1)
    [part] = [
        some_part for some_part in where.parts if some_part.name == "wait for a pooled session"
    ]
    assert part.ms.value == pytest.approx(0.5)
    assert where.residual_ms == pytest.approx(without.residual_ms - 0.5)


def test_parts_that_exceed_the_latency_leave_a_negative_residual() -> None:
    where = where_the_time_goes(facts(server_active_ms=72_000.0), seed=1)
    assert parts_ms(where) == {"server": 12.0}
    assert where.residual_ms == pytest.approx(-2.0)


def test_cpu_of_the_client_inside_the_round_trip_is_taken_off_the_network() -> None:
    trips = {"engine_round_trip_count": 7.0, "exchange_ns": 30_000.0, "engine_cpu_ns": 100_000.0}
    assert parts_ms(where_the_time_goes(facts(**trips), seed=1)) == {
        "server": 8.0,
        "network": 0.11,
        "client": 0.1,
    }
    apart = where_the_time_goes(facts(**trips, exchange_client_cpu_ns=10_000.0), seed=1)
    assert parts_ms(apart)["network"] == 0.14


def test_work_of_both_ends_for_an_exchange_is_not_network_time() -> None:
    trips = {"engine_round_trip_count": 7.0, "exchange_ns": 1_030_000.0, "engine_cpu_ns": 100_000.0}
    where = where_the_time_goes(facts(**trips, exchange_runnable_ns=30_000.0), seed=1)
    assert parts_ms(where)["network"] == 7.0
    here = {**trips, "exchange_ns": 25_000.0, "exchange_runnable_ns": 30_000.0}
    assert "network" not in parts_ms(where_the_time_goes(facts(**here), seed=1))


def test_schedstat_splits_time_without_wait_event() -> None:
    # 2 ms without wait event: 1.5 on a core, 0.3 waiting for one, 0.2 neither.
    where = where_the_time_goes(
        facts(
            samples=exact({"IO:WALSync": 3, "": 1}),
            backends_cpu_ns=6000 * 1.5 * MS,
            backends_runqueue_ns=6000 * 0.3 * MS,
        ),
        seed=1,
    )
    assert parts_ms(where) == {
        "IO:WALSync": 6.0,
        "CPU": 1.5,
        "CPU or not instrumented": 0.2,
        "waiting for a core": 0.3,
    }


def test_waiting_for_a_core_with_a_statement_in_the_socket_is_as_often_as_exchanges() -> None:
    # 2 ms without wait event are all on a core. 1.5 ms more were spent runnable, on 10 occasions;
    # 8 of them with a statement waiting, which active_time does not hold: 1.2 ms. The rest were at
    # the ends of wait events, and are within their 6 ms.
    where = where_the_time_goes(
        facts(
            samples=exact({"IO:WALSync": 3, "": 1}),
            engine_round_trip_count=8.0,
            backends_cpu_ns=6000 * 2.0 * MS,
            backends_runqueue_ns=6000 * 1.5 * MS,
            backends_slice_count=6000 * 10.0,
        ),
        seed=1,
    )
    assert parts_ms(where) == {"IO:WALSync": 6.0, "CPU": 2.0, "waiting for a core": 1.2}
    assert where.residual_ms == pytest.approx(0.8)
    assert where.scheduled is not None
    assert where.scheduled.inside_events_ms == pytest.approx(0.3)


def test_work_of_a_backend_after_its_answer_is_not_in_the_latency() -> None:
    # 8 ms in state active, all without wait event; 3 ms more of CPU outside of it, and 1.5 of the
    # client's own: 12.5 of 10 ms. What exceeds came after the answer; more than 3 ms did not.
    counted = {"samples": exact({"": 1}), "backends_cpu_ns": 6000 * 11.0 * MS}
    counted |= {"backends_runqueue_ns": 0.0}
    where = where_the_time_goes(facts(**counted, engine_cpu_ns=1.5 * MS), seed=1)
    assert parts_ms(where) == {"CPU": 8.5, "client": 1.5}
    assert where.residual_ms == pytest.approx(0.0)
    assert where.scheduled is not None
    assert where.scheduled.after_answer_ms == pytest.approx(2.5)
    beyond = where_the_time_goes(facts(**counted, engine_cpu_ns=4.0 * MS), seed=1)
    assert parts_ms(beyond) == {"CPU": 8.0, "client": 4.0}
    assert beyond.residual_ms == pytest.approx(-2.0)


def test_sessions_on_the_sampler_s_core_are_added_to_the_count() -> None:
    # 2 sessions on 4 cores at any time, as the kernel counted; 1 of them without event was seen,
    # half a session more could not be: 4 + 0.5 active sessions, 40 + 5 ms.
    counted = {
        "backends_cpu_ns": 6000 * 20.0 * MS,
        "backends_runqueue_ns": 0.0,
        "backends_core_count": 4,
    }
    counted |= ROOM
    waits = exact({"IO:WALSync": 3, "": 1})
    where = where_the_time_goes(facts(samples=waits, server_active_ms=None, **counted), seed=1)
    assert where.sampled_server_ms == pytest.approx(45.0)
    exactly = where_the_time_goes(facts(samples=waits, server_active_ms=270_000, **counted), seed=1)
    assert parts_ms(exactly) == {"IO:WALSync": 30.0, "CPU": 20.0}
    # Where none was seen, they are sessions at work.
    waits = exact({"IO:WALSync": 3})
    where = where_the_time_goes(facts(samples=waits, server_active_ms=None, **counted), seed=1)
    assert where.sampled_server_ms == pytest.approx(35.0)


def test_no_session_is_added_to_samples_that_took_a_core_at_once() -> None:
    # The kernel counted 2 sessions on a core. Who is not without wait event was at work inside one.
    counted = {
        "backends_cpu_ns": 6000 * 20.0 * MS,
        "backends_runqueue_ns": 0.0,
        "backends_core_count": 4,
    }
    waits = replace(exact({"IO:WALSync": 3, "": 1}), with_priority=True)
    where = where_the_time_goes(
        facts(samples=waits, server_active_ms=None, **counted, **ROOM),
        seed=1,
    )
    assert where.sampled_server_ms == pytest.approx(40.0)


def test_statements_wait_no_less_for_a_core_where_sessions_on_one_are_seldom_sampled() -> None:
    # 1 ms without wait event was sampled, and 2 ms spent on a core.
    where = where_the_time_goes(
        facts(
            **ROOM,
            samples=exact({"IO:WALSync": 7, "": 1}),
            engine_round_trip_count=8.0,
            backends_cpu_ns=6000 * 2.0 * MS,
            backends_runqueue_ns=6000 * 1.5 * MS,
            backends_slice_count=6000 * 10.0,
        ),
        seed=1,
    )
    assert parts_ms(where) == {"IO:WALSync": 7.0, "CPU": 2.0, "waiting for a core": 1.2}


def test_parts_do_not_fill_what_the_latency_has_room_for() -> None:
    # All 4 ms of waiting for a core are at the ends of wait events: 2 ms stay unexplained.
    where = where_the_time_goes(
        facts(
            samples=exact({"IO:WALSync": 3, "": 1}),
            backends_cpu_ns=6000 * 2.0 * MS,
            backends_runqueue_ns=6000 * 4.0 * MS,
        ),
        seed=1,
    )
    assert "waiting for a core" not in parts_ms(where)
    assert where.residual_ms == pytest.approx(2.0)


def test_answering_is_outside_active_time_and_cpu() -> None:
    # 4 sessions active are 40 ms, so the one that answers is 10 ms in addition: 20 ms without wait
    # event, of which 15 on a core.
    where = where_the_time_goes(
        facts(
            **ROOM,
            samples=exact({"IO:WALSync": 3, "": 1, ANSWERING: 1}),
            server_active_ms=6000 * 40.0,
            backends_cpu_ns=6000 * 15.0 * MS,
            backends_runqueue_ns=6000 * 20.0 * MS,
        ),
        seed=1,
    )
    assert parts_ms(where) == {"IO:WALSync": 30.0, "CPU": 15.0, "waiting for a core": 5.0}
    assert where.server_ms == 40.0
    assert where.sampled_server_ms == pytest.approx(40.0)


def test_counts_of_the_server_do_not_describe_answering_sessions() -> None:
    # It counts a fifth of what was sampled: the active sessions' 40 ms are 8, the other's stay 10.
    where = where_the_time_goes(
        facts(
            **ROOM,
            samples=exact({"IO:WALSync": 3, "": 1, ANSWERING: 1}),
            backends_cpu_ns=6000 * 12.0 * MS,
            backends_runqueue_ns=6000 * 6.0 * MS,
        ),
        seed=1,
    )
    assert parts_ms(where) == {"IO:WALSync": 6.0, "CPU": 12.0}


def test_waiting_for_a_core_that_was_sampled_is_not_waited_for_again_before_a_statement() -> None:
    # 2 ms without wait event, 0.5 on a core: 1.5 of the 1.8 ms that the kernel counted were seen,
    # and 0.3 are left for statements in their sockets, on all occasions there were.
    where = where_the_time_goes(
        facts(
            samples=exact({"IO:WALSync": 3, "": 1}),
            engine_round_trip_count=8.0,
            backends_cpu_ns=6000 * 0.5 * MS,
            backends_runqueue_ns=6000 * 1.8 * MS,
            backends_slice_count=6000 * 8.0,
        ),
        seed=1,
    )
    assert parts_ms(where) == {"IO:WALSync": 6.0, "CPU": 0.5, "waiting for a core": 1.8}


def test_replies_that_wait_for_the_load_engine_are_the_clients_time() -> None:
    where = where_the_time_goes(facts(engine_reply_wait_ns=1.5 * MS), seed=1)
    assert parts_ms(where) == {"server": 8.0, "waiting for the load engine": 1.5}


def test_pages_are_copied_on_a_core_inside_the_wait_and_nothing_counts_twice() -> None:
    # 8 ms in the server, all of it on a core: 2 without wait event, 6 while it copied pages.
    where = where_the_time_goes(
        facts(
            samples=exact({"IO:BufFileWrite": 3, "": 1}),
            backends_cpu_ns=6000 * 8.0 * MS,
            backends_runqueue_ns=0.0,
        ),
        seed=1,
    )
    assert parts_ms(where) == {"IO:BufFileWrite": 6.0, "CPU": 2.0}
    assert where.residual_ms == pytest.approx(2.0)
    assert where.scheduled is not None
    assert where.scheduled.cpu_inside_events_ms == pytest.approx(6.0)
    assert where.scheduled.after_answer_ms == 0.0


def test_a_client_that_is_never_idle_leaves_no_time_outside_its_statements() -> None:
    # 9.9 of 10 ms in state active, so the 1.5 ms answering that few samples found cannot be.
    where = where_the_time_goes(
        facts(
            samples=exact({"IO:BufFileWrite": 2, "": 17, ANSWERING: 3}),
            server_active_ms=6000 * 9.9,
            backends_cpu_ns=6000 * 9.9 * MS,
            backends_runqueue_ns=0.0,
            engine_between_ns=0.1 * MS,
        ),
        seed=1,
    )
    assert where.scheduled is not None
    assert where.scheduled.after_answer_ms <= 0.2
    assert sum(parts_ms(where).values()) == pytest.approx(10.0, abs=0.2)


def test_the_servers_clocks_are_used_and_samples_divide_the_rest() -> None:
    # Sampled 2 ms of reading, counted 5: the other events share the 3 ms that 8 leave.
    reading = CountedEvents(("IO:DataFileRead",), 6000 * 5.0 * MS)
    waits = exact({"IO:DataFileRead": 1, "IO:WALSync": 2, "": 1})
    where = where_the_time_goes(facts(samples=waits, server_events=(reading,)), seed=1)
    assert parts_ms(where) == {
        "IO:DataFileRead": 5.0,
        "IO:WALSync": 2.0,
        "CPU or not instrumented": 1.0,
    }
    assert {part.name: part.how for part in where.parts} == {
        "IO:DataFileRead": "counted",
        "IO:WALSync": "sampled",
        "CPU or not instrumented": "by difference",
    }


def test_time_that_only_a_clock_counted_is_a_part() -> None:
    reading = CountedEvents(("IO:DataFileRead",), 6000 * 0.5 * MS, 6000 * 0.1 * MS)
    where = where_the_time_goes(facts(samples=exact({"": 1}), server_events=(reading,)), seed=1)
    [part] = [some_part for some_part in where.parts if some_part.name == "IO:DataFileRead"]
    assert (part.ms.value, part.ms.low, part.ms.high) == pytest.approx((0.5, 0.4, 0.6))
    assert parts_ms(where)["CPU or not instrumented"] == 7.5


def test_sleeping_in_a_script_is_a_separate_part() -> None:
    where = where_the_time_goes(facts(engine_sleep_ns=1.5 * MS, engine_shell_ns=0.25 * MS), seed=1)
    assert parts_ms(where) == {
        "server": 8.0,
        "\\sleep of the script": 1.5,
        "\\shell of the script": 0.25,
    }
    assert where.residual_ms == pytest.approx(0.25)


def test_statements_share_the_servers_time_by_their_identifiers() -> None:
    at = np.arange(100) * 100 * MS
    waits = WaitSamples(
        at,
        np.repeat(at, 5),
        ["Lock:tuple", "", "IO:WALSync", "", ANSWERING] * 100,
        np.tile([4, 2, 3, 1, 9], 100),
        np.tile([11, 12, 0, 77, 11], 100),
    )
    places = (
        StatementPlace("a", 2, "UPDATE", 300, (11, 12)),
        StatementPlace("b", 1, "UPDATE", 100, (11, 12)),
        StatementPlace("a", 3, "END;", 300, ()),
    )
    statements = named_statements(facts(samples=waits), 10.0, places, seed=1)
    assert [(time.script, time.line, round(time.ms.value, 6)) for time in statements] == [
        ("a", 2, 4.5),
        ("", 0, 3.0),
        ("b", 1, 1.5),
        ("", 0, 1.0),
    ]
    assert [name for name, _ in statements[0].events] == ["Lock:tuple", "CPU or not instrumented"]
    assert [share for _, share in statements[0].events] == pytest.approx([2 / 3, 1 / 3])
    assert statements[1].text == "without an identifier: END, parsing"
    assert math.fsum(time.ms.value for time in statements) == pytest.approx(10.0)


def test_a_commit_that_never_shows_its_identifier_is_named_where_its_time_is() -> None:
    at = np.arange(100) * 100 * MS
    waits = WaitSamples(
        at, np.repeat(at, 2), ["IO:WALSync", ""] * 100, np.tile([3, 1], 100), np.tile([0, 11], 100)
    )
    places = (
        StatementPlace("a", 1, "UPDATE", 100, (11,)),
        StatementPlace("a", 2, "COMMIT", 100, (12,)),
    )
    statements = named_statements(facts(samples=waits), 8.0, places, seed=1)
    assert [time.text for time in statements] == [
        "without an identifier: COMMIT, parsing",
        "UPDATE",
    ]


def test_a_commit_that_showed_its_identifier_once_is_named_where_its_time_is() -> None:
    """Before PostgreSQL 18 only its parsing has an identifier."""
    at = np.arange(100) * 100 * MS
    ids = np.tile([0, 11], 100)
    ids[0] = 12
    waits = WaitSamples(at, np.repeat(at, 2), ["IO:WALSync", ""] * 100, np.tile([3, 1], 100), ids)
    places = (
        StatementPlace("a", 1, "UPDATE", 100, (11,), server_ns=1e6),
        StatementPlace("a", 2, "COMMIT", 100, (12,), server_ns=3e6),
    )
    [largest, *_] = named_statements(facts(samples=waits), 8.0, places, seed=1)
    assert largest.text == "without an identifier: COMMIT, parsing"


def test_without_query_identifiers_statements_have_no_parts() -> None:
    assert named_statements(facts(samples=exact({"": 1})), 8.0, (), seed=1) == ()


def test_a_sample_at_an_unknown_instant_is_refused() -> None:
    wrong = WaitSamples(np.array([1, 2]), np.array([3]), ["IO:WALSync"], np.array([1]))
    with pytest.raises(AnalysisError, match="without a sampling moment"):
        where_the_time_goes(facts(samples=wrong), seed=1)


def test_no_transactions_and_wrong_units_are_refused() -> None:
    with pytest.raises(AnalysisError, match="ended no transaction"):
        where_the_time_goes(facts(transaction_count=0), seed=1)
    with pytest.raises(AnalysisError, match="must be in ns"):
        where_the_time_goes(facts(latency=LATENCY.scaled(1e-6, "ms")), seed=1)
