"""`pgdyno capture` on real servers: the load that is found again, the file, bad input."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from psycopg import sql
from tests.fixtures.captures import header
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, RunningCommand, eventually, server_options
from tests.fixtures.observed import make_shop, shopping

from pgdyno.features.capture import file
from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Equal,
    Fresh,
    OfColumn,
    Returned,
    Template,
)
from pgdyno.features.capture.reading.counted import activity_sql
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.session_start import MARK
from pgdyno.server.target import Target

INTERRUPTED = 130


def captured(pgdyno: Command, target: Target, path: Path, *more: str) -> Capture:
    """Capture for 4 s; return what is in the file."""
    given = ("-o", path, "--duration", "4s", *more)
    said = pgdyno("capture", *server_options(target), *given)
    assert said.code == 0, said.err
    return file.read(path)


def captured_while(
    pgdyno: Command, target: Target, path: Path, statements: Sequence[str]
) -> Capture:
    """Return a capture whose first counters are read before the statements, its last ones after."""
    running = pgdyno.start("capture", *server_options(target), "-o", path, "--duration", "10min")
    await_first_counters(running, target)
    with connection(target) as session:
        for statement in statements:
            session.execute(statement)  # type: ignore[call-overload]
    running.process.send_signal(signal.SIGINT)
    assert running.wait(60).code == INTERRUPTED
    return file.read(path)


def await_first_counters(running: RunningCommand, target: Target) -> None:
    """Wait until a capture has read its first counters: it looks at sessions after that.

    We look from another database, whose statements do not count.
    """
    looks = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno/capture%%'"
        " AND strpos(query, %s) > 0"
    )
    nearby, activity = target.with_database("postgres"), activity_sql(15, 0)[:100]
    ended = running.process.poll
    eventually(lambda: scalar(nearby, looks, activity), unless=lambda: ended() is not None)


def steps_of(capture: Capture, template: Template) -> list[str]:
    """Return the kind and the table of each step."""
    statements = {statement.id: statement for statement in capture.statements}
    return [
        " ".join([statements[step.statement].kind, *statements[step.statement].tables])
        for step in template.steps
    ]


@pytest.fixture
def shop(observed: Target) -> Target:
    make_shop(observed)
    return observed


def test_transactions_are_found_again_with_the_sources_of_their_parameters(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    with shopping(shop):
        capture = captured(pgdyno, shop, tmp_path / "shop.capture", "--duration", "10s")
    by_name = {template.name: template for template in capture.templates}
    if any("sessions and counts prove" in note for note in capture.notes):
        # A busy machine showed too few looks: then every statement is a transaction.
        assert [s for t in capture.templates for s in steps_of(capture, t) if " " in s] == [
            " ".join(t.name.split(" ", 1)).replace(" ", " public.", 1) for t in capture.templates
        ]
        return
    read, write = by_name["select customer"], by_name["insert orders"]
    assert len(by_name) == 2
    assert steps_of(capture, read) == ["select public.customer"]
    assert steps_of(capture, write) == [
        "begin",
        "insert public.orders",
        "insert public.item",
        "commit",
    ]
    assert write.steps[2].repeat.mean == pytest.approx(3, rel=0.1)
    assert write.rate_tps == pytest.approx(read.rate_tps, rel=0.1)
    [customer] = write.steps[1].parameters
    assert isinstance(customer, OfColumn)
    assert (customer.table, customer.column) == ("public.customer", "id")
    order, line, product = write.steps[2].parameters
    assert order == Returned(step=1, column=0)
    assert isinstance(line, Fresh)
    assert isinstance(product, OfColumn)
    assert capture.profile.commits > 100
    assert capture.left_out == ()


def test_the_types_of_parameters_are_those_that_the_server_finds(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    with shopping(shop):
        capture = captured(pgdyno, shop, tmp_path / "shop.capture")
    types = {s.tables: s.parameter_types for s in capture.statements if s.kind == "insert"}
    assert types["public.item",] == ("bigint", "integer", "integer")


def test_a_file_can_be_shown_covered_and_written_as_scripts(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    path = tmp_path / "shop.capture"
    with shopping(shop):
        run_sql(shop, "ALTER ROLE CURRENT_USER SET statement_timeout = 0")
        capture = captured(pgdyno, shop, path, "--duration", "10s")
    shown = pgdyno("capture", "show", path)
    assert shown.code == 0, shown.err
    assert "no value of a row is in the file" in shown.out
    # On a busy machine too few looks prove that an order and its items are one transaction.
    returns = "$1 returned" in pgdyno("capture", "show", path, "--all").out
    assert returns or any("sessions and counts prove" in note for note in capture.notes)
    covered = pgdyno("capture", "show", path, "--coverage", "--json")
    assert json.loads(covered.out)["calls_ratio"] == pytest.approx(1, abs=0.02)
    written = pgdyno("capture", "scripts", path, tmp_path / "scripts")
    assert written.code == 0, written.err
    names = written.out.split()
    script = Path(next(name for name in names if "insert-orders" in name)).read_text()
    assert ("RETURNING id \\gset" in script) == returns
    assert re.match("-- insert orders: [0-9.]+ a second; weight [0-9]+\n-- pgbench -f ", script)


def test_without_the_extension_schema_and_statistics_are_captured_and_that_is_explained(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    make_shop(database)
    path = tmp_path / "shop.capture"
    said = pgdyno("capture", *server_options(database), "-o", path, "--duration", "2s")
    assert said.code == 0, said.err
    assert "missing: the extension is not in this database" in said.err
    assert "CREATE EXTENSION pg_stat_statements" in said.err
    capture = file.read(path)
    assert {table.name for table in capture.tables} == {
        "public.customer",
        "public.orders",
        "public.item",
    }
    assert capture.statements == ()
    assert any("no load that can be run" in note for note in capture.notes)
    # Logs have the statements and their order, so their loss is another one.
    log = tmp_path / "empty.csv"
    log.write_text("")
    given = ("-o", tmp_path / "log.capture", "--log", log, "--duration", "1s")
    said = pgdyno("capture", *server_options(database), *given)
    assert "no load that can be run" not in said.err + said.out
    [name] = [c for c in capture.columns if c.column == "name"]
    assert name.distribution.distinct == 300


def test_values_that_the_schema_shows_stay_and_other_texts_do_not(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    make_shop(database)
    path = tmp_path / "shop.capture"
    assert pgdyno("capture", *server_options(database), "-o", path, "--duration", "2s").code == 0
    columns = {c.column: c.distribution for c in file.read(path).columns}
    assert [hot.value for hot in columns["status"].hot] == ["active"]
    assert "customer number" not in str(columns["name"])
    real = "SELECT histogram_bounds::text::text[] FROM pg_stats WHERE attname = 'name'"
    [(bounds,)] = run_sql(database, real)
    assert [len(b) for b in columns["name"].bounds] == [len(b) for b in bounds]
    assert list(columns["name"].bounds) == sorted(columns["name"].bounds)


def test_kept_values_are_named_in_the_file_its_name_and_its_first_line(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    make_shop(database)
    given = (
        "-o",
        tmp_path / "shop.capture",
        "--duration",
        "2s",
        "--keep-values",
        "--i-may-store-values",
    )
    said = pgdyno("capture", *server_options(database), *given)
    assert said.code == 0, said.err
    path = tmp_path / "shop.with-values.capture"
    assert b"WITH VALUES" in path.read_bytes().split(b"\n")[0]
    capture = file.read(path)
    assert capture.header.keeps_values
    assert "customer number 1" in str(capture.columns)
    assert "WITH VALUES OF ROWS" in pgdyno("capture", "show", path).out


def test_an_interrupted_capture_keeps_what_was_counted_and_leaves_nothing_else(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    path = tmp_path / "shop.capture"
    with shopping(shop):
        running = pgdyno.start("capture", *server_options(shop), "-o", path, "--duration", "10min")
        eventually(lambda: path.with_name("shop.capture.partial").exists())
        running.process.send_signal(signal.SIGINT)
        said = running.wait(60)
    assert said.code == INTERRUPTED, said.err
    assert file.read(path).header.seconds < 60
    assert [entry.name for entry in tmp_path.glob("shop*")] == ["shop.capture"]


def test_a_killed_capture_leaves_a_whole_file_and_the_next_one_says_so(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    path = tmp_path / "shop.capture"
    partial = tmp_path / "shop.capture.partial"
    running = pgdyno.start("capture", *server_options(shop), "-o", path, "--duration", "10min")
    eventually(partial.exists)
    running.process.kill()
    running.wait(60)
    assert file.read(partial).tables
    said = pgdyno("capture", *server_options(shop), "-o", path, "--duration", "2s")
    assert said.code == 1
    assert f"mv {partial} {path}" in said.err
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno/capture%'"
    eventually(lambda: run_sql(shop, sessions)[0][0] == 0)


def test_a_reset_and_a_statement_without_text_are_reported(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    path = tmp_path / "shop.capture"
    with shopping(shop):
        running = pgdyno.start("capture", *server_options(shop), "-o", path, "--duration", "6s")
        await_first_counters(running, shop)
        run_sql(shop, "SELECT pg_stat_statements_reset()")
        said = running.wait(60)
    assert said.code == 0, said.err
    capture = file.read(path)
    assert any("was reset once" in note for note in capture.notes)
    assert {"select customer", "insert orders"} <= {t.name for t in capture.templates}


def test_a_range_finds_as_many_rows_in_the_mirror(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    ranges = (
        "SELECT id FROM orders WHERE at > now() - interval '100 minutes'",
        "SELECT id FROM orders WHERE id <= 250",
    )
    path = tmp_path / "shop.capture"
    captured_while(pgdyno, shop, path, ranges * 10)
    given = ("-b", path, "-c", "1", "--warmup", "0s", "--duration", "1s", "--allow-write")
    said = pgdyno("bench", *server_options(shop), *given, "--json", "-q", timeout_s=300)
    [row] = [r for r in said.document["likeness"]["statements"] if "<=" in r["text"]]
    assert row["copy"]["rows"] == pytest.approx(250, rel=0.25), row


def test_limits_are_constants_and_equal_keys_are_equal(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    # Sessions are seen in a transaction that lasts longer than the pause between two looks.
    transaction = (
        "BEGIN",
        "SELECT id FROM orders WHERE customer = 7 ORDER BY at LIMIT 5",
        "DO 'begin perform pg_sleep(0.06); end'",
        "UPDATE customer SET name = name WHERE id = 7",
        "COMMIT",
    )
    capture = captured_while(pgdyno, shop, tmp_path / "shop.capture", transaction * 150)
    texts = {statement.id: statement.text for statement in capture.statements}
    steps = {
        texts[step.statement].split()[0]: step
        for template in capture.templates
        for step in template.steps
    }
    assert steps["SELECT"].parameters[1] == Constant(value="4")
    if not any("sessions and counts prove" in note for note in capture.notes):
        assert steps["UPDATE"].parameters == (Equal(step=1, parameter=0),)


def test_a_capture_sends_only_what_print_sql_shows_and_cannot_write(
    pgdyno: Command, shop: Target, observed_server: ScratchCluster, tmp_path: Path
) -> None:
    shown = " ".join(pgdyno("capture", "--print-sql").out.split())
    name = sql.Identifier(shop.database)
    run_sql(shop, "SELECT count(*) FROM orders")
    run_sql(shop, sql.SQL("ALTER DATABASE {} SET log_statement = 'all'").format(name))
    before = len(observed_server.log_path.read_text())
    path = tmp_path / "shop.capture"
    said = pgdyno("capture", *server_options(shop), "-o", path, "--duration", "3s")
    assert said.code == 0, said.err
    logged = observed_server.log_path.read_text()[before:]
    sent = re.findall(r"LOG:  (?:statement|execute [^:]+): (.*(?:\n\t.*)*)", logged)
    texts = {" ".join(text.removesuffix(MARK).split()) for text in sent}
    texts = {re.sub(r"datid = \d+", "datid = DATABASE", text) for text in texts}
    texts = {text.replace("public.pg_stat_st", "SCHEMA.pg_stat_st") for text in texts}
    assert len(texts) > 20
    own = ("SET ", "PREPARE pgdyno_", "DEALLOCATE ALL", "BEGIN", "COMMIT", "ROLLBACK")
    assert not [text for text in texts if text not in shown and not text.startswith(own)]
    switched = {text for text in texts if "transaction_read_only" in text}
    assert switched == {"SET \"default_transaction_read_only\" = 'on'"}
    made = "SELECT count(*) FROM pg_class WHERE relname LIKE '%pgdyno%'"
    assert run_sql(shop, made) == [(0,)]


def test_settings_are_those_of_the_server_and_not_of_the_capture(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    path = tmp_path / "shop.capture"
    assert pgdyno("capture", *server_options(shop), "-o", path, "--duration", "2s").code == 0
    settings = file.read(path).settings
    names = ("jit", "max_parallel_workers_per_gather", "standard_conforming_strings", "work_mem")
    assert [settings[name] for name in names] == [
        scalar(shop, f"SELECT current_setting('{name}')") for name in names
    ]


def test_a_role_without_rights_captures_what_it_may_read_and_learns_the_grants(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    run_sql(shop, "CREATE ROLE nobody_much LOGIN")
    try:
        options = server_options(shop, user="nobody_much")
        said = pgdyno("capture", *options, "-o", tmp_path / "a.capture", "--duration", "2s")
        assert said.code == 0, said.err
        assert "no right on public.customer" in said.err
        assert "GRANT pg_monitor TO nobody_much" in said.err
        assert "GRANT pg_read_all_data TO nobody_much" in said.err
        assert len(file.read(tmp_path / "a.capture").tables) == 3
    finally:
        run_sql(shop, "DROP ROLE nobody_much")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--duration", "1s", "-h", "db1"), "--duration must be at least 2s"),
        ((), "capture needs a server, but the command names none"),
        (("show",), "show needs a file"),
        (("show", "a", "b"), "show takes one file"),
        (("scripts", "EMPTY"), "scripts needs a folder"),
        (("scripts", "EMPTY", "out"), "has no templates of transactions"),
        (("show", "EMPTY", "--keep-values"), "--keep-values has no effect here"),
        (("-h", "db1", "--all"), "--all has no effect here"),
        (("db1", "core.capture"), "one conninfo, or show FILE"),
        (("show", "MISSING"), "MISSING cannot be read"),
    ],
)
def test_a_request_that_cannot_work_is_refused(
    pgdyno: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "EMPTY").write_bytes(file.encoded(Capture(header=header())))
    said = pgdyno("capture", *words)
    assert said.code == 1, said.err
    assert message in " ".join(said.err.split())


def test_a_file_that_exists_is_not_replaced(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    (tmp_path / "a.capture").write_text("mine")
    given = ("-o", tmp_path / "a.capture", "--duration", "2s")
    said = pgdyno("capture", *server_options(database15), *given)
    assert said.code == 1
    assert "a.capture exists" in " ".join(said.err.split())
    assert (tmp_path / "a.capture").read_text() == "mine"


def test_a_folder_that_is_not_there_is_noticed_before_the_capture(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    given = ("-o", tmp_path / "none" / "a.capture", "--duration", "10min")
    said = pgdyno("capture", *server_options(database15), *given)
    assert said.code == 1
    assert "name another file with -o" in said.err
