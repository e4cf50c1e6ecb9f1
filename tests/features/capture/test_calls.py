"""CALL of procedures: their arguments, those that commit, and both sources on real servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.features.capture.test_utilities import SETTINGS
from tests.fixtures.captured_load import capture_new_log, capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.observed import STATEMENTS

from pgdyno.features.capture import file
from pgdyno.features.capture.reading.functions import functions_of
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.schema import SchemaObject
from pgdyno.server.target import Target

MOVE = (
    "CREATE PROCEDURE move(from_id int, to_id bigint, amount numeric, INOUT moved int)"
    " LANGUAGE plpgsql AS $$ BEGIN"
    " UPDATE account SET balance = balance - amount WHERE id = from_id;"
    " COMMIT;"
    " UPDATE account SET balance = balance + amount WHERE id = to_id;"
    " INSERT INTO done (account) VALUES (to_id);"
    " moved := 1; END $$"
)
NOTE = (
    "CREATE PROCEDURE note(account_id int) LANGUAGE sql"
    " AS $$ INSERT INTO done (account) SELECT id FROM account WHERE id = account_id $$"
)
NAMES = Names(
    {"public.account": ["id", "balance"], "public.done": ["account"]},
    ["public"],
    functions_of(
        SchemaObject(kind="function", name=f"public.{name}", sql=sql)
        for name, sql in (("move", MOVE), ("note", NOTE))
    ),
)


def test_a_call_has_the_types_and_columns_of_its_procedure() -> None:
    parsed = parse("CALL move($1, $2, $3, NULL)", NAMES)
    assert (parsed.text, parsed.reason) == ("CALL move($1, $2, $3, NULL)", "")
    assert parsed.types == ("integer", "bigint", "numeric")
    uses = {number: (p.table, p.column) for number, p in parsed.parameters.items()}
    assert uses[1] == uses[2] == ("public.account", "id")
    assert not parsed.reads_only
    # It commits, so it fails in a transaction block.
    assert (parsed.ends_count, parse("CALL note($1)", NAMES).ends_count) == (1, 0)


@pytest.mark.parametrize(
    ("text", "reason"), [("CALL gone($1)", "function_missing"), ("CALL note('x')", "constants")]
)
def test_a_call_of_an_unknown_procedure_or_with_a_text_is_left_out(text: str, reason: str) -> None:
    assert parse(text, NAMES).reason == reason


def served(make: Make, version: str, settings: Mapping[str, str]) -> Target:
    target = make(version, settings=settings).target
    run_sql(target, "CREATE DATABASE core")
    core = target.with_database("core")
    for statement in (
        "CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL)",
        "INSERT INTO account SELECT g, 1000 FROM generate_series(1, 500) g",
        "CREATE TABLE done (account int NOT NULL REFERENCES account, at timestamptz DEFAULT now())",
        MOVE,
        NOTE,
        "ANALYZE",
    ):
        run_sql(core, statement)
    return core


def use(target: Target, turns: int) -> None:
    """Call procedures with parameters: one that commits, and one between two statements."""
    with connection(target) as session:
        for turn in range(turns):
            given = [1 + turn, 500 - turn, 10]
            session.execute("CALL move(%s, %s, %s, NULL)", given)
            with session.transaction():
                session.execute("SELECT balance FROM account WHERE id = %s FOR UPDATE", [1 + turn])
                session.execute("CALL note(%s)", [1 + turn])


def check(pgdyno: Command, core: Target, path: Path) -> None:
    """Run the mirror on a fresh database: nothing fails, and the procedures did their work."""
    run_sql(core, f"CREATE DATABASE copy_{path.stem}")
    own = core.with_database(f"copy_{path.stem}")
    copy = server_options(own)
    assert pgdyno("init", path, *copy, "-q").code == 0
    before = int(str(scalar(own, "SELECT count(*) FROM done")))
    said = pgdyno("bench", *copy, "-b", path, "-c", "2", "--duration", "1s", "-q", "--json")
    assert said.code in (0, 3), said.err
    assert said.document["failures"] == {}, said.document["warnings"]
    # What is not proved has no BEGIN and COMMIT.
    is_proved = not any("sessions and counts prove" in note for note in file.read(path).notes)
    assert said.document["likeness"]["reproduced_calls"] > (0.9 if is_proved else 0.5)
    assert int(str(scalar(own, "SELECT count(*) FROM done"))) > before + 20
    capture = file.read(path)
    assert not {item.reason for item in capture.left_out} & {"procedure", "function_missing"}
    texts = {statement.id: statement.text for statement in capture.statements}
    kinds = [[texts[step.statement] for step in kind.steps] for kind in capture.templates]
    [moving] = [kind for kind in kinds if any("move" in text for text in kind)]
    assert len(moving) == 1, "a procedure that commits is in no transaction block"
    assert any("note" in text for kind in kinds for text in kind)


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_calls_in_a_log_come_back_in_the_mirror(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    core, path = served(new_cluster, version, SETTINGS), tmp_path / "logged.capture"
    capture_new_log(pgdyno, core, path, lambda: use(core, 60))
    check(pgdyno, core, path)


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_calls_in_statistics_come_back_in_the_mirror(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    core, path = served(new_cluster, version, STATEMENTS), tmp_path / "counted.capture"
    run_sql(core, "CREATE EXTENSION pg_stat_statements")
    capture_statistics(pgdyno, core, path, lambda: use(core, 60), seconds=3)
    check(pgdyno, core, path)
