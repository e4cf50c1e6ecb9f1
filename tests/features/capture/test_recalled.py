"""Values that a program keeps from one transaction of a session to a later one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.features.capture.test_log_transactions import capture_of, entry, texts
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command

from pgdyno.features.capture.model import Giver, KnownValue, OfColumn, Recalled, Sighting
from pgdyno.server.target import Target

HIRE = "INSERT INTO pgbench_tellers (bid, tbalance) VALUES ($1, $2) RETURNING tid"
CHANGE = "UPDATE pgbench_tellers SET tbalance = $1 WHERE tid = $2 AND tbalance = $3"
LOOK = "SELECT tbalance FROM pgbench_tellers WHERE tid = $1"
SCHEMA = (
    "CREATE TABLE step (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text,"
    " version int NOT NULL)",
    "CREATE TABLE item (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, batch int NOT NULL,"
    " amount int)",
    "CREATE INDEX ON item (batch, id)",
    "INSERT INTO step (name, version) SELECT 'old', 9 FROM generate_series(1, 500)",
    "INSERT INTO item (batch) SELECT n % 60 FROM generate_series(1, 6000) n",
    "ANALYZE",
)


def work(target: Target) -> None:
    """Two sessions change a row with its version again and again, and read a table by pages."""
    for seed in range(2):
        rng = random.Random(seed)
        with connection(target) as session:
            for _ in range(12):
                made = "INSERT INTO step (name, version) VALUES ('work', 0) RETURNING id"
                [step] = session.execute(made).fetchone()
                batch, last = rng.randrange(60), 0
                for version in range(5):
                    page = "SELECT id, amount FROM item WHERE batch = %s AND id > %s ORDER BY id"
                    rows = session.execute(f"{page} LIMIT 20", [batch, last]).fetchall()
                    last = rows[-1][0]
                    session.execute("UPDATE item SET amount = 1 WHERE id = %s", [last])
                    change = "UPDATE step SET version = %s WHERE id = %s AND version = %s"
                    session.execute(change, [version + 1, step, version])


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_a_row_with_its_version_is_changed_again_and_again(
    version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, work, origin="log", version=version)
    run_sql(made.copy, "CREATE EXTENSION pg_stat_statements")
    result = made.mirror("3s")
    assert result["failures"] == {}
    [row] = [own for own in result["likeness"]["statements"] if "UPDATE step" in own["text"]]
    # Without what the session knows, hardly any call finds its row.
    assert row["copy"]["rows"] > 0.8, row


def changes(*, of_session: bool) -> str:
    """Return a log of two sessions, each of which changes rows that it has hired."""
    rng, said = random.Random(1), ""
    for number in range(30):
        for session, is_second in (("1.a", False), ("2.b", True)):
            at, key = 10 * number + is_second / 2, 100 + 2 * number + is_second
            said += entry(session, at, HIRE, ["1", "0"])
            for version in range(3):
                own = key if of_session else rng.randrange(1000)
                balance = 100 * key + version
                values = [str(balance + 1), str(own), str(balance if version else 0)]
                said += entry(session, at + 1 + version, CHANGE, values)
    return said


def test_a_key_comes_from_the_insert_and_a_version_from_the_change_before(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, changes(of_session=True))
    [change] = [t for t in capture.templates if texts(capture, t) == [CHANGE]]
    known = {statement.text: statement.id for statement in capture.statements}
    _, key, version = change.steps[0].parameters
    assert isinstance(key, Recalled)
    assert key.givers == (Giver(statement=known[HIRE], column=0),)
    assert key.shares == (1.0,)
    # In whatever session the row was changed: the version is the one that it has now.
    assert isinstance(version, KnownValue)
    changed = Giver(statement=known[CHANGE], parameter=1)
    written = Giver(statement=known[CHANGE], parameter=0)
    assert Sighting(key=(changed,), value=written) in version.sightings
    assert isinstance(version.otherwise, Recalled)
    assert Giver(statement=known[CHANGE], parameter=0) in version.otherwise.givers


def test_keys_that_sessions_do_not_know_are_those_of_any_row(tmp_path: Path) -> None:
    said = changes(of_session=False)
    said += "".join(entry("3.c", 400 + n, LOOK, [str(n * 37 % 10)]) for n in range(50))
    capture = capture_of(tmp_path, said)
    for text, place in ((CHANGE, 1), (LOOK, 0)):
        [template] = [t for t in capture.templates if texts(capture, t) == [text]]
        assert isinstance(template.steps[0].parameters[place], OfColumn), text


JOBS = (
    "CREATE TABLE job (kind text, name text, state text NOT NULL, version int NOT NULL DEFAULT 0,"
    " PRIMARY KEY (kind, name))",
    "CREATE TABLE account (id int PRIMARY KEY, owner text, version int NOT NULL DEFAULT 0)",
    "INSERT INTO account SELECT n, 'owner ' || n % 90, n % 7 FROM generate_series(1, 800) n",
    "INSERT INTO job SELECT 'old', 'j' || n, 'done' FROM generate_series(1, 50) n",
    "ANALYZE",
)
READ = "SELECT id, owner, version FROM account WHERE id = %s"
CHANGE_OWNER = "UPDATE account SET owner = %s, version = version + 1 WHERE id = %s AND version = %s"
BEGIN_JOB = (
    "UPDATE job SET state = 'busy', version = version + 1"
    " WHERE kind = %s AND name = %s AND version = %s"
)


def work_of_a_pool(target: Target) -> None:
    """Each statement takes any connection of a pool: what one has read, another one changes."""
    rng = random.Random(3)
    with connection(target) as first, connection(target) as second:

        def sent(text: str, values: list[object]) -> Any:
            return rng.choice([first, second]).execute(text, values)

        waiting: list[tuple[str, str]] = []
        for number in range(400):
            key = rng.randrange(1, 801)
            owned = sent(READ, [key]).fetchone()
            if rng.random() < 0.7:
                changed = sent(CHANGE_OWNER, [f"owner {rng.randrange(90)}", key, owned[2]])
                assert changed.rowcount == 1
            made = "INSERT INTO job (kind, name, state, version) VALUES (%s, %s, 'new', 0)"
            waiting.append((rng.choice(["mail", "bill"]), f"job {number}"))
            sent(made, list(waiting[-1]))
            if len(waiting) > 5:
                kind, name = waiting.pop(0)
                assert sent(BEGIN_JOB, [kind, name, 0]).rowcount == 1


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_what_one_session_reads_or_makes_another_one_changes(
    version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(
        pgdyno, new_cluster, tmp_path, JOBS, work_of_a_pool, origin="log", version=version
    )
    run_sql(made.copy, "CREATE EXTENSION pg_stat_statements")
    result = made.mirror("3s")
    assert result["failures"] == {}
    rows = {own["text"].split()[1]: own["copy"]["rows"] for own in
            result["likeness"]["statements"] if own["text"].startswith("UPDATE")}  # fmt: skip
    assert rows["account"] > 0.95, rows
    assert rows["job"] > 0.9, rows


TRIPS = (
    "CREATE TABLE trip (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " state text NOT NULL DEFAULT 'held')",
    "CREATE TABLE part (trip bigint NOT NULL REFERENCES trip, name text, state text DEFAULT 'new',"
    " PRIMARY KEY (trip, name))",
    "INSERT INTO trip (state) SELECT CASE n % 9 WHEN 0 THEN 'held' ELSE 'done' END"
    " FROM generate_series(1, 500) n",
    "INSERT INTO part SELECT id, name, 'done' FROM trip, unnest('{a,b,c,d}'::text[]) name"
    " WHERE id % 3 = 0",
    "ANALYZE",
)
END_PART = "UPDATE part SET state = %s WHERE trip = %s AND name = %s"
END_TRIP = "UPDATE trip SET state = 'done' WHERE id = %s AND state = ANY(%s)"


def work_with_parts(target: Target) -> None:
    """Each trip is made with one to four parts; any session ends a part, and each trip once."""
    rng, open_trips = random.Random(5), []
    with connection(target) as first, connection(target) as second:
        for _ in range(250):
            session = rng.choice([first, second])
            names = rng.sample("abcd", rng.randint(1, 4))
            with session.transaction():
                [trip] = session.execute("INSERT INTO trip DEFAULT VALUES RETURNING id").fetchone()
                rows = ", ".join(["(%s, %s)"] * len(names))
                values = [value for name in names for value in (trip, name)]
                session.execute(f"INSERT INTO part (trip, name) VALUES {rows}", values)
            open_trips.append((trip, names))
            for _ in range(2):
                trip, names = rng.choice(open_trips)
                session = rng.choice([first, second])
                session.execute(END_PART, ["busy", trip, rng.choice(names)])
            if len(open_trips) > 5:
                trip, _ = open_trips.pop(rng.randrange(5))
                rng.choice([first, second]).execute(END_TRIP, [trip, ["held", 'a "new" one']])


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_the_parts_of_a_key_are_those_of_one_row(
    version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(
        pgdyno, new_cluster, tmp_path, TRIPS, work_with_parts, origin="log", version=version
    )
    run_sql(made.copy, "CREATE EXTENSION pg_stat_statements")
    result = made.mirror("3s")
    assert result["failures"] == {}
    rows = result["likeness"]["statements"]
    known = {" ".join(own["text"].split()[:2]): own["copy"]["rows"] for own in rows}
    assert known["UPDATE part"] > 0.95, rows
    # A trip is ended once, and only one of the load is still open.
    assert known["UPDATE trip"] > 0.9, rows
    # One row, or any number of them: two to four.
    single, several = sorted(own["copy"]["rows"] for own in rows if "INTO part" in own["text"])
    assert single == 1, rows
    assert 2.5 < several < 3.5, rows
