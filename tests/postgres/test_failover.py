"""A primary dies under load: the load goes on at the standby, and every commit is accounted for."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import eventually
from tests.fixtures.engine_process import Engine, RunningEngine, load_job
from tests.fixtures.standby import Standby

from pgdyno.engine.job import HostPort, Reach
from pgdyno.server.target import Target

SCRIPT = "BEGIN;\nINSERT INTO moved VALUES (:client_id);\nEND;"
COUNT = "SELECT count(*) FROM moved"


def _has_grown_by(rows: int, target: Target, running: RunningEngine) -> None:
    """Wait until the load has written this number of further rows there."""
    before = scalar(target, COUNT)
    assert isinstance(before, int)
    eventually(
        lambda: scalar(target, COUNT) >= before + rows,  # type: ignore[operator]
        unless=lambda: running.process.poll() is not None,
    )


@pytest.mark.parametrize("active", [None, 3], ids=["own connections", "shared connections"])
def test_the_load_continues_at_the_standby_with_exactly_its_commits(
    active: int | None, new_cluster: Make, engine: Engine
) -> None:
    primary = new_cluster("15", settings={"synchronous_commit": "on"})
    run_sql(primary.target, "CREATE TABLE moved (client int)")
    with Standby(primary) as standby:
        job = load_job(primary.target, SCRIPT, clients=6, measure_s=600)
        hosts = tuple(
            HostPort(host=target.host, port=target.port)
            for target in (standby.target, primary.target)
        )
        update = {"hosts": hosts, "reach": Reach(target_session_attrs="primary")}
        connect = job.work.connect.model_copy(update={"active_connections": active})
        job = job.model_copy(
            update={
                "target": job.target.model_copy(update=update),
                "work": job.work.model_copy(update={"connect": connect}),
            }
        )
        running = engine.start(job)
        _has_grown_by(50, primary.target, running)
        primary.stop(is_immediate=True)
        standby.promote()
        _has_grown_by(50, standby.target, running)
        running.stop()
        end = running.wait()
        rows = scalar(standby.target, COUNT)
    assert end.exit_code == 0, end
    summary, counts = end.summary, end.summary.counts
    connections = active or 6
    assert (summary.connections.lost_count, summary.ending) == (connections, "stopped")
    assert 0 < summary.connections.reconnect_count <= connections
    assert counts.started == counts.completed + counts.failed + counts.unfinished
    assert counts.unfinished >= counts.in_doubt
    # A quick host promotes within one count interval, and shorter gaps are not looked for.
    gap = summary.longest_gap
    assert gap is None or gap.ended_ns - gap.began_ns >= job.work.count_interval_ns
    committed = summary.transactions_committed_all_phases
    assert committed <= rows <= committed + summary.commits_in_doubt  # type: ignore[operator]
