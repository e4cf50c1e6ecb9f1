"""Where the time goes by transaction type, from samples whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.estimate import without_interval
from pgdyno.analysis.where_facts import TransactionFacts, WaitSamples
from pgdyno.analysis.where_statements import StatementPlace, shares_of
from pgdyno.analysis.where_types import TypeTimes, server_shares, time_by_type, type_fractions

ORDER, DELIVERY = 11, 12
COMMIT = 99


def served(name: str, ended: int, held_ms: float, trips: int, **more: bool) -> TypeTimes:
    return TypeTimes(name, more.get("is_background", False), ended, held_ms * 1e6, trips)


def test_the_servers_time_is_divided_by_what_was_held_without_exchanges() -> None:
    types = [
        served("order", 10, held_ms=100, trips=40),
        served("delivery", 1, held_ms=40, trips=10, is_background=True),
    ]
    # 100 - 40 x 0.5 = 80 and 40 - 10 x 0.5 = 35.
    assert server_shares(types, 500_000) == pytest.approx([80 / 115, 35 / 115])
    # Exchanges that would take more than all of it: nothing but the time held is known.
    assert server_shares(types, 1e9) == pytest.approx([100 / 140, 40 / 140])
    idle = [served("queued", 5, held_ms=0, trips=0), served("order", 1, held_ms=1, trips=1)]
    assert server_shares(idle, 0) == pytest.approx([0, 1])


def test_a_shared_statement_is_divided_by_its_time_and_wal_waits_only_among_writers() -> None:
    places = [
        StatementPlace("order", 3, "COMMIT", 10, (COMMIT,), server_ns=6e6),
        StatementPlace("level", 3, "COMMIT", 10, (COMMIT,), server_ns=2e6, writes=False),
    ]
    assert shares_of(places) == pytest.approx([0.75, 0.25])
    assert shares_of(places, in_wal=True) == pytest.approx([1, 0])
    untimed = [
        StatementPlace("order", 3, "COMMIT", 30, ()),
        StatementPlace("level", 3, "COMMIT", 10, ()),
    ]
    assert shares_of(untimed) == pytest.approx([0.75, 0.25])


def test_a_sample_belongs_to_the_types_of_its_statement() -> None:
    types = [served("order", 1, 3, 1), served("delivery", 1, 1, 1, is_background=True)]
    places = [
        StatementPlace("order", 1, "UPDATE", 10, (ORDER,)),
        StatementPlace("delivery", 1, "DELETE", 10, (DELIVERY,)),
        StatementPlace("order", 2, "COMMIT", 30, ()),
        StatementPlace("delivery", 2, "COMMIT", 10, ()),
    ]
    samples = WaitSamples(
        sampled_at_ns=np.array([1]),
        time_ns=np.array([1, 1, 1, 1]),
        event=["", "", "", ""],
        session_count=np.array([1, 1, 1, 1]),
        query_id=np.array([ORDER, DELIVERY, 0, 4711]),
    )
    fractions = type_fractions(samples, places, types, np.array([0.6, 0.4]))
    # Statements were not timed, so what has no identifier, and what nobody knows, is divided as
    # the server's time is.
    assert fractions == pytest.approx(np.array([[1, 0], [0, 1], [0.6, 0.4], [0.6, 0.4]]))


def test_the_types_that_are_waited_for_sum_to_the_parts_of_the_run() -> None:
    count = 400
    at = np.arange(count, dtype=np.int64) * 100_000_000
    # Orders are at work or wait for WAL in turn; the delivery in the background waits for a row.
    time_ns = np.repeat(at, 2)
    event = [name for i in range(count) for name in (("", "IO:WalSync")[i % 2], "Lock:tuple")]
    samples = WaitSamples(
        at, time_ns, event, np.ones(2 * count, dtype=np.int64), np.tile([ORDER, DELIVERY], count)
    )
    types = [
        served("order", 4000, held_ms=44_000, trips=8000),
        served("delivery", 500, held_ms=41_000, trips=1000, is_background=True),
    ]
    places = [
        StatementPlace("order", 1, "UPDATE", 4000, (ORDER,)),
        StatementPlace("delivery", 1, "DELETE", 500, (DELIVERY,)),
    ]
    fractions = type_fractions(samples, places, types, np.array([0.5, 0.5]))
    facts = TransactionFacts(
        latency=without_interval(11e6, "ns"), window_seconds=40.0, transaction_count=4000
    )
    parts = [
        ("server", "CPU", without_interval(6.0, "ms")),
        ("server", "IO:WalSync", without_interval(4.0, "ms")),
        ("network", "network", without_interval(0.4, "ms")),
        ("client", "client", without_interval(0.2, "ms")),
    ]
    order, delivery = time_by_type(
        facts, samples, parts, types, fractions, server_ms=9.0, seed=1, replicates=200
    )
    # CPU is 6 ms, of which 5 inside statements and 1 outside: 2 round trips of 0.5 ms.
    assert order.held.value == pytest.approx(11)
    assert order.core.value == pytest.approx(6)
    assert order.waits.value == pytest.approx(4)
    assert (order.network.value, order.engine.value) == pytest.approx((0.4, 0.2))
    assert order.residual.value == pytest.approx(0.4)
    assert order.waits.low is not None
    assert order.waits.high is not None
    assert order.waits.low < 4 < order.waits.high
    assert order.events == (("IO:WalSync", 1.0),)
    # 400 samples at 4 ms x 4000 / 200 = 80 ms each, over 500 deliveries; 2 round trips each.
    assert delivery.waits.value == pytest.approx(64)
    assert delivery.core.value == pytest.approx(1)
    assert delivery.residual.value == pytest.approx(82 - 64 - 1 - 0.4 - 0.2)


def test_without_samples_types_have_no_parts() -> None:
    none = WaitSamples(np.array([1]), np.zeros(0, np.int64), [], np.zeros(0, np.int64))
    types = [served("order", 1, 1, 1)]
    facts = TransactionFacts(
        latency=without_interval(1e6, "ns"), window_seconds=1.0, transaction_count=1
    )
    fractions = np.zeros((0, 1))
    assert time_by_type(facts, none, [], types, fractions, server_ms=1.0, seed=1) == ()
