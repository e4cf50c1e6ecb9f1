"""Loading on a real server: cut off at any moment it goes on, and ends as if nothing had been."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from tests.fixtures.bank import ACCOUNTS_NOT_FROZEN
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.engine_process import Engine, init_job
from tests.fixtures.killed_loads import interrupt_and_resume

from pgdyno.server.dataset.inspection import MARK
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

# What must be equal for every loader.
CONTENTS = (
    "SELECT count(*), sum(aid), sum(bid), sum(abalance), bit_xor(hashint8(aid)), min(filler)"
    " FROM pgbench_accounts",
    "SELECT count(*), sum(tid), sum(bid), sum(tbalance), count(filler) FROM pgbench_tellers",
    "SELECT count(*), sum(bid), sum(bbalance), count(filler) FROM pgbench_branches",
    "SELECT relname, relkind, relpersistence, reloptions, reltuples, relhasindex,"
    " obj_description(oid, 'pg_class') FROM pg_class WHERE relname ~ '^pgbench|^pgdyno' ORDER BY 1",
    "SELECT indexdef FROM pg_indexes WHERE tablename ~ '^pgbench' ORDER BY 1",
    "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname ~ '^pgbench'"
    " AND contype <> 'n' ORDER BY 1",
    "SELECT count(*) FROM pg_attribute WHERE attrelid::regclass::text ~ '^pgbench' AND atthasdef",
)
# Where every table or leaf is one stream: frozen by COPY, page for page.
PLACES = (
    "SELECT relname FROM pg_class WHERE relname ~ '^pgbench' AND relkind = 'r'"
    " AND relallvisible <> relpages",
    "SELECT relname, relpages, pg_relation_size(oid) FROM pg_class WHERE relname ~ '^pgbench'"
    " ORDER BY 1",
    "SELECT tableoid::regclass::text, md5(string_agg(t::text, ';' ORDER BY ctid))"
    " FROM pgbench_accounts t GROUP BY 1 ORDER BY 1",
)
# Where VACUUM froze what ranges left.
FROZEN = (ACCOUNTS_NOT_FROZEN,)
RANGES = {"range_rows": 20_000}
PARTITIONS = {"partitions": 6, "foreign_keys": True}


def _state(target: Target, queries: tuple[str, ...]) -> list[list[Any]]:
    return [run_sql(target, query) for query in queries]


def _kill_and_resume(
    engine: Engine, target: Target, kills: int, seed: int, changes: dict[str, Any]
) -> None:
    """Compare an uninterrupted load with one that is killed at random moments."""
    queries = CONTENTS + (FROZEN if "range_rows" in changes else PLACES)
    work = {"mark": f"{MARK} pgbench scale=2", "keep_unfinished": True, **changes}
    interrupt_and_resume(
        engine,
        target,
        partial(init_job, target, 2, **work),
        partial(_state, target, queries),
        kind="pgbench",
        times=kills,
        seed=seed,
    )


@pytest.mark.parametrize("changes", [RANGES, PARTITIONS], ids=["ranges", "partitions"])
def test_a_killed_and_continued_load_equals_an_undisturbed_one(
    engine: Engine, database15: Target, changes: dict[str, Any]
) -> None:
    _kill_and_resume(engine, database15, kills=3, seed=1, changes=changes)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, RANGES, PARTITIONS], ids=["streams", "ranges", "leaves"])
def test_ten_kills_at_random_moments_change_nothing(
    engine: Engine, database: Target, changes: dict[str, Any]
) -> None:
    _kill_and_resume(engine, database, kills=10, seed=10, changes=changes)


@pytest.mark.slow
def test_the_loaders_memory_does_not_grow_with_the_scale(
    engine: Engine, database15: Target
) -> None:
    def resident_bytes(scale: int) -> int:
        job = init_job(database15, scale, drop_existing=True, range_rows=100_000)
        summary = engine(job, timeout_s=1200).summary
        assert summary.ending == "completed"
        return summary.engine.resident_bytes_max

    small, large = resident_bytes(10), resident_bytes(100)
    print(f"resident: {small} bytes at scale 10, {large} at scale 100")
    assert 0 < large < 1.25 * small < 64 << 20


@pytest.fixture
def interrupted(pgdyno: Command, database15: Target) -> Callable[..., list[str]]:
    """Interrupt `pgdyno init` in the middle; return its words."""

    def interrupt(*options: str) -> list[str]:
        words = ["init", *server_options(database15), *options]
        with connection(database15) as session, session.transaction():
            # Not one of the other applications that init would not disturb.
            session.execute("SET application_name = 'pgdyno/test'")
            running = pgdyno.start(*words)
            # Its last statement drops the journal: with this lock it does not get there.
            eventually(
                lambda: _locked(session, "pgdyno_load"),
                unless=lambda: running.process.poll() is not None,
            )
            running.signal(signal.SIGINT)
            said = running.wait()
        assert said.code == 130, said.err
        assert "to continue" in said.err
        return words

    return interrupt


def _locked(session: psycopg.Connection, table: str) -> bool:
    try:
        with session.transaction():
            session.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
    except psycopg.errors.UndefinedTable:
        return False
    return True


def _one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_same_command_continues_and_says_so(
    pgdyno: Command, database15: Target, interrupted: Callable[..., list[str]]
) -> None:
    words = interrupted("-s", "10", "--load-jobs", "2")
    assert "interrupted" in pgdyno("bench", *server_options(database15), "-T", "1s").error
    words[words.index("--load-jobs") + 1] = "3"  # The number of connections may change.
    said = pgdyno(*words, "--json")
    assert said.code == 0, said.err
    assert "interrupted load continues" in said.err
    assert said.document["is_resumed"]
    assert scalar(database15, "SELECT count(*) FROM pgbench_accounts") == 1_000_000
    assert scalar(database15, "SELECT to_regclass('pgdyno_load')") is None


def test_other_options_are_refused_with_what_differs_and_restart_begins_anew(
    pgdyno: Command, database15: Target, interrupted: Callable[..., list[str]]
) -> None:
    interrupted("-s", "10")
    other = ["init", *server_options(database15), "-s", "1", "-F", "90"]
    said = pgdyno(*other)
    assert said.code == 1
    assert "--scale was 10, now 1" in _one_line(said.error)
    assert "--fillfactor was not set, now 90" in _one_line(said.error)
    assert "--restart" in said.error
    said = pgdyno(*other, "--restart")
    assert said.code == 0, said.err
    assert scalar(database15, "SELECT count(*) FROM pgbench_accounts") == 100_000


def test_drop_removes_what_an_interrupted_load_left(
    pgdyno: Command, database15: Target, interrupted: Callable[..., list[str]]
) -> None:
    interrupted("-s", "10")
    assert pgdyno("drop", *server_options(database15)).code == 0
    left = "SELECT count(*) FROM pg_class WHERE relname ~ '^pgbench|^pgdyno'"
    assert scalar(database15, left) == 0


def test_init_steps_do_what_pgbench_calls_by_these_letters(
    pgdyno: Command, database15: Target
) -> None:
    where = server_options(database15)
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conname ~ '^pgbench'"
    assert pgdyno("init", *where, "-I", "dtG").code == 0
    assert scalar(database15, "SELECT sum(aid) FROM pgbench_accounts") == 5_000_050_000
    assert scalar(database15, keys) == 0
    said = pgdyno("init", *where, "-I", "vp", "-s", "3")
    assert said.code == 1
    assert "--scale was 1, now 3" in _one_line(said.error)
    assert pgdyno("init", *where, "-I", "v p", "--foreign-keys").code == 1
    assert pgdyno("init", *where, "-I", "vp").code == 0
    assert scalar(database15, keys) == 3
    loaded = pgdyno("init", *where, "-I", "gf", "--json")
    assert loaded.code == 0
    assert loaded.document["state"] == "complete"
    assert pgdyno("init", *where, "-I", "x").code == 1


def test_print_sql_says_what_a_wide_scale_sends(pgdyno: Command) -> None:
    said = pgdyno("init", "-s", "20001", "--print-sql")
    assert "aid bigint not null" in said.out
    assert "copy pgbench_accounts(aid, bid) from stdin with (freeze on);" in said.out


def test_print_sql_is_all_that_a_load_sends(
    pgdyno: Command, pg18: ScratchCluster, engine: Engine
) -> None:
    run_sql(pg18.target, "CREATE DATABASE sent")
    target = pg18.target.with_database("sent")
    run_sql(pg18.target, "ALTER DATABASE sent SET log_statement = 'all'")
    seen = pg18.log_path.stat().st_size
    end = engine(init_job(target, 1, mark=f"{MARK} pgbench scale=1"))
    assert end.summary.ending == "completed"
    log = pg18.log_path.read_bytes()[seen:].decode()
    said = pgdyno("init", "-s", "1", "--print-sql")
    for statement in said.out.splitlines():
        text = statement.rstrip(";")
        # The database is there, so it is not created.
        if text and not text.startswith(
            ("comment", "insert into pgdyno_load", "-- only", "CREATE DATABASE", "CREATE EXT")
        ):
            assert text in log, text
    run_sql(pg18.target, "DROP DATABASE sent WITH (FORCE)")


def test_the_summary_has_the_memory_of_the_loader(engine: Engine, database15: Target) -> None:
    summary = engine(init_job(database15, 1)).summary
    assert 1 << 20 < summary.engine.resident_bytes_max < 64 << 20


def test_a_dry_run_says_rows_bytes_and_a_measured_time(pgdyno: Command, database15: Target) -> None:
    where = server_options(database15)
    said = pgdyno("init", *where, "-s", "11424", "--dry-run", "--probe", "--json")
    assert said.code == 0, said.err
    plan = said.document
    assert plan["rows"]["pgbench_accounts"] == 1_142_400_000
    assert plan["size_bytes"] == pytest.approx(179e9, rel=0.01)
    assert plan["nodes"] == []
    small, larger = plan["probed"]
    assert (small["size"], larger["size"]) == (1, 3)
    per_unit = max(0.0, (larger["seconds"] - small["seconds"]) / 2)
    expected = small["seconds"] + 11_423 * per_unit
    assert plan["seconds"] == pytest.approx(expected)
    left = "SELECT count(*) FROM pg_class WHERE relname ~ '^pgbench'"
    assert scalar(database15, left) == 0
    assert scalar(database15, "SELECT count(*) FROM pg_namespace WHERE nspname ~ 'probe'") == 0
    said = pgdyno("init", "tpcc", "-W", "10", "--dry-run")
    assert said.code == 0, said.err
    assert "100,000  item" in said.out
    assert "--probe measures it" in said.out
    said = pgdyno("init", "-s", "1", "--dry-run", "--probe")
    assert (said.code, "names none" in said.error) == (1, True)
    said = pgdyno("init", *where, "-s", "1", "--probe")
    assert (said.code, "--dry-run" in said.error) == (1, True)
