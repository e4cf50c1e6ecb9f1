"""Names that SQL must quote: statements keep the statistics of their columns, up to the mirror."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture import file
from pgdyno.features.capture.model import Fresh, OfColumn, parts_of
from pgdyno.features.capture.rebuild import Rebuilt
from pgdyno.server.target import Target

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
}
ORDER, LIST, QUOTE = '"My Shop"."Order"', 'public."select"', '"My Shop"."a""b.c, (d)"'
SCHEMA = f"""
CREATE SCHEMA "My Shop";
CREATE TABLE {ORDER} ("user id" int, "from" int, "Total" numeric(8,2) CHECK ("Total" >= 0),
    "the ""word"" of it" text NOT NULL, PRIMARY KEY ("from", "user id"));
CREATE UNIQUE INDEX "by word, (once)" ON {ORDER} ("the ""word"" of it", "from");
CREATE TABLE "select" ("order" int PRIMARY KEY, "Group" int, "user id" int);
CREATE INDEX ON "select" ("Group");
CREATE TABLE {QUOTE} ("x, y" int PRIMARY KEY, "(z)" int);
INSERT INTO {ORDER} SELECT n % 400 + 1, n / 400 + 1, n % 90, 'w' || n
    FROM generate_series(0, 3999) n;
INSERT INTO "select" SELECT n, n % 50, n % 400 FROM generate_series(1, 2000) n;
INSERT INTO {QUOTE} SELECT n, n FROM generate_series(1, 500) n;
VACUUM ANALYZE;
"""
WHERE = 'WHERE "from" = %s AND "user id" = %s'
LOAD = (
    (f'UPDATE {ORDER} SET "Total" = "Total" + %s {WHERE}', lambda n: (n % 7, n % 10 + 1, n + 1)),
    ('SELECT "user id" FROM "select" WHERE "Group" = %s', lambda n: (n % 50,)),
    (f'SELECT "(z)" FROM {QUOTE} WHERE "x, y" = %s', lambda n: (n + 1,)),
)


def load(target: Target, count: int = 200) -> None:
    with connection(target) as session, session.cursor() as cursor:
        for number in range(count):
            for statement, values in LOAD:
                given: Any = values(number)
                cursor.execute(statement, given, prepare=True)  # type: ignore[call-overload]
            with cursor.copy('COPY "select" ("order", "Group", "user id") FROM STDIN') as copy:
                copy.write(f"{3000 + number}\t{number % 50}\t{number}\n")


@pytest.mark.pg
@pytest.mark.parametrize("origin", ["statistics", "logs"])
def test_names_that_must_be_quoted_keep_the_statistics_of_their_columns(
    origin: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    server, path = new_cluster("15", settings=SETTINGS).target, tmp_path / "a.capture"
    for name in ("core", "copy"):
        run_sql(server, f"CREATE DATABASE {name}")
    core, copy = server.with_database("core"), server.with_database("copy")
    run_sql(core, "CREATE EXTENSION pg_stat_statements")
    for statement in SCHEMA.split(";\n"):
        if statement.strip():
            run_sql(core, statement)
    run_sql(core, "ALTER DATABASE core SET log_transaction_sample_rate = 1")
    if origin == "statistics":
        capture_statistics(pgdyno, core, path, lambda: load(core))
    else:
        load(core)
        folder = Path(str(scalar(core, "SELECT current_setting('data_directory')")), "log")
        logs = [word for log in sorted(folder.glob("*.csv")) for word in ("--log", log)]
        said = pgdyno("capture", *server_options(core), "-o", path, *logs)
        assert said.code == 0, said.err
    capture = file.read(path)
    texts = {statement.id: statement.text for statement in capture.statements}
    columns_by_word: dict[str, set[str]] = {}
    for step in (step for template in capture.templates for step in template.steps):
        for source in (part for given in step.parameters for part in parts_of(given)):
            if isinstance(source, OfColumn | Fresh):
                of = texts[step.statement].split()[0]
                columns_by_word.setdefault(of, set()).add(f"{source.table} {source.column}")
    assert {f"{ORDER} from", f"{ORDER} user id"} <= columns_by_word["UPDATE"]
    assert {f"{LIST} Group", f"{QUOTE} x, y"} <= columns_by_word["SELECT"]
    assert {f"{LIST} order", f"{LIST} Group"} <= columns_by_word["COPY"]
    assert not [item for item in capture.left_out if "My Shop" in item.text]
    assert Rebuilt(capture, 1).notes == ()
    made = pgdyno("init", path, *server_options(copy), "-q")
    assert made.code == 0, made.err
    before = scalar(copy, f'SELECT sum("Total") FROM {ORDER}')
    options = ("bench", *server_options(copy), "-b", path, "-c", "2", "--duration", "1s", "-q")
    said = pgdyno(*options, "--json")
    assert said.code in (0, 3), said.err
    assert said.document["failures"] == {}, said.document["warnings"]
    assert scalar(copy, f'SELECT sum("Total") FROM {ORDER}') != before
    assert scalar(copy, 'SELECT count(*) FROM "select"') > 2000
