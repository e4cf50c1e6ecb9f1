"""The rows that a load writes are counted in tables whose names come from a file."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import run_sql, scalar

from pgdyno.features.capture.mirror.written_rows import _ROWS_MAX, _count
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg


@pytest.mark.parametrize(
    "name",
    ["kept) AS a; DROP TABLE kept; --", "kept)few;DROP/**/TABLE/**/kept;--", 'kept"; DROP', "none"],
)
def test_the_name_of_a_table_is_no_statement(name: str, either_database: Target) -> None:
    run_sql(either_database, "CREATE TABLE kept AS SELECT 1 AS a")
    with connect(either_database, verb="test") as session:
        session.use_load_path()
        assert _count(session, name) == _ROWS_MAX
        assert _count(session, "public.kept") == 1
    assert scalar(either_database, "SELECT count(*) FROM kept") == 1
