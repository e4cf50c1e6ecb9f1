"""A properties file and its JDBC URL mean what Java and PostgreSQL's JDBC driver read in them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import psycopg.conninfo
import pytest
from tests.features.tpcc.test_translation import VERSION_5, VERSION_6, notes_of, options_of

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.benchmarksql import from_benchmarksql
from pgdyno.spec.translation import Translated

CONN = "jdbc:postgresql://localhost/tpcc"


def with_conn(conn: str) -> Translated:
    return from_benchmarksql(VERSION_5.replace(CONN, conn), "b.properties")


def connection(conn: str) -> dict[str, str]:
    """Return what libpq reads in the connection string."""
    dsn = with_conn(conn).experiment.server.dsn
    assert dsn is not None
    read = psycopg.conninfo.conninfo_to_dict(dsn)
    return {key: str(value) for key, value in read.items()}


@pytest.mark.parametrize(
    ("conn", "expected"),
    [
        ("jdbc:postgresql:db", {"host": "localhost", "dbname": "db"}),
        ("jdbc:postgresql://h/", {"host": "h"}),
        ("jdbc:postgresql:///db", {"host": "localhost", "dbname": "db"}),
        ("jdbc:postgresql://:5433/db", {"host": "localhost", "port": "5433", "dbname": "db"}),
        ("jdbc:postgresql://[::1]:5433/db", {"host": "::1", "port": "5433", "dbname": "db"}),
        ("jdbc:postgresql://[::1]/db", {"host": "::1", "dbname": "db"}),
        (
            "jdbc:postgresql://a:1,b/db?targetServerType=primary&loadBalanceHosts=true",
            {
                **{"host": "a,b", "port": "1,5432", "dbname": "db"},
                **{"target_session_attrs": "primary", "load_balance_hosts": "random"},
            },
        ),
        ("jdbc:postgresql://a,b/db", {"host": "a,b", "port": ",", "dbname": "db"}),
        ("jdbc:postgresql://h/my%20db%2F1", {"host": "h", "dbname": "my db/1"}),
        ("jdbc:postgresql://h/d?ssl=true", {"host": "h", "dbname": "d", "sslmode": "verify-full"}),
        ("jdbc:postgresql://h/d?ssl", {"host": "h", "dbname": "d", "sslmode": "verify-full"}),
        ("jdbc:postgresql://h/d?ssl=false", {"host": "h", "dbname": "d"}),
        (
            "jdbc:postgresql://h/d?ssl=true&sslmode=require",
            {"host": "h", "dbname": "d", "sslmode": "require"},
        ),
        (
            "jdbc:postgresql://h/d?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory",
            {"host": "h", "dbname": "d", "sslmode": "require"},
        ),
        (
            "jdbc:postgresql://h/d?options=-c+work_mem%3D8MB&currentSchema=app,%20public",
            {
                **{"host": "h", "dbname": "d"},
                "options": "-c work_mem=8MB -c search_path=app,\\ public",
            },
        ),
        (
            "jdbc:postgresql://h/d?ApplicationName=a%26b&connectTimeout=7&user=u%40x",
            {
                **{"host": "h", "dbname": "d", "user": "u@x"},
                **{"application_name": "a&b", "connect_timeout": "7"},
            },
        ),
        ("jdbc:postgresql:?host=x&port=7&dbname=y", {"host": "x", "port": "7", "dbname": "y"}),
        ("jdbc:postgresql://h/d?ssl=true&ssl=false", {"host": "h", "dbname": "d"}),
        ("jdbc:postgresql:?service=s", {"service": "s"}),
    ],
)
def test_a_url_is_read_as_the_driver_reads_it(conn: str, expected: dict[str, str]) -> None:
    assert connection(conn) == expected


@pytest.mark.parametrize(
    "conn",
    [
        *("jdbc:postgresql://db1:5432", "jdbc:postgresql:/db", "jdbc:postgresql://h/a/b"),
        *("jdbc:postgresql://h:x/d", "jdbc:postgresql://h:70000/d", "jdbc:postgresql://h/%zz"),
        *("jdbc:postgresql://h/d?targetServerType=some", "jdbc:postgresql:?host=a,b&port=1,2,3"),
    ],
)
def test_a_url_that_the_driver_refuses_is_refused_with_its_line(conn: str) -> None:
    with pytest.raises(SpecError, match=r"b\.properties, line 2: the JDBC driver refuses"):
        with_conn(conn)


def test_the_user_of_the_url_has_precedence_and_a_password_is_not_kept() -> None:
    text = VERSION_6.replace("?sslmode=require", "?user=urluser&password=p4ss&prepareThreshold=0")
    translated = from_benchmarksql(text, "b.properties")
    assert urlsplit(translated.experiment.server.dsn or "").username == "urluser"
    words = " ".join(map(str, translated.notes))
    assert "p4ss" not in words
    assert "line 6: the driver takes the user of conn: urluser" in words
    assert "prepares statements before their first use" in words


@pytest.mark.parametrize(
    "line",
    [
        *("warehouses 12", "warehouses\t12", "warehouses : 12", "  warehouses=12"),
        *("warehouses=\\\n   12", "wareho\\u0075ses = 12", "warehouses=1\nwarehouses=12"),
        "#comment \\\nwarehouses=12",
    ],
)
def test_lines_are_read_as_java_reads_them(line: str) -> None:
    text = VERSION_5.replace("warehouses=10", line)
    translated = from_benchmarksql(text, "b.properties", is_scratch=True)
    assert translated.experiment.dataset.model_dump()["warehouses"] == 12


@pytest.mark.parametrize(
    ("key", "value", "number"),
    [
        *(("terminals", value, 10) for value in ("10", "+10", f"{10:030}", "\u0661\u0660")),
        *(("terminals", value, None) for value in ("1e1", "10.0", "1_0", "0x10", "10L", "1 0")),
        *(("terminals", value, None) for value in ("10,0", "2147483648", "ten", "--10", "+")),
        *(("runMins", value, None) for value in ("1.5", "6e1")),
        *(("paymentWeight", value, 43) for value in ("43", "43.0", "4.3e1", "43d", "43.F", "+43")),
        *(("paymentWeight", value, None) for value in ("4_3", "43L", "NaN", "43%", "43,0")),
    ],
)
def test_numbers_are_read_as_java_reads_them(key: str, value: str, number: float | None) -> None:
    text = f"{VERSION_5}\n{key}={value}\n"
    if number is None:
        with pytest.raises(SpecError, match=rf"line \d+: {key} must be a ") as refused:
            from_benchmarksql(text, "b.properties", is_scratch=True)
        assert refused.value.message.endswith(f"got {value!r}.")
        assert "BenchmarkSQL would not start" in refused.value.hint
        return
    translated = from_benchmarksql(text, "b.properties", is_scratch=True)
    if key == "terminals":
        assert translated.experiment.workload.clients == number
    else:
        assert options_of(translated)["payment-weight"] == str(number)


def test_a_key_that_benchmarksql_needs_is_named_when_the_file_lacks_it() -> None:
    notes = notes_of(from_benchmarksql(VERSION_5, "b.properties"))
    assert "pgdyno uses 43" in notes["paymentWeight"]
    text = VERSION_6.replace("paymentWeight=43.2\n", "").replace("warehouses=50\n", "")
    translated = from_benchmarksql(text.replace("conn=", "#conn="), "b.properties")
    assert "pgdyno uses 43.2" in notes_of(translated)["paymentWeight"]
    assert "lacks this key" in notes_of(translated)["warehouses"]
    assert "lacks this key" in notes_of(translated)["conn"]
    assert options_of(translated)["payment-weight"] == "216"


def test_a_note_names_the_line_of_its_key(tmp_path: Path) -> None:
    translated = from_benchmarksql(f"# comment\n\n{VERSION_6}", str(tmp_path / "b"))
    assert notes_of(translated)["somethingNew"].startswith("line 20: ")
