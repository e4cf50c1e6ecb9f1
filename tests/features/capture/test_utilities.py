"""Settings, cursors, channels, locks and COPY TO of an application come back in its mirror."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import tuple_row
from tests.fixtures.captured_load import capture_new_log, capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.observed import STATEMENTS

from pgdyno.features.capture import file
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.server.find import find
from pgdyno.server.target import Target

SETTINGS = {
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
}
ROLE = "app_of_planters"
BLOCK = "DO $$BEGIN PERFORM FROM entry WHERE id = 7; -- planted\nEND$$"
PAYLOAD, CHANNEL = "planted payload 8642097", "planted_channel"


def use(target: Target, turns: int) -> None:
    """Use everything as applications do; psycopg prepares, pastes, and sends DECLARE itself."""
    with connection(target) as session, psycopg.ClientCursor(session) as pasted:
        session.execute("SET work_mem = '8MB'")
        session.execute(f"LISTEN {CHANNEL}")
        session.execute("SELECT extract(epoch FROM now())")
        for turn in range(turns):
            with session.transaction():
                session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                session.execute("SET LOCAL statement_timeout = '30s'")
                pasted.execute("SELECT set_config(%s, %s, %s)", ["TimeZone", "Europe/Berlin", True])
                session.execute("SELECT set_config('lock_timeout', %s, false)", ["2s"])
                session.execute("SELECT word FROM entry WHERE id = %s", [1 + turn])
            with session.transaction():
                session.execute("SELECT pg_advisory_xact_lock(%s)", [turn % 3])
                session.execute("UPDATE entry SET word = word WHERE id = %s", [1 + turn])
                session.execute(f"NOTIFY {CHANNEL}, '{PAYLOAD}'")
                pasted.execute("SELECT pg_notify(%s, %s)", [CHANNEL, PAYLOAD])
            session.execute("SELECT pg_advisory_lock(%s)", [100 + turn % 3])
            with session.transaction():
                session.execute("LOCK TABLE entry IN ROW EXCLUSIVE MODE")
                session.execute("UPDATE entry SET word = word WHERE id = %s", [200 + turn])
            session.execute("SELECT pg_advisory_unlock(%s)", [100 + turn % 3])
            session.execute(BLOCK)
            with session.transaction():
                session.execute(f"SET LOCAL ROLE {ROLE}")
                session.execute("SELECT now()")
            with session.transaction(), session.cursor(f"numbered_{turn}") as rows:
                rows.execute("SELECT id, word FROM entry WHERE id > %s ORDER BY id", [turn])
                assert len(rows.fetchmany(10)) == 10
                rows.scroll(5)
                assert len(rows.fetchmany(10)) == 10
            with session.cursor(row_factory=tuple_row).copy("COPY entry (id) TO STDOUT") as copied:
                assert len(list(copied)) > 0


def server(make: Make, version: str, settings: Mapping[str, str]) -> Target:
    target = make(version, settings=settings).target
    run_sql(target, "CREATE DATABASE core")
    run_sql(target, f"CREATE ROLE {ROLE}")
    core = target.with_database("core")
    for statement in (
        "CREATE TABLE entry (id int PRIMARY KEY, word text NOT NULL)",
        "INSERT INTO entry SELECT g, 'word ' || g FROM generate_series(1, 500) g",
        "ANALYZE",
    ):
        run_sql(core, statement)
    return core


def texts_of(capture: Capture) -> set[str]:
    used = {step.statement for template in capture.templates for step in template.steps}
    return {statement.text for statement in capture.statements if statement.id in used}


def is_clean(path: Path) -> bool:
    text = file.zstd.decompress(path.read_bytes()).decode()
    return not any(word in text for word in ("planted", "8642097", "numbered_"))


@pytest.mark.parametrize("version", ["15", "18"])
def test_utility_statements_of_a_log_run_in_the_mirror(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    core, path = server(new_cluster, version, SETTINGS), tmp_path / "a.capture"
    capture_new_log(pgdyno, core, path, lambda: use(core, 20))
    capture = file.read(path)
    texts = texts_of(capture)
    for part in (
        "SET work_mem TO '8MB'",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET LOCAL statement_timeout TO '30s'",
        "SELECT set_config('timezone', 'Europe/Berlin', true)",
        "SELECT set_config('lock_timeout', '2s', true)",
        "SELECT pg_advisory_xact_lock($1)",
        "COPY entry (id) TO STDOUT",
        "LOCK TABLE entry IN ROW EXCLUSIVE MODE",
        f'SET LOCAL ROLE "{ROLE}"',
        "DO $do$BEGIN PERFORM FROM entry WHERE id = 7;  \nEND$do$",
    ):
        assert part in texts
    for begin in ("LISTEN", "NOTIFY", "SELECT pg_notify", "DECLARE", "FETCH", "MOVE", "CLOSE"):
        assert any(text.startswith(begin) for text in texts), begin
    assert is_clean(path)
    assert {item.reason for item in capture.left_out} == {"session_lock"}
    run_sql(core, "CREATE DATABASE copy")
    copy = server_options(core.with_database("copy"))
    assert pgdyno("init", path, *copy, "-q").code == 0
    said = pgdyno("bench", *copy, "-b", path, "-c", "2", "--duration", "1s", "-q", "--json")
    assert said.code in (0, 3), said.err
    assert said.document["failures"] == {}, said.document["warnings"]
    assert said.document["transactions"] > 20
    assert said.document["likeness"]["reproduced_calls"] > 0.85
    assert scalar(core, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
    assert not any("role" in item["message"] for item in said.document["warnings"])
    # Sessions of the mirror listen where the others notify.
    assert {t.partition(" ")[2] for t in texts if t.startswith("LISTEN")} == {
        t.split()[1].rstrip(",") for t in texts if t.startswith("NOTIFY")
    }


def test_statistics_show_what_needs_no_place_in_a_transaction(
    pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    core, path = server(new_cluster, "15", STATEMENTS), tmp_path / "a.capture"
    run_sql(core, "CREATE EXTENSION pg_stat_statements")
    capture_statistics(pgdyno, core, path, lambda: use(core, 30), seconds=3)
    capture = file.read(path)
    texts = texts_of(capture)
    assert {"COPY entry (id) TO STDOUT", "SET work_mem TO '8MB'"} <= texts
    assert {text.split()[0] for text in texts} >= {"LISTEN", "NOTIFY", "UPDATE"}
    # The server shows extract($1 FROM now()), which it does not accept itself.
    assert any("pg_catalog.date_part($1, now())" in text for text in texts)
    assert {item.reason for item in capture.left_out} >= {"session", "cursor"}
    assert {item.reason for item in capture.left_out} >= {"session_lock", "other"}
    assert any("shorter than 10 s" in note for note in capture.notes)
    assert is_clean(path)


NAMES = Names({"shop.orders": ["id"]}, ["shop"], roles={"app"})


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("SET search_path TO shop, public", "SET LOCAL search_path TO 'shop', 'public'"),
        ("SET TIME ZONE 'UTC'", "SET timezone TO 'UTC'"),
        ("SET enable_seqscan = off", "SET enable_seqscan TO 'off'"),
        ("RESET lock_timeout", "SET LOCAL lock_timeout TO DEFAULT"),
        ("FETCH ALL IN c1", "FETCH FORWARD ALL FROM c_KEYED"),
        ("MOVE BACKWARD 5 c1", "MOVE BACKWARD 5 FROM c_KEYED"),
        ("CLOSE ALL", "CLOSE ALL"),
        ("UNLISTEN *", "UNLISTEN *"),
        ("SET ROLE app", 'SET LOCAL ROLE "app"'),
        ("RESET ROLE", "SET LOCAL ROLE NONE"),
        ("SET SESSION AUTHORIZATION app", 'SET LOCAL SESSION AUTHORIZATION "app"'),
        ("SELECT set_config('role', 'app', true)", "SELECT set_config('role', 'app', true)"),
        ("LOCK TABLE orders IN SHARE MODE", "LOCK TABLE orders IN SHARE MODE"),
        (
            "DO $$ BEGIN -- planted\nUPDATE orders SET id = id + 1 WHERE id < 5; END $$",
            "DO $do$ BEGIN  \nUPDATE orders SET id = id + 1 WHERE id < 5; END $do$",
        ),
    ],
)
def test_harmless_utility_statements_are_sent_again(text: str, sent: str) -> None:
    parsed = parse(text, NAMES)
    keyed = re.sub(r"\bc_[0-9a-f]{8}$", "c_KEYED", parsed.text)
    assert (keyed, parsed.reason) == (sent, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SET search_path TO planted", "session"),
        ("SET application_name = 'planted'", "session"),
        ("SET timezone = 'planted'", "session"),
        ("SET my.setting = 'planted'", "session"),
        ("SET ROLE planted", "session"),
        ("SET SESSION AUTHORIZATION planted", "session"),
        ("RESET ALL", "session"),
        ("SET work_mem = $1", "session"),  # So PostgreSQL 18 keeps it.
        ("SET TRANSACTION READ WRITE", "session"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "session"),
        ("SELECT set_config('role', 'planted', true)", "constants"),
        ("SELECT set_config($1, $2, true)", "session"),
        ("DO $$BEGIN PERFORM pg_notify('planted', ''); END$$", "procedure"),
        ("DO $$BEGIN UPDATE orders SET id = 8642097; END$$", "procedure"),
        ("DO $$BEGIN EXECUTE 'x'; END$$", "procedure"),
        ("DO $$BEGIN IF true THEN COPY orders TO 'a'; END IF; END$$", "procedure"),
        ("DO $$BEGIN PERFORM '--'; PERFORM FROM orders; END$$", "procedure"),
        ("DO $$BEGIN /* a /* b */ planted */ PERFORM FROM orders; END$$", "procedure"),
        ("DO LANGUAGE plpython3u 'x'", "procedure"),
        ("LOCK TABLE planted", "other"),
        ("PREPARE TRANSACTION 'planted'", "two_phase"),
        ("COMMIT PREPARED 'planted'", "two_phase"),
        ("DECLARE planted CURSOR WITH HOLD FOR SELECT id FROM orders", "cursor"),
        ("DECLARE planted CURSOR FOR SELECT id FROM orders WHERE id = 8642097", "constants"),
        ("COPY (SELECT id FROM orders WHERE id = 8642097) TO STDOUT", "copy"),
        ("COPY orders TO '/tmp/planted'", "copy"),
        ("COPY orders TO STDOUT WITH (NULL 'planted')", "copy"),
    ],
)
def test_other_utility_statements_are_left_out_without_a_value(text: str, reason: str) -> None:
    parsed = parse(text, NAMES)
    assert parsed.reason == reason
    assert "planted" not in parsed.text
    assert "8642097" not in parsed.text


def test_the_stand_in_of_a_channel_is_another_one_in_each_capture() -> None:
    listen = (
        "from pgdyno.features.capture.reading.utilities import text_of;"
        "print(*[text_of('ListenStmt', {'conditionname': name}, is_schema=bool,"
        " is_named=lambda name: False) for name in ('user_7', 'user_7', 'user_8')], sep='/')"
    )
    command = [sys.executable, "-c", listen]
    captures = [subprocess.check_output(command, text=True) for _ in range(2)]
    for capture in captures:
        first, same, other = capture.strip().split("/")
        assert first == same != other
    assert captures[0] != captures[1]


@pytest.mark.parametrize("keeps_values", [False, True])
@pytest.mark.parametrize("version", ["15", "18"])
def test_the_session_of_a_dump_in_the_log_does_not_stop_the_load(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str, keeps_values: bool
) -> None:
    core, path = server(new_cluster, version, SETTINGS), tmp_path / "a.capture"

    def used() -> None:
        use(core, 5)
        dump = [str(find(version=version).program("pg_dump")), "-d", core.as_conninfo()]
        subprocess.run(dump, check=True, stdout=subprocess.DEVNULL, timeout=60)

    keep = ("--keep-values", "--i-may-store-values") if keeps_values else ()
    capture_new_log(pgdyno, core, path, used, options=keep)
    run_sql(core, "CREATE DATABASE copy" + (" TEMPLATE core" if keeps_values else ""))
    copy = [*server_options(core.with_database("copy"))]
    if keeps_values:
        copy.append("--allow-write")
        path = path.with_suffix(".with-values.capture")
    else:
        said = pgdyno("init", path, *copy)
        assert said.code == 0, said.err
    said = pgdyno("bench", *copy, "-b", path, "-c", "2", "-T", "2s", "--warmup", "0s")
    assert said.code in (0, 3), said.err
