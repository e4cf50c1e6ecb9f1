"""Comparisons that meet bad luck: the server goes, the disk is full, rights are missing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK, connection, make_cluster, run_sql
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.poolers import Pooler
from tests.fixtures.small_disks import file_system

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SHORT = ("-c", "1", "-T", "1s", "--warmup", "0s", "--rounds", "3")
SCRATCH = [part for n, v in QUICK.items() for part in ("--set", f"{n}={v}")]
# Ends the whole server at once, whatever it does: it stands in the server's own folder. No
# transaction is over before it has.
KILL = "COPY (SELECT 1) TO PROGRAM 'kill -QUIT $(head -1 postmaster.pid)';\nSELECT pg_sleep(60);\n"


def one_script(folder: Path, text: str = "SELECT pg_sleep(0.005);\n") -> Path:
    path = folder / "one.sql"
    path.write_text(text)
    return path


@needs.POSTGRESQL_15
def test_a_variant_that_loses_the_server_is_left_out(pgdyno: Command, tmp_path: Path) -> None:
    killer = tmp_path / "killer.sql"
    killer.write_text(KILL)
    said = pgdyno(
        *("compare", "-s", "1", "--pg-version", "15", *SCRATCH, *SHORT, "--json"),
        *("-f", one_script(tmp_path)),
        *(
            "--variant",
            "first",
            "--variant",
            f"killer: script={killer}",
            "--variant",
            "second",
            "--aa",
        ),
    )
    document = json.loads(said.out)
    by_name = {variant["name"]: variant for variant in document["variants"]}
    assert by_name["killer"]["cannot_start"], said.err
    assert by_name["killer"]["runs"] == 0
    assert (by_name["first"]["runs"], by_name["second"]["runs"]) == (3, 3)


@needs.POSTGRESQL_15
def test_a_shortage_of_memory_is_found_before_the_load(pgdyno: Command, tmp_path: Path) -> None:
    said = pgdyno(
        *("compare", "-s", "1", "--pg-version", "15", *SCRATCH, *SHORT, "--json"),
        *("-f", one_script(tmp_path), "--variant", "as it is"),
        *("--variant", "never: shared_buffers=8000GB", "--variant", "fine: work_mem=5MB"),
    )
    by_name = {variant["name"]: variant for variant in said.document["variants"]}
    assert "could not map anonymous shared memory" in by_name["never"]["cannot_start"]
    assert said.err.index("never cannot start") < said.err.index("loading scale 1")
    assert (by_name["as it is"]["runs"], by_name["fine"]["runs"]) == (3, 3)


@needs.POSTGRESQL_15
@pytest.mark.parametrize("major", ["15", "18"])
def test_a_server_that_something_outside_kills_is_started_and_measured_again(
    pgdyno: Command, tmp_path: Path, major: str
) -> None:
    needs.postgresql(major)
    place = Path(os.environ["PGDYNO_DATA"])
    before = set(place.glob("*/data/postmaster.pid"))
    running = pgdyno.start(
        *("compare", "-s", "1", "--pg-version", major, "--data-dir", place, *SCRATCH),
        *("-c", "1", "-T", "2s", "--warmup", "0s", "--rounds", "3", "--json"),
        *("-f", one_script(tmp_path), "--variant", "a", "--variant", "b: work_mem=9MB"),
    )
    running.await_load(pgdyno.store)
    [file] = set(place.glob("*/data/postmaster.pid")) - before
    os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
    said = running.wait()
    assert said.code == 3, "runs of 2 s are not valid"
    assert [variant["runs"] for variant in said.document["variants"]] == [3, 3]
    words = " ".join(said.err.split())
    assert "failed and is repeated: The server was lost during the run" in words
    assert "The server's log does not say why, so something outside ended it." in words


def test_a_second_interrupt_leaves_nothing_behind_either(pgdyno: Command, tmp_path: Path) -> None:
    place = Path(os.environ["PGDYNO_DATA"])
    before = set(place.iterdir())
    running = pgdyno.start(
        *("compare", "-s", "1", "--pg-version", "15", "--data-dir", place, *SCRATCH),
        *("-c", "1", "-T", "60s", "--warmup", "0s", "-f", one_script(tmp_path)),
        *("--variant", "a", "--variant", "b", "--aa"),
    )
    engine_pid = running.await_load(pgdyno.store)
    running.signal(signal.SIGINT)
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130
    assert "Traceback" not in said.err
    eventually(lambda: not Path(f"/proc/{engine_pid}").exists() or None)
    assert set(place.iterdir()) == before
    assert "not finished" in pgdyno("list").out


@pytest.fixture
def small_disk(house: Path) -> Iterator[Path]:
    """A file system of 120 MB that a server can use."""
    with file_system(house / "round-seven", megabytes=120) as place:
        yield place


def test_a_disk_that_fills_up_in_a_later_round_ends_it_and_keeps_the_rounds_before(
    pgdyno: Command, small_disk: Path, house: Path, tmp_path: Path
) -> None:
    filling = "INSERT INTO filler SELECT g, repeat('x', 700) FROM generate_series(1, 14000) g;\n"
    script = one_script(tmp_path, filling)
    with make_cluster(
        "15", data_dir=small_disk, wal_dir=house / "wal7", allow_tmpfs=True, listens_tcp=False
    ) as full:
        run_sql(full.target, "CREATE UNLOGGED TABLE filler (n int, words text)")
        spec = tmp_path / "full.toml"
        target = full.target
        dsn = f"host={target.host} port={target.ports} user={target.user} dbname=postgres"
        spec.write_text(
            f'[experiment]\nname = "full"\nreset = "none"\n[server]\ndsn = "{dsn}"\n'
            f'[dataset]\nkind = "existing"\n[workload]\nscripts = [{{ file = "{script}" }}]\n'
            'transactions_per_client = 1\nwarmup = "0s"\n'
            '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\n[design]\nkind = "compare"\n'
        )
        said = pgdyno("run", spec, "--allow-write", "--json")
        assert said.code in (2, 3), said.err
        assert "53100" in said.err
        # About 10 MB a run on what is left of 120: some whole rounds before it is full.
        assert said.out, said.err
        assert said.document["rounds"] >= 1
        assert [variant["runs"] for variant in said.document["variants"]] >= [1, 1]
    shutil.rmtree(house / "wal7", ignore_errors=True)


def test_a_role_without_rights_may_compare_what_its_sessions_may_set(
    pgdyno: Command, pg15: ScratchCluster, tmp_path: Path
) -> None:
    run_sql(pg15.target, "CREATE ROLE plain LOGIN")
    try:
        said = pgdyno(
            *("compare", *server_options(pg15.target, "plain"), *SHORT, "-f", one_script(tmp_path)),
            *("--variant", "a: work_mem=1MB", "--variant", "b: work_mem=9MB", "--json"),
        )
        assert said.code in (0, 3), said.err
        assert [variant["runs"] for variant in said.document["variants"]] == [3, 3]
        refused = pgdyno(
            *("compare", *server_options(pg15.target, "plain"), *SHORT, "-f", one_script(tmp_path)),
            *("--variant", "a", "--variant", "b: checkpoint_timeout=7min"),
        )
        assert refused.code == 1
        assert "--admin" in refused.error
    finally:
        run_sql(pg15.target, "DROP ROLE plain")


def test_others_at_work_are_a_reason_to_refuse(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    with connection(database15) as somebody:
        somebody.execute("SET application_name = 'orders'")
        said = pgdyno(
            *("compare", *server_options(database15), *SHORT, "-f", one_script(tmp_path)),
            *("--variant", "a: work_mem=1MB", "--variant", "b: work_mem=9MB"),
        )
    assert said.code == 1
    assert "--confirm" in said.error


def test_a_role_with_a_statement_timeout_of_1_ms_is_measured_all_the_same(
    pgdyno: Command, pg15: ScratchCluster, tmp_path: Path
) -> None:
    make = "CREATE ROLE hasty LOGIN; GRANT pg_monitor TO hasty;"
    run_sql(pg15.target, f"{make} ALTER ROLE hasty SET statement_timeout = 1")
    try:
        # The client pauses, and not the server.
        script = one_script(tmp_path, "\\sleep 5 ms\nSELECT 1;\n")
        said = pgdyno(
            "bench", *server_options(pg15.target, "hasty"), *SHORT[:6], "-f", script, "--json"
        )
    finally:
        run_sql(pg15.target, "DROP OWNED BY hasty; DROP ROLE hasty")
    # Of the load's own statements some may be cancelled, which is the truth about this role.
    assert said.code in (0, 2, 3), said.err
    assert "Traceback" not in said.err
    assert "defect" not in said.err
    assert said.document["format"] == "pgdyno.bench/1"


def test_settings_that_a_pooler_swallows_are_found_out_before_a_run_counts(
    pgdyno: Command, pooler: Pooler, tmp_path: Path
) -> None:
    said = pgdyno(
        *("compare", *server_options(pooler.target), *SHORT, "-f", one_script(tmp_path)),
        "--allow-write",
        *("--variant", "a: work_mem=1MB", "--variant", "b: work_mem=9MB"),
    )
    assert said.code == 1  # Nothing was measured.
    assert "work_mem" in said.err
    assert "Traceback" not in said.err


# With ten clients there are more sessions than nine, and a run ends before its first transaction.
LATE_IN_A_CROWD = (
    "SELECT pg_sleep(CASE WHEN count(*) > 9 THEN 6 ELSE 0.05 END) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend';\n"
)


@needs.POSTGRESQL_15
def test_a_variant_that_completes_no_transaction_is_a_result_with_its_reason(
    pgdyno: Command, tmp_path: Path
) -> None:
    slow = tmp_path / "slow.sql"
    slow.write_text("SELECT pg_sleep(6);\n")
    asked = pgdyno.in_order(
        *("compare", "-s", "1", "--pg-version", "15", *SCRATCH, *SHORT, "--metric", "tps"),
        *("-f", one_script(tmp_path), "--variant", "first", "--variant", f"slow: script={slow}"),
    )
    said = pgdyno(*asked, "--json")
    by_name = {variant["name"]: variant for variant in said.document["variants"]}
    assert by_name["first"]["runs"] >= 1
    assert by_name["slow"]["metrics"] == {}
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    assert "variant slow, 1 client) completed no transaction within its measured time" in shown


@needs.POSTGRESQL_15
def test_a_level_that_completes_no_transaction_is_left_out_of_the_curve(
    pgdyno: Command, tmp_path: Path
) -> None:
    said = pgdyno(
        *("sweep", "-s", "1", "--pg-version", "15", *SCRATCH, "--warmup", "0s", "--json"),
        *("--clients", "1,10", "--rounds", "2", "-T", "1s", "--knee-duration", "1s"),
        *("-f", one_script(tmp_path, LATE_IN_A_CROWD)),
    )
    assert [level["clients"] for level in said.document["curves"][0]["levels"]] == [1]
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    assert "10 clients) completed no transaction within its measured time" in shown
