"""No value of a row is in a capture: planted texts, numbers and dates are searched in the file."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture import file
from pgdyno.server.target import Target

MAILS = [f"planted.person{n}@secret-{n * 37}.example" for n in range(120)]
CITIES = ["Planthausen", "Secretville", "Markerstadt"]
# Ten digits: shorter ones are found by chance among the counts and times of a capture.
SALARIES = [1_123_457_003 + 7919 * n for n in range(120)]
PRICES = [f"{98765.43 + 131.57 * n:.2f}" for n in range(120)]
DATES = [f"19{40 + n % 50}-0{1 + n % 9}-1{n % 10}" for n in range(120)]
TIMES = [f"2019-04-{1 + n % 28:02} 11:{n % 60:02}:37.123456" for n in range(120)]
UUIDS = [f"deadbeef-{n:04x}-4abc-8def-0123456789ab" for n in range(120)]
ADDRESSES = [f"203.0.113.{n + 7}" for n in range(120)]
TAGS = ["plantedtagone", "plantedtagtwo"]
IN_JSON = ["plantedjsontext", "7654321"]
IN_STATEMENTS = [
    *("literalsecret", "settingsecret", "commentsecret", "passwordsecret", "8642097"),
    *("channelsecret", "payloadsecret", "cursorsecret"),
]
PLANTED = [
    *(*MAILS, *CITIES, *map(str, SALARIES), *PRICES, *DATES, *UUIDS, *ADDRESSES, *TAGS, *IN_JSON),
    *(*(time.partition(".")[0] for time in TIMES), *IN_STATEMENTS, "cafebabe00ff"),
]


def plant(target: Target) -> None:
    run_sql(
        target,
        "CREATE TABLE person (mail text PRIMARY KEY, city text, salary int, price numeric(12,2),"
        " born date, seen timestamptz, token uuid UNIQUE, address inet, tags text[], doc jsonb,"
        " bytes bytea, score float8, code varchar(20), account bigint)",
    )
    # A capture keeps functions, but not the comments in them.
    body = "-- such as commentsecret\n  BEGIN RETURN n /* 'commentsecret' */ + 1; -- don't\nEND"
    for name, language, text in (
        ("plus_one", "plpgsql", body),
        ("plus_two", "sql", "SELECT n + 2 -- commentsecret"),
    ):
        head = f"CREATE FUNCTION {name}(n int) RETURNS int LANGUAGE {language}"
        run_sql(target, f"{head} AS $${text}$$")
    with connection(target) as session:
        for n, mail in enumerate(MAILS):
            document = f'{{"note": "{IN_JSON[0]}", "n": {IN_JSON[1]}}}'
            for copy in ("", "x", "y"):
                token = UUIDS[n] if not copy else None
                session.execute(
                    "INSERT INTO person VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s,"
                    " '\\xcafebabe00ff', %s, %s, %s)",
                    [
                        *(mail + copy, CITIES[n % 3], SALARIES[n], PRICES[n], DATES[n], TIMES[n]),
                        *(token, ADDRESSES[n], TAGS[: 1 + n % 2], document),
                        *(SALARIES[n] + 0.5, MAILS[n][:20], SALARIES[n] * 1000),
                    ],
                )
        session.execute("CREATE STATISTICS both_columns ON city, salary FROM person")
        session.execute("ANALYZE")


def use(target: Target) -> None:
    """Send statements with values in every place where a text of a statement may keep them."""
    with connection(target) as session:
        for _ in range(3):
            session.execute("SELECT /* commentsecret */ * FROM person WHERE city = 'literalsecret'")
            session.execute("SELECT 1 FROM person WHERE salary = 8642097 -- commentsecret")
            session.execute("SELECT plus_one(1), plus_two(2)")
            session.execute("SET application_name = 'settingsecret'")
            session.execute("CREATE ROLE planted_role PASSWORD 'passwordsecret'")
            session.execute("DROP ROLE planted_role")
            session.execute("PREPARE p AS SELECT 1 FROM person WHERE city = 'literalsecret'")
            session.execute("DEALLOCATE p")
            session.execute("DO $$BEGIN PERFORM 'literalsecret'; END$$")
            with session.cursor().copy("COPY (SELECT 'literalsecret') TO STDOUT") as copy:
                assert len(list(copy)) == 1
            session.execute("COMMENT ON TABLE person IS 'literalsecret'")
            session.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 'literalsecret'; CLOSE c")
            session.execute("SET search_path TO settingsecret, public")
            session.execute("SELECT set_config('my.setting', 'settingsecret', false)")
            session.execute("LISTEN channelsecret")
            session.execute("NOTIFY channelsecret, 'payloadsecret'")
            session.execute("SELECT pg_notify('channelsecret', 'payloadsecret')")
            session.execute("SELECT pg_advisory_lock(8642097), pg_advisory_unlock(8642097)")
            with session.transaction():
                session.execute("SET LOCAL search_path TO settingsecret, public")
                session.execute(
                    "DECLARE cursorsecret CURSOR FOR SELECT 1 FROM person"
                    " WHERE city = 'literalsecret'"
                )
                session.execute("FETCH 10 FROM cursorsecret")
                session.execute("MOVE 2 IN cursorsecret")
                session.execute("CLOSE cursorsecret")


def test_no_planted_value_is_in_the_file(pgdyno: Command, observed: Target, tmp_path: Path) -> None:
    plant(observed)
    path = tmp_path / "person.capture"
    said = capture_statistics(pgdyno, observed, path, lambda: use(observed))
    capture = file.read(path)
    assert len(capture.statements) >= 2
    functions = {item.name for item in capture.objects if item.kind == "function"}
    assert functions == {"public.plus_one", "public.plus_two"}
    assert {"secret", "session", "copy", "cursor"} <= {item.reason for item in capture.left_out}
    text = file.zstd.decompress(path.read_bytes()).decode()
    assert not [value for value in PLANTED if value in text]
    assert not [value for value in PLANTED if value in said.out + said.err]


def test_the_same_search_finds_kept_values(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    plant(observed)
    given = (
        "-o",
        tmp_path / "person.capture",
        "--duration",
        "2s",
        "--keep-values",
        "--i-may-store-values",
    )
    assert pgdyno("capture", *server_options(observed), *given).code == 0
    path = tmp_path / "person.with-values.capture"
    text = file.zstd.decompress(path.read_bytes()).decode()
    assert {CITIES[0], str(SALARIES[0]), DATES[0]} <= {v for v in PLANTED if v in text}


def test_the_shape_of_the_values_stays(pgdyno: Command, observed: Target, tmp_path: Path) -> None:
    plant(observed)
    path = tmp_path / "person.capture"
    given = ("-o", path, "--duration", "2s")
    assert pgdyno("capture", *server_options(observed), *given).code == 0
    columns = {column.column: column.distribution for column in file.read(path).columns}
    city = columns["city"]
    assert sorted(len(hot.value) for hot in city.hot) == [11, 11, 11]
    assert [round(hot.fraction, 2) for hot in city.hot] == [0.33, 0.33, 0.33]
    salary = columns["salary"]
    salaries = [int(value) for value in (*salary.bounds, *(hot.value for hot in salary.hot))]
    assert abs(max(salaries) - SALARIES[-1]) < 20_000
    assert abs(min(salaries) - SALARIES[0]) < 20_000
    assert columns["born"].distinct == len(set(DATES))
    assert columns["tags"].element is not None
    assert columns["tags"].length is not None
    assert columns["tags"].length.most == 2
