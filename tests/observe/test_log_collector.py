"""The server's log on real servers: by its file, through the server, and where neither works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.fixtures.clusters import Make, connection, run_sql
from tests.observe.contract import CollectorContract
from tests.observe.test_server_collectors import open_session, sample_until

from pgdyno.observe.collector import Collector, NotMeasurable, Row
from pgdyno.observe.log.collector import LogCollector
from pgdyno.observe.session import ServerSession
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster


class TestLog(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def session(self, pg15: ScratchCluster) -> Iterator[ServerSession]:
        opened = open_session(pg15)
        yield opened
        opened.close()

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return LogCollector(session, is_local=True)

    def test_an_error_is_found_in_the_file_standard_error_goes_to(
        self, collector: Collector, pg15: ScratchCluster
    ) -> None:
        collector.sample(0)
        with connection(pg15.target) as other, pytest.raises(Exception, match="division"):
            other.execute("SELECT 1 / 0")
        gathered_until(collector, "error")

    def test_a_remote_log_without_a_file_cannot_be_measured(self, session: ServerSession) -> None:
        with pytest.raises(NotMeasurable, match="logging_collector = off"):
            LogCollector(session, is_local=False).sample(0)


def gathered_until(collector: Collector, kind: str) -> Row:
    """Sample until an event of this kind was seen, and return it."""
    seen: list[Row] = []

    def is_seen(rows: list[Row]) -> bool:
        seen.extend(row for row in rows if row["kind"] == kind)
        return bool(seen)

    sample_until(collector, is_seen)
    return seen[0]


@pytest.mark.parametrize(
    ("destination", "is_local"),
    [("stderr", True), ("csvlog", False), ("jsonlog", True)],
)
def test_collected_logs_are_read_in_every_format_here_and_through_the_server(
    destination: str, is_local: bool, new_cluster: Make
) -> None:
    settings = {"logging_collector": "on", "log_destination": destination}
    cluster = new_cluster("15", settings={**settings, "log_temp_files": "0"})
    session = open_session(cluster)
    collector = LogCollector(session, is_local=is_local)
    collector.sample(0)
    run_sql(
        cluster.target, "CREATE TABLE t AS SELECT repeat('x', 100) a FROM generate_series(1, 9)"
    )
    run_sql(cluster.target, "CHECKPOINT")
    assert gathered_until(collector, "checkpoint")["duration_ns"] is not None
    with connection(cluster.target) as other:
        other.execute("SET work_mem = '64kB'")
        other.execute(
            "SELECT count(*) FROM (SELECT a FROM generate_series(1, 30000) a"
            " ORDER BY a DESC OFFSET 1) x"
        )
    assert int(gathered_until(collector, "temporary_file")["size_bytes"] or 0) > 100_000
    session.close()


def test_an_error_names_the_grant_for_reading_the_log(new_cluster: Make) -> None:
    cluster = new_cluster("15", settings={"logging_collector": "on"})
    run_sql(cluster.target, "CREATE ROLE reader LOGIN")
    session = ServerSession(
        lambda: connect(replace(cluster.target, user="reader"), verb="observe"),
        "pgdyno/observe/1",
        is_local=False,
    )
    session.open()
    with pytest.raises(NotMeasurable, match="GRANT pg_monitor, and GRANT EXECUTE"):
        LogCollector(session, is_local=False).sample(0)
    current, read = "pg_current_logfile(text)", "pg_read_binary_file(text, bigint, bigint)"
    run_sql(cluster.target, f"GRANT EXECUTE ON FUNCTION {current} TO reader")
    run_sql(cluster.target, "GRANT pg_monitor TO reader")
    with pytest.raises(NotMeasurable, match="GRANT pg_monitor, and GRANT EXECUTE"):
        LogCollector(session, is_local=False).sample(0)
    run_sql(cluster.target, f"GRANT EXECUTE ON FUNCTION {read} TO reader")
    collector = LogCollector(session, is_local=False)
    collector.sample(0)
    run_sql(cluster.target, "CHECKPOINT")
    gathered_until(collector, "checkpoint")
    session.close()
