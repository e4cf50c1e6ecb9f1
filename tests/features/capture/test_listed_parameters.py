"""Lists of parameters in a log, `IN ($1, $2, $3)`: one statement for all lengths."""

from __future__ import annotations

import pytest

from pgdyno.features.capture.reading.log_statements import LoggedShape
from pgdyno.features.capture.reading.names import Names

NAMES = Names({"public.t": ["id", "a", "b"]}, ["public"])


def shape(sql: str) -> LoggedShape:
    begin = sql.find("'")
    places = [(begin, sql.index("'", begin + 1) + 1, False)] if begin >= 0 else []
    return LoggedShape(sql, places, NAMES, is_cut=False)


@pytest.mark.parametrize(
    ("sql", "text", "values"),
    [
        (
            "SELECT b FROM t WHERE id IN ($1, $2,$3) AND a = $4",
            "SELECT b FROM t WHERE id = ANY ($1) AND a = $2",
            [["1", "2", "3"], "4"],
        ),
        (
            "SELECT b FROM t WHERE a = $1 AND id NOT IN ($2,$3) AND a IN ($4,$5) AND b > $6",
            "SELECT b FROM t WHERE a = $1 AND id <> ALL ($2) AND a = ANY ($3) AND b > $4",
            ["1", ["2", "3"], ["4", "5"], "6"],
        ),
        (
            "SELECT b FROM t WHERE a <> 'IN ($1, $2)' AND id IN ($1, $2)",
            "SELECT b FROM t WHERE a <> $2 AND id = ANY ($1)",
            [["1", "2"]],
        ),
    ],
)
def test_a_list_of_parameters_is_one_parameter(sql: str, text: str, values: list[object]) -> None:
    own = shape(sql)
    statement = own.statement(["red"] if "'" in sql else [])
    assert statement.parsed.text == text
    count = own.parameter_count
    assert list(statement.values_of([str(n) for n in range(1, count + 1)], [])) == values
    assert statement.parameter_count == len(values)
    # A recording has the text that the program sent.
    assert own.exact(["IN ($1, $2)"] if "'" in sql else []) == sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT b FROM t WHERE id IN ($1)",
        "SELECT b FROM t WHERE id IN ($2, $1)",
        "SELECT b FROM t WHERE id IN ($1, $2) OR a = $2",
    ],
)
def test_a_parameter_that_is_used_elsewhere_is_in_no_list(sql: str) -> None:
    statement = shape(sql).statement(())
    assert (statement.parsed.text, statement.lists) == (sql, ())


def test_a_list_that_the_log_has_cut_is_not_known() -> None:
    statement = shape("SELECT b FROM t WHERE id IN ($1, $2) AND a = $3").statement(())
    assert list(statement.values_of(["1"], [])) == [False, False]
    assert list(statement.values_of(["1", False, "3"], [])) == [False, "3"]
