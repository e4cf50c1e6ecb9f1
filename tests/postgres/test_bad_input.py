"""Bad input and bad luck: one clear paragraph, a next step, the right exit code, nothing lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.bank import make_bank, money
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.small_disks import file_system
from tests.postgres.test_money import await_no_backends

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

QUICK = ("-c", "2", "-R", "200", "-T", "40s", "--warmup", "0s")


def test_an_unknown_option_is_named(pgdyno: Command) -> None:
    said = pgdyno("bench", "--clientz", "2")
    assert said.code == 1
    assert "--clientz" in said.error
    assert "--clients" in said.error


def test_the_error_of_an_unknown_verb_lists_the_verbs(pgdyno: Command) -> None:
    said = pgdyno("benhc")
    assert said.code == 1
    assert "benhc" in said.error
    assert "bench" in said.error.replace("benhc", "")


def test_a_script_error_has_line_column_and_caret(
    pgdyno: Command, bank15: Target, tmp_path: Path
) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("\\set aid random(1, 100)\n\\set x 1 +* 2\nSELECT :aid;\n")
    said = pgdyno("bench", *server_options(bank15), "-f", script)
    assert said.code == 1
    assert "bad.sql" in said.error
    assert "line 2" in said.error or ":2:" in said.error
    lines = said.error.splitlines()
    [caret] = [place for place, line in enumerate(lines) if line.lstrip().startswith("^")]
    assert lines[caret - 1][lines[caret].index("^")] == "*"


def test_an_unreachable_server_is_named_with_its_port(pgdyno: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        said = pgdyno("bench", "-h", "127.0.0.1", "-p", port, "-d", "postgres", *QUICK)
    assert said.code == 1
    assert "127.0.0.1" in said.error
    assert port in said.error


def test_the_error_of_a_wrong_password_does_not_show_it(
    pgdyno: Command, pg15: ScratchCluster
) -> None:
    target = pg15.tcp_target
    said = pgdyno("bench", *server_options(target), *QUICK, env={"PGPASSWORD": "wrong-and-secret"})
    assert said.code == 1
    assert "password" in said.error
    assert target.user in said.error
    assert "wrong-and-secret" not in said.err + said.out


def test_a_password_in_the_arguments_is_taken_out_with_a_warning(
    pgdyno: Command, pg15: ScratchCluster
) -> None:
    target = pg15.tcp_target
    uri = f"postgresql://{target.user}:wrong-and-secret@127.0.0.1:{target.ports}/postgres"
    said = pgdyno("bench", uri, *QUICK)
    assert said.code == 1
    assert "wrong-and-secret" not in said.err + said.out


def test_missing_tables_are_named_with_the_verb_that_makes_them(
    pgdyno: Command, database: Target
) -> None:
    said = pgdyno("bench", *server_options(database), *QUICK)
    assert said.code in (1, 2)
    assert "no pgbench tables" in said.error
    assert "pgdyno init" in said.error


def test_too_many_clients_are_refused_before_starting_with_the_number_needed(
    pgdyno: Command, new_cluster: Make
) -> None:
    cluster = new_cluster(clients=1)
    bank = make_bank(cluster, "small")
    said = pgdyno("bench", *server_options(bank), "-c", "500", "-T", "5s")
    assert said.code in (1, 2)
    assert "max_connections" in said.error
    assert "500" in said.error
    needed = [word.strip(".,;()") for word in said.error.split()]
    assert any(word.isdigit() and int(word) >= 503 for word in needed)
    assert scalar(bank, "SELECT max(n_live_tup) FROM pg_stat_user_tables") is not None


@pytest.fixture
def small_disk(house: Path) -> Iterator[Path]:
    """A file system of 80 MB that a server can use."""
    with file_system(house / "small", megabytes=80) as place:
        yield place


def test_a_load_on_a_full_disk_reports_it_and_can_continue_later(
    pgdyno: Command, small_disk: Path, house: Path
) -> None:
    from tests.fixtures.clusters import make_cluster

    with make_cluster("15", data_dir=small_disk, wal_dir=house / "wal", allow_tmpfs=True) as full:
        run_sql(full.target, "CREATE DATABASE narrow")
        narrow = full.target.with_database("narrow")
        said = pgdyno("init", *server_options(narrow), "-s", "20")
        assert said.code == 1
        assert str(small_disk) in said.error
        assert "--skip-space-check" in said.error
        left = "SELECT count(*) FROM pg_class WHERE relname ~ '^pgbench|^pgdyno'"
        assert scalar(narrow, left) == 0

        said = pgdyno("init", *server_options(narrow), "-s", "20", "--skip-space-check")
        assert said.code == 2
        assert "No space left on device" in said.error
        assert "53100" in said.error
        assert "pgdyno drop" in said.error
        # The rows that found no room are gone, and their space is free again.
        assert scalar(narrow, "SELECT pg_table_size('pgbench_accounts') < 100000")
        assert pgdyno("drop", *server_options(narrow)).code == 0
        assert scalar(narrow, left) == 0
    shutil.rmtree(house / "wal")


def test_a_scratch_server_is_refused_where_the_data_will_not_fit(
    pgdyno: Command, small_disk: Path
) -> None:
    said = pgdyno("bench", "--data-dir", small_disk, "--allow-tmpfs", "-s", "100", *QUICK)
    assert said.code in (1, 2)
    assert str(small_disk) in said.error
    assert "GB" in said.error
    assert list(small_disk.iterdir()) == []


def test_a_server_killed_during_the_run_ends_it_and_keeps_what_was_measured(
    pgdyno: Command, new_cluster: Make
) -> None:
    cluster = new_cluster()
    bank = make_bank(cluster, "doomed")
    running = pgdyno.start("bench", *server_options(bank), *QUICK)
    running.await_load(pgdyno.store)
    cluster.stop(is_immediate=True)
    said = running.wait()
    # What was measured until then is judged too, and is not valid: the highest code wins.
    assert said.code in (2, 3)
    assert "lost" in said.error
    assert _kept(pgdyno)


def test_a_killed_engine_ends_the_run_and_keeps_what_was_measured(
    pgdyno: Command, bank15: Target
) -> None:
    running = pgdyno.start("bench", *server_options(bank15), *QUICK)
    os.kill(running.await_load(pgdyno.store), signal.SIGKILL)
    said = running.wait()
    assert said.code == 2
    assert "engine" in said.error
    assert _kept(pgdyno)
    await_no_backends(bank15)


def _kept(pgdyno: Command) -> bool:
    [row] = pgdyno("list", "--json").document["results"]
    shown = pgdyno("show", "last")
    assert "Traceback" not in shown.err
    return bool(row["run_count"] + row["incomplete_count"])


def test_a_script_that_writes_needs_permission_even_on_pgdyno_s_tables(
    pgdyno: Command, bank15: Target, tmp_path: Path
) -> None:
    run_sql(bank15, "CREATE TABLE orders AS SELECT 1 AS state")
    run_sql(bank15, "DROP TABLE pgbench_history, pgbench_tellers, pgbench_accounts")
    run_sql(bank15, "DROP TABLE pgbench_branches")
    assert pgdyno("init", *server_options(bank15), "-s", "1").code == 0
    script = tmp_path / "orders.sql"
    script.write_text("UPDATE orders SET state = state + 1;\n")
    said = pgdyno("bench", *server_options(bank15), "-f", str(script), *QUICK)
    assert said.code == 1
    assert "--allow-write" in said.error
    assert scalar(bank15, "SELECT state FROM orders") == 1
    said = pgdyno("bench", *server_options(bank15), "-N", "-t", "5", "--warmup", "0s")
    assert said.code in (0, 3)  # The built-in writes to those tables alone.


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_is_drained_kept_and_cleaned_up(
    number: signal.Signals, code: int, pgdyno: Command, bank15: Target
) -> None:
    running = pgdyno.start(
        "bench", *server_options(bank15), "-b", "tpcb-like", "--allow-write", *QUICK
    )
    running.await_load(pgdyno.store)
    running.signal(number)
    said = running.wait()
    assert said.code == code
    assert "Traceback" not in said.err
    assert _kept(pgdyno)
    await_no_backends(bank15)
    after = money(bank15)
    assert after.is_conserved
    assert after.movements > 0


def test_the_load_engine_does_not_inherit_the_password_of_the_environment(
    pgdyno: Command, bank15: Target
) -> None:
    options = ("bench", *server_options(bank15), "-b", "select-only", *QUICK)
    running = pgdyno.start(*options, env={"PGPASSWORD": "s3same-open"}, is_new=True)
    engine_pid = running.await_load(pgdyno.store)
    assert b"s3same-open" not in Path(f"/proc/{engine_pid}/environ").read_bytes()
    assert b"s3same-open" in Path(f"/proc/{running.process.pid}/environ").read_bytes()
    running.signal(signal.SIGKILL)
    running.wait()
    await_no_backends(bank15)


def test_a_killed_lab_takes_its_server_and_engine_along(pgdyno: Command, tmp_path: Path) -> None:
    place = Path(os.environ["PGDYNO_DATA"])
    before = set(place.iterdir())
    running = pgdyno.start("bench", "--scratch", "--data-dir", place, "-s", "1", *QUICK)
    engine_pid = running.await_load(pgdyno.store)
    [cluster] = set(place.iterdir()) - before
    postmaster_pid = int((cluster / "data/postmaster.pid").read_text().split()[0])
    running.signal(signal.SIGKILL)
    running.process.wait(10)
    for pid in (engine_pid, postmaster_pid):
        eventually(lambda pid=pid: not Path(f"/proc/{pid}").exists() or None)
    listed = pgdyno("list")
    assert listed.code == 0
    assert "incomplete" in listed.out
    # The next command that needs a server removes what the dead one could not.
    said = pgdyno(
        "bench", "--scratch", "--data-dir", place, "-s", "1", "-T", "1s", "--warmup", "0s"
    )
    assert said.code in (0, 3), said.err
    assert set(place.iterdir()) == before


def test_an_error_names_a_folder_that_is_not_a_run(pgdyno: Command, tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    for verb in ("report", "show"):
        said = pgdyno(verb, tmp_path / "holiday")
        assert said.code == 1
        assert "holiday" in said.error


def test_an_empty_store_has_no_last_result(pgdyno: Command) -> None:
    said = pgdyno("report")
    assert said.code == 1
    assert "no results yet" in said.error


def test_a_refusal_before_the_load_is_not_a_run(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    script = tmp_path / "wrong.sql"
    script.write_text("SELECT nope;\n")
    said = pgdyno("bench", *server_options(database15), "-T", "1s", "-f", str(script))
    assert (said.code, 'column "nope" does not exist' in said.err) == (1, True), said.err
    run_sql(database15, "CREATE ROLE guest LOGIN")
    try:
        place = ("-h", database15.host, "-p", database15.ports, "-d", database15.database)
        said = pgdyno("init", *place, "-U", "guest", "-s", "1")
        assert (said.code, "permission denied" in said.err) == (1, True), said.err
    finally:
        run_sql(database15, "DROP ROLE guest")
