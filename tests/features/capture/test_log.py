"""Logs of real servers: the load that wrote them comes back, in every format."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_signal_while_server_hangs import ENDS_WITHIN_S, seconds_idle_until_end
from tests.features.capture.mixed_logs import write_mixed_log
from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import PROGRAM, Command, server_options

from pgdyno.engine.executable import engine_path
from pgdyno.features.capture import file
from pgdyno.features.capture.model import Capture, Constant, Drawn, Equal, Fresh, ListOf, OfColumn
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

FORMATS = {"stderr": "log", "csvlog": "csv", "jsonlog": "json"}
PREFIX = "%m [%p] %q%u@%d %c %v "
TRANSACTIONS = 40
TPCB = ["begin", "update", "select", "update", "update", "insert", "commit"]
# The four scripts, and what each does.
SCRIPTS = {
    "update public.pgbench_accounts": TPCB,
    "insert public.pgbench_history": ["begin", "update", "select", "insert", "commit"],
}


@pytest.fixture(params=["15", "18"])
def logging_server(request: pytest.FixtureRequest, new_cluster: Make) -> ScratchCluster:
    """A server that logs whole transactions, in three formats."""
    return new_cluster(
        request.param,
        settings={
            "logging_collector": "on",
            "log_destination": ", ".join(FORMATS),
            "log_line_prefix": PREFIX,
            "log_transaction_sample_rate": "1",
            "log_directory": "log",
        },
    )


def pgbench(target: Target, *arguments: str) -> None:
    given = target.libpq_parameters()
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGDATABASE": "dbname"}
    environment = os.environ | {name: str(given[key]) for name, key in names.items()}
    argv = [str(engine_path()), "pgbench", *arguments]
    subprocess.run(argv, env=environment, check=True, capture_output=True, timeout=120)


def logs_of(target: Target, suffix: str) -> list[Path]:
    """Return the log files of a format; what is waiting is written when the files are rotated."""
    [[folder]] = run_sql(target, "SELECT current_setting('data_directory')")
    return sorted(Path(str(folder), "log").glob(f"*.{suffix}"))


def captured(pgdyno: Command, target: Target, path: Path, *logs: object) -> Capture:
    options = [word for log in logs for word in ("--log", log)]
    said = pgdyno("capture", *server_options(target), "-o", path, *options)
    assert said.code == 0, said.err
    return file.read(path)


def kinds_of(capture: Capture) -> Iterator[tuple[str, list[str], float]]:
    """Yield the protocol, the kinds of the steps, and the rate of each template."""
    statements = {statement.id: statement for statement in capture.statements}
    for template in capture.templates:
        kinds = [statements[step.statement].kind for step in template.steps]
        yield template.protocol, kinds, template.rate_tps


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_a_log_in_any_format_gives_the_scripts_of_the_load_back(
    mode: str, logging_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    target = logging_server.target
    pgbench(target, "-i", "-s", "3", "-q")
    loop = tmp_path / "loop.sql"
    loop.write_text(
        "\\set k random(1, 300000)\nBEGIN;\n"
        + "SELECT abalance FROM pgbench_accounts WHERE aid = :k;\n" * 3
        + "DELETE FROM pgbench_history WHERE aid = :k;\nCOMMIT;\n"
    )
    for script in ("tpcb-like", "simple-update", "select-only", None):
        chosen = ("-b", script) if script else ("-f", str(loop))
        pgbench(target, "-n", "-c", "2", "-t", str(TRANSACTIONS // 2), "-M", mode, *chosen)
    by_format = {}
    for name, suffix in FORMATS.items():
        logs = logs_of(target, suffix)
        capture = captured(pgdyno, target, tmp_path / f"{name}.capture", *logs)
        load = [item for item in kinds_of(capture) if len(item[1]) > 1 or item[2] > 1e-9]
        by_format[name] = capture
        counts = Counter()
        for protocol, kinds, rate in load:
            assert protocol == mode or kinds == ["select"]
            counts[tuple(kinds)] += round(rate * capture.header.seconds)
        assert counts[tuple(TPCB)] == TRANSACTIONS
        assert counts["begin", "update", "select", "insert", "commit"] == TRANSACTIONS
        assert counts["begin", "select", "delete", "commit"] == TRANSACTIONS
        assert counts["select",] >= TRANSACTIONS
        assert capture.header.sources == ("log",)
    capture = by_format["csvlog"]
    tpcb = next(t for t in capture.templates if len(t.steps) == len(TPCB))
    _, update, select, teller, branch, history, _ = tpcb.steps
    delta, account = update.parameters
    assert isinstance(delta, Drawn)
    assert float(delta.distribution.bounds[0]) < -3500
    assert float(delta.distribution.bounds[-1]) > 3500
    assert account == OfColumn(table="public.pgbench_accounts", column="aid")
    assert select.parameters == (Equal(step=1, parameter=1),)
    assert teller.parameters[0] == Equal(step=1, parameter=0)
    assert isinstance(branch.parameters[1], OfColumn)
    assert all(isinstance(source, Equal) for source in history.parameters)
    looped = next(t for t in capture.templates if len(t.steps) == 4)
    assert looped.steps[1].repeat.mean == 3
    assert looped.steps[2].parameters == (Equal(step=1, parameter=0),)


def test_values_of_the_log_are_not_in_the_capture(
    logging_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    target = logging_server.target
    run_sql(target, "CREATE TABLE person (id bigint PRIMARY KEY, name text, born date, seen"
                    " timestamptz, tags text[])")  # fmt: skip
    planted = [f"planted{number}name" for number in range(50)]
    with connection(target) as session:
        for number, name in enumerate(planted):
            with session.transaction():
                session.execute(
                    "INSERT INTO person VALUES (%s, %s, %s, now(), %s)",
                    (770_000 + number, name, f"19{40 + number}-03-17", [name, "x"]),
                )
                session.execute("SELECT id FROM person WHERE name = %s", (name,))
            session.execute("SELECT count(*) FROM person WHERE id IN (770001, 770002) LIMIT 10")
            session.execute("SELECT count(*) FROM person WHERE born > date '1961-03-17'")
        session.execute("CREATE ROLE planted_role PASSWORD 'planted4secret'")
    capture = captured(pgdyno, target, tmp_path / "a.capture", *logs_of(target, "csv"))
    text = "".join(part.model_dump_json() for part in (*capture.templates, *capture.statements))
    text += "".join(part.model_dump_json() for part in capture.left_out)
    assert "planted" not in text
    assert not any(str(770_000 + number) in text for number in range(50))
    assert not any(f"19{40 + number}-03-17" in text for number in range(50))
    insert = next(t for t in capture.templates if "insert" in t.name)
    key, *_ = insert.steps[1].parameters
    assert key == Fresh(table="public.person", column="id")
    assert insert.steps[2].parameters == (Equal(step=1, parameter=1),)
    counted = [t for t in capture.templates if len(t.steps) == 1]
    assert any(
        isinstance(s, ListOf) and s.length.mean == 2 for t in counted for s in t.steps[0].parameters
    )
    assert any(s == Constant(value="10") for t in counted for s in t.steps[0].parameters)


def test_statistics_and_logs_together_are_one_capture(
    pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "logging_collector": "on",
        "log_destination": "csvlog",
        "log_transaction_sample_rate": "1",
        "log_directory": "log",
    }
    target = new_cluster("15", settings=settings).target
    run_sql(target, "CREATE EXTENSION pg_stat_statements")
    pgbench(target, "-i", "-s", "1", "-q")
    pgbench(target, "-n", "-c", "2", "-t", "50", "-M", "prepared")
    path = tmp_path / "both.capture"
    [log] = logs_of(target, "csv")
    load = ("-n", "-c", "2", "-T", "2", "-R", "200", "-M", "prepared")
    options = ("--log", log)
    capture_statistics(pgdyno, target, path, lambda: pgbench(target, *load), options=options)
    capture = file.read(path)
    assert set(capture.header.sources) == {"statistics", "log"}
    # The transactions and their parameters are those of the log ...
    [tpcb] = [template for template in capture.templates if len(template.steps) == len(TPCB)]
    assert tpcb.origin == "log"
    assert tpcb.steps[2].parameters == (Equal(step=1, parameter=1),)
    # ... and the counters those of the server.
    used = {step.statement for step in tpcb.steps}
    counted = [own.counters for own in capture.statements if own.id in used and own.tables]
    assert len(counted) == len(TPCB) - 2
    assert all(own.hit_blocks > 0 and own.rows == own.calls for own in counted)
    assert capture.profile.commits >= counted[0].calls > 0
    assert capture.profile.updates >= 3 * counted[0].calls
    said = pgdyno("capture", "show", path, "--coverage", "--json")
    assert said.document["calls_ratio"] > 0.95


def test_a_log_in_german_with_nul_bytes_and_a_cut_end_is_read_as_far_as_it_goes(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    run_sql(database15, "CREATE TABLE t (a int PRIMARY KEY, b text)")
    run_sql(database15, "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 100) g")
    path, lines = tmp_path / "a.log", b""
    for number in range(30):
        prefix = f"2026-11-24 10:00:{number:02}.000 UTC [{7 + number % 2}] {database15.database} "
        lines += f"{prefix}LOG:  Dauer: 1.000 ms  Ausführen <unnamed>: ".encode()
        lines += b"SELECT b FROM t WHERE a = $1\n"
        lines += f"{prefix}DETAIL:  Parameter: $1 = '{number}'\n".encode()
        lines += b"\0\0\0\xff\n" if number == 12 else b""
    path.write_bytes(lines[:-20])
    given = (*server_options(database15), "--log", path, "-o", tmp_path / "a.capture")
    said = pgdyno("capture", *given, "--log-line-prefix", "%m [7] %d ")
    assert said.code == 1
    assert "log_line_prefix has neither %c nor %p" in " ".join(said.err.split())
    said = pgdyno("capture", *given, "--log-line-prefix", "%m [%p] %d ")
    assert said.code == 0, said.err
    capture = file.read(tmp_path / "a.capture")
    [template] = capture.templates
    assert len(template.steps) == 1
    notes = " ".join(capture.notes)
    assert "NUL bytes in the logs: 3" in notes
    assert "messages at the end of a log are cut and left out: 1" in notes
    assert "texts of the logs are not UTF-8" in notes or "belong to no message" in notes


def test_a_log_of_another_database_is_refused(
    logging_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(logging_server.target, "CREATE DATABASE other")
    target = logging_server.target.with_database("other")
    [*_, newest] = logs_of(logging_server.target, "json")
    said = pgdyno("capture", *server_options(target), "-o", tmp_path / "a", "--log", newest)
    assert said.code == 1
    assert "the logs have no statement of database other" in said.err


def test_the_options_of_logs_have_their_effect(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    run_sql(database15, "CREATE TABLE t (a int)")
    name, lines = database15.database, ""
    for number in range(20):
        lines += f"{name} 2026-11-24 10:00:{number:02}.000 UTC 1.a LOG:  duration: 1.000 ms"
        lines += "  statement: SELECT count(*) FROM t\n"
    path = tmp_path / "a.log"
    path.write_text(lines)
    options = ("capture", *server_options(database15), "--log", path)
    said = pgdyno(*options, "-o", tmp_path / "no.capture")
    assert "--log-line-prefix" in said.error
    rate = ("--log-line-prefix", "%d %m %c ", "--log-sample-rate", "0.1")
    said = pgdyno(*options, *rate, "-o", tmp_path / "a.capture")
    assert said.code == 0, said.err
    capture = file.read(tmp_path / "a.capture")
    assert capture.header.transaction_sample_ratio == 0.1
    assert [round(t.rate_tps * capture.header.seconds) for t in capture.templates] == [200]
    said = pgdyno("capture", "--log-advice", "--log-sample-rate", "0.5")
    assert "ALTER SYSTEM SET log_transaction_sample_rate = 0.5;" in said.out


@pytest.mark.parametrize("stage", ["reading the log", "joining what was counted"])
def test_a_signal_ends_a_capture_while_it_reads_or_joins_a_long_log(
    stage: str, either_database: Target, tmp_path: Path
) -> None:
    # With these lines each stage takes seconds.
    path = tmp_path / "long.log"
    write_mixed_log(path, 200_000_000)
    text = path.read_bytes().replace(b"me@db", f"me@{either_database.database}".encode())
    path.write_bytes(text)
    run_sql(either_database, "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, abalance int)")
    asked = ("--log", path, "-o", tmp_path / "a.capture")
    argv = [PROGRAM, "capture", *server_options(either_database), *asked]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert any(stage in line for line in running.stderr)
        running.send_signal(signal.SIGTERM)
        assert seconds_idle_until_end(running) < ENDS_WITHIN_S
        assert "Interrupted by SIGTERM" in running.stderr.read()
    assert running.returncode == 143
    assert sorted(tmp_path.iterdir()) == [path]
