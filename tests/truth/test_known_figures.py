"""Figures of loads that are easy to misread: parallel queries, short runs, protocols, JIT.

The truth is from a plan, from the server's clock around a function, or from its count of calls.
"""

from __future__ import annotations

import json
import re
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.prove import Figure
from tests.truth.known_loads import FILLED, timed_ms
from tests.truth.test_where_the_time_goes import (
    bench,
    forget_times,
    make_timed,
    measured,
    parts_of,
)

from pgdyno.loop.history import each_transaction
from pgdyno.loop.load_numbers import load_numbers
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store

COUNTING = "SELECT count(filler) FROM pages"
# Workers alone read; the session that the client waits for only collects what they found.
PARALLEL = {
    "max_parallel_workers_per_gather": "2",
    "parallel_leader_participation": "off",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "track_io_timing": "on",
    "track_functions": "pl",
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "known.sql"


def fill_for_workers(database: Target) -> None:
    """Make a table larger than shared_buffers that only parallel workers read."""
    for statement in FILLED:
        run_sql(database, statement)
    for name, value in PARALLEL.items():
        run_sql(database, f"ALTER DATABASE {database.database} SET {name} = '{value}'")
    [[[plan]]] = run_sql(database, f"EXPLAIN (ANALYZE, FORMAT JSON) {COUNTING}")
    gather = plan["Plan"]["Plans"][0]
    assert gather["Workers Launched"] == 2, plan


def test_reading_by_parallel_workers_is_no_part_of_the_time_of_their_leader(
    pgdyno: Command, database: Target, script: Path, figure: Figure
) -> None:
    fill_for_workers(database)
    forget = partial(forget_times, database)
    text = f"{COUNTING};\n"
    document = measured(pgdyno, database, script, text, clients=1, forget=forget, seconds=4)
    parts = parts_of(document)
    clock = "SELECT blk_read_time FROM pg_stat_database WHERE datname = current_database()"
    read_ms = float(str(scalar(database, clock)))
    reading_ms = sum(part["ms"] for name, part in parts.items() if name.startswith("IO:"))
    latency_ms = document["where_the_time_goes"]["latency_ms"]
    transactions = document["transactions_committed_all_phases"]
    figure(
        "reading by parallel workers as a part of the latency of their leader, which reads nothing",
        truth=f"0 to 5 %; workers and leader read {read_ms / transactions:.3g} ms",
        seen=f"{reading_ms / latency_ms:.1%} of {latency_ms:.3g} ms",
    )
    assert read_ms > 0
    assert reading_ms <= 0.05 * latency_ms
    assert parts["IPC:ExecuteGather"]["ms"] > 0.3 * latency_ms
    # The workers of the load are not other sessions.
    assert document["where_the_time_goes"]["others_ratio"] == 0
    assert document["where_the_time_goes"]["parallel_workers"]["at_work_count"] > 0.5


def test_statements_of_one_shape_get_the_time_of_their_own_line(
    pgdyno: Command, database: Target, script: Path, figure: Figure
) -> None:
    text = "SELECT pg_sleep(0.3) AS a;\nSELECT pg_sleep(0.1) AS a;\n"
    document = measured(
        *(pgdyno, database, script, text), clients=1, forget=lambda: None, seconds=3
    )
    [shown] = document["scripts"]
    own = {row["line"]: row["mean_ms"] for row in shown["statements"]}
    split = {row["line"]: row["ms"] for row in document["where_the_time_goes"]["statements"]}
    figure(
        "two statements of one shape that sleep 300 and 100 ms, by statement",
        truth=f"{own[1]:.4g} and {own[2]:.4g} ms by the engine, ratio to 10 %",
        seen=f"{split[1]:.4g} and {split[2]:.4g} ms",
    )
    where = document["where_the_time_goes"]
    figure(
        "CPU per transaction of a load with less CPU time than the kernel's clock can tell",
        truth="not printed",
        seen="not printed" if where["scheduled"] is None else str(where["scheduled"]),
    )
    assert own[1] / own[2] == pytest.approx(3.0, rel=0.2)
    # Divided by the engine's own times of these lines, in which no statement is a half.
    assert split[1] / split[2] == pytest.approx(own[1] / own[2], rel=0.1)
    assert where["scheduled"] is None


def test_time_of_bind_is_counted_or_bounded(
    pgdyno: Command, database: Target, script: Path, figure: Figure
) -> None:
    run_sql(database, f"ALTER DATABASE {database.database} SET track_functions = 'pl'")
    run_sql(database, f"ALTER DATABASE {database.database} SET plan_cache_mode = force_custom_plan")
    # An immutable function is evaluated while the statement is planned, which is in Bind.
    run_sql(
        database,
        "CREATE FUNCTION planned() RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.002); RETURN 1; END $$",
    )
    script.write_text("\\set a 1\nSELECT planned() + :a;\n\\sleep 10 ms\n")
    forget_times(database)
    arguments = bench(database, script, clients=1, seconds=3)
    document = pgdyno(*arguments, "-M", "prepared").document
    where = document["where_the_time_goes"]
    if where is None:
        # With few samples the parts may overlap; then there is no figure.
        reason = document["where_the_time_goes_not_computed_because"]
        figure("time of Bind with -M prepared", truth="a figure or a reason", seen=reason)
        assert "exceed" in reason
        return
    truth_ms = timed_ms(database, "planned")
    up_to = where["server_ms"] + (where["server_uncounted_ms"] or 0)
    figure(
        "server time of a load that works in Bind, -M prepared",
        truth=f"{truth_ms:.3g} ms by the server's clock around a function",
        seen=f"{where['server_ms']:.3g} to {up_to:.3g} ms, {where['server_how']}",
    )
    kinds = [warning["kind"] for warning in document["warnings"]]
    if where["server_how"] == "counted":
        assert where["server_ms"] < truth_ms <= where["server_ms"] + where["server_uncounted_ms"]
        assert "server_time_without_bind" in kinds
    else:
        # Some 30 samples fall into 200 transactions of 2 ms: a third more or less is chance.
        assert "server_time_sampled" in kinds


def test_opening_our_own_sessions_is_not_the_time_of_a_light_load(
    pgdyno: Command, database15: Target, script: Path, figure: Figure
) -> None:
    make_timed(database15, "nap", "pg_sleep(0.002)")
    forget = partial(forget_times, database15)
    text = "SELECT nap();\n\\sleep 40 ms\n"
    document = measured(pgdyno, database15, script, text, clients=1, forget=forget, seconds=2)
    where = document["where_the_time_goes"]
    truth_ms = timed_ms(database15, "nap")
    what = "server time of a load so light that opening our sessions took more"
    truth = f"{truth_ms:.3g} ms by the server's clock around a function"
    if where is None:
        # With few samples the parts may overlap; then no figure is printed, but the reason.
        reason = document["where_the_time_goes_not_computed_because"]
        figure(what, truth=truth, seen=f"not printed: {reason}")
        assert reason
        return
    said = [row["message"] for row in document["warnings"] if "server_time" in row["kind"]]
    figure(
        what,
        truth=truth,
        seen=f"{where['server_ms'] or 0:.3g} ms, {where['server_how']}, {said or 'no doubt'}",
    )
    # Without a doubt the count is right; with one, its own words say by how much it may be wrong.
    if where["server_how"] == "counted" and not said:
        assert where["server_ms"] == pytest.approx(truth_ms, rel=0.1)
    elif where["server_how"] == "counted":
        [known] = [float(word) for word in re.findall(r"known to ([\d.]+) %", said[0])]
        assert abs(where["server_ms"] - truth_ms) <= known / 100 * where["server_ms"] + 0.3
    else:
        # Samples may miss so light a load, so the result says that they were used.
        assert "server_time_sampled" in [row["kind"] for row in document["warnings"]]


def test_an_interrupted_bench_shows_what_was_measured(
    pgdyno: Command, database15: Target, script: Path, figure: Figure
) -> None:
    make_timed(database15, "nap", "pg_sleep(0.01)")
    forget_times(database15)
    script.write_text("SELECT nap();\n")
    arguments = bench(database15, script, clients=2, seconds=30)
    arguments = [word for word in arguments if word not in ("--warmup", "0s")]
    running = pgdyno.start(*arguments)
    running.await_load(pgdyno.store)
    time.sleep(3)
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130
    calls = "SELECT calls FROM pg_stat_user_functions WHERE funcname = 'nap'"
    called = int(str(scalar(database15, calls)))
    figure(
        "transactions of a bench of 30 s that was interrupted",
        truth=f"{called - 2} to {called} calls by the server's count",
        seen=f"{said.document['transactions_committed_all_phases']} transactions kept",
    )
    assert called - 2 <= said.document["transactions_committed_all_phases"] <= called
    assert said.document["sentence"].startswith("NOT VALID")
    assert "ended_early" in [warning["kind"] for warning in said.document["warnings"]]
    assert said.document == pgdyno("show", "last", "--json").document


def test_time_of_jit_is_within_the_statements_time(
    new_cluster: Make, pgdyno: Command, script: Path, figure: Figure
) -> None:
    cluster = new_cluster("15", settings={"shared_preload_libraries": "pg_stat_statements"})
    has_jit = bool(scalar(cluster.target, "SELECT pg_jit_available()"))
    needs.offered(has_jit, "this PostgreSQL has no JIT")
    database = cluster.target
    run_sql(database, "CREATE EXTENSION pg_stat_statements")
    settings = [
        f"SET {name} = 0"
        for name in ("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost")
    ]
    statement = "SELECT sum(n * 2 + 1) FROM generate_series(1, 1000) n WHERE n % 3 = 0"
    text = "".join(f"{line};\n" for line in (*settings, statement))
    document = measured(
        *(pgdyno, database, script, text), clients=1, forget=lambda: None, seconds=3
    )
    where = document["where_the_time_goes"]
    assert where is not None, document["where_the_time_goes_not_computed_because"]
    with connection(database) as session:
        for line in settings:
            session.execute(line)  # type: ignore[call-overload]
        times = []
        for _ in range(9):
            row = session.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}").fetchone()
            assert row is not None
            times.append(row[0][0]["JIT"]["Timing"]["Total"])
    truth_ms = sorted(times)[len(times) // 2]
    print(json.dumps(times))
    figure(
        "time of JIT",
        truth=f"{truth_ms:.3g} ms by EXPLAIN, to a factor of 3; within the server time",
        seen=f"{where['compiling_ms']:.3g} ms of {where['server_ms']:.3g} ms",
    )
    # Other work on this machine makes single executions slower, so only the size is compared.
    assert truth_ms / 3 < where["compiling_ms"] < 3 * truth_ms
    assert where["compiling_ms"] <= where["server_ms"]


def test_counters_per_transaction_of_a_short_run_belong_to_its_transactions(
    pgdyno: Command, database: Target, script: Path, figure: Figure
) -> None:
    run_sql(database, "CREATE TABLE read AS SELECT n FROM generate_series(1, 60000) n")
    run_sql(database, "VACUUM ANALYZE read")
    document = measured(
        *(pgdyno, database, script, "SELECT count(*) FROM read;\n"),
        clients=1,
        forget=lambda: None,
        seconds=2,
    )
    [stored] = Store(pgdyno.store).find("last").runs()
    rows = each_transaction(stored, load_numbers(stored), "database.tup_returned")
    figure(
        f"rows read per transaction, {document['transactions_committed_all_phases']} transactions",
        truth="60,000 to 1 %",
        seen=f"{rows:,.0f}" if rows else "not printed",
    )
    assert rows is None or rows == pytest.approx(60_000, rel=0.01)
