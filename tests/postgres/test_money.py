"""Money is conserved: what the engine says it committed is what the server has, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from tests.fixtures.bank import make_bank, money
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.engine_process import Engine, RunningEngine, load_job

from pgdyno.server.target import Target

PROTOCOLS = ("simple", "extended", "prepared")
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno/test%'"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_money_is_conserved(protocol: str, bank: Target, engine: Engine) -> None:
    job = load_job(bank, "tpcb-like", clients=4, protocol=protocol, warm_s=0.2, measure_s=1)
    end = engine(job)
    assert end.exit_code == 0, end
    committed = end.summary.transactions_committed_all_phases
    assert end.summary.failures == {}
    assert 0 < end.summary.counts.completed <= committed
    after = money(bank)
    assert after.is_conserved, after
    assert after.movements == committed


def test_a_fixed_number_of_transactions_is_exact(bank: Target, engine: Engine) -> None:
    end = engine(load_job(bank, "tpcb-like", clients=3, transactions=20))
    assert end.summary.counts.completed == 60
    assert money(bank).movements == end.summary.transactions_committed_all_phases == 60


def test_money_is_conserved_over_tcp_with_scram(bank: Target, engine: Engine, any_server) -> None:
    tcp = any_server.tcp_target.with_database(bank.database)
    end = engine(load_job(tcp, "tpcb-like", clients=2, transactions=10))
    assert end.exit_code == 0, end
    assert money(bank).movements == 20


ENDINGS: dict[str, Callable[[RunningEngine], None]] = {
    "SIGINT": lambda running: running.signal(signal.SIGINT),
    "SIGTERM": lambda running: running.signal(signal.SIGTERM),
    "a stop line": RunningEngine.stop,
    "the end of input": RunningEngine.close_input,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_early_end_keeps_every_transaction_and_the_money(
    ending: str, bank: Target, engine: Engine
) -> None:
    running = engine.start(load_job(bank, "tpcb-like", clients=4, measure_s=50))
    running.await_record(record="interval", phase="measure")
    ENDINGS[ending](running)
    end = running.wait()
    assert end.summary.ending == "stopped"
    assert end.exit_code == 0
    after = money(bank)
    assert after.is_conserved, after
    assert after.movements == end.summary.transactions_committed_all_phases > 0
    await_no_backends(bank)


def test_a_killed_engine_leaves_no_backend_and_no_half_transaction(
    bank: Target, engine: Engine
) -> None:
    running = engine.start(load_job(bank, "tpcb-like", clients=4, measure_s=50))
    running.await_record(record="interval", phase="measure")
    running.signal(signal.SIGKILL)
    running.process.wait(10)
    await_no_backends(bank)
    after = money(bank)
    assert after.is_conserved, after
    assert after.movements > 0


def await_no_backends(target: Target) -> None:
    """Wait, inside the server, until the load's sessions have noticed that nobody is there."""
    wait = (
        "DO $$ BEGIN FOR i IN 1..1000 LOOP"
        f" PERFORM pg_stat_clear_snapshot(); IF ({BACKENDS}) = 0 THEN RETURN; END IF;"
        " PERFORM pg_sleep(0.01); END LOOP; RAISE 'backends are left'; END $$"
    )
    run_sql(target, wait)


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_server_lost_during_the_run_is_an_error_and_nothing_is_lost(
    version: str, new_cluster: Make, engine: Engine
) -> None:
    cluster = new_cluster(version)
    bank = make_bank(cluster, "lost")
    running = engine.start(load_job(bank, "tpcb-like", clients=4, measure_s=50))
    running.await_record(record="interval", phase="measure")
    cluster.stop(is_immediate=True)
    end = running.wait()
    assert end.exit_code == 2
    assert [failure.kind for failure in end.failures] == ["connection_lost"]
    assert end.failures[0].hint
    assert end.summary.ending == "aborted"
    assert end.summary.connections.lost_count >= 4
    assert "interval" in end.kinds
    cluster.start()
    after = money(cluster.target.with_database(bank.database))
    assert after.is_conserved, after
    # A commit whose answer was on its way counts for the server alone.
    assert 0 <= after.movements - end.summary.transactions_committed_all_phases <= 4
