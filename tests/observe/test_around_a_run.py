"""What is looked at before and after a run: round trips, the server's clock, its settings."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import connection, run_sql

from pgdyno.clock import ClockPair, read_pair
from pgdyno.observe.round_trips import measure
from pgdyno.observe.settings_seen import SettingChange, changes, read_settings_seen
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_the_shortest_statement_and_connecting_over_tcp_are_timed(
    way: str, pg15: ScratchCluster
) -> None:
    target = pg15.target if way == "socket" else pg15.tcp_target
    with connection(target) as session:
        measured = measure(session, read_pair())
    assert (measured.connect is None) == (way == "socket")
    for times in filter(None, (measured.connect, measured.statement)):
        assert times.count > 0
        assert 0 < times.min_ns <= times.p50_ns <= times.p95_ns <= times.max_ns
    assert measured.statement is not None


def test_pgdyno_connects_at_most_five_times_to_time_it(pg15: ScratchCluster) -> None:
    run_sql(pg15.target, "ALTER SYSTEM SET log_connections = on")
    run_sql(pg15.target, "SELECT pg_reload_conf()")
    try:
        with connection(pg15.tcp_target) as session:
            while session.execute("SHOW log_connections").fetchone() != ("on",):
                session.execute("SELECT pg_sleep(0.01)")
            before = pg15.log_path.read_text().count("connection received")
            measure(session, read_pair())
            session.execute("SELECT pg_sleep(0.5)")
        received = pg15.log_path.read_text().count("connection received") - before
    finally:
        run_sql(pg15.target, "ALTER SYSTEM RESET log_connections")
        run_sql(pg15.target, "SELECT pg_reload_conf()")
    assert 0 < received <= 5


def test_a_clock_that_is_behind_the_servers_is_measured(pg15: ScratchCluster) -> None:
    clock = read_pair()
    behind = ClockPair(clock.monotonic_ns, clock.unix_ns - 7_000_000_000)
    with connection(pg15.target) as session:
        for pair, ahead_ns in ((clock, 0), (behind, 7_000_000_000)):
            offset = measure(session, pair).clock
            assert offset is not None
            # The axis was read at its begin: the wall clock may have been slewed a little since.
            assert abs(offset.ahead_ns - ahead_ns) < offset.uncertainty_ns + 50_000_000


def test_a_setting_changed_in_between_is_found_at_every_level(
    any_server: ScratchCluster, database: Target
) -> None:
    with connection(database) as session:
        before = read_settings_seen(session)
        session.execute("SET work_mem = '5MB'")  # The session's own: nobody else has it.
        assert changes(before, read_settings_seen(session)) == ()
        run_sql(database, f"ALTER DATABASE {database.database} SET work_mem = '7MB'")
        run_sql(database, "ALTER SYSTEM SET checkpoint_timeout = '7min'")
        run_sql(database, "SELECT pg_reload_conf()")
    try:
        with connection(database) as session:
            wanted = {
                SettingChange("checkpoint_timeout", "", "300 s", "420 s"),
                SettingChange(
                    "work_mem", f"every role of database {database.database}", None, "7MB"
                ),
            }
            while not wanted <= set(changes(before, read_settings_seen(session))):
                session.execute("SELECT pg_sleep(0.01)")
    finally:
        run_sql(database, "ALTER SYSTEM RESET checkpoint_timeout")
        run_sql(database, "SELECT pg_reload_conf()")
