"""What changes around a run while it lasts: its store, and the slots of the server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
LOAD = ("-c", "1", "-T", "3s", "--warmup", "0s", "--reset", "none")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "one.sql"
    path.write_text("SELECT pg_sleep(0.005);\n")
    return path


def test_a_server_whose_slots_are_full_after_the_run_is_not_called_lost(
    pgdyno: Command, database15: Target, script: Path
) -> None:
    role = f"few_{database15.database}"
    run_sql(database15, f"CREATE ROLE {role} LOGIN IN ROLE pg_monitor")
    try:
        running = pgdyno.start(
            "bench", *server_options(database15, user=role), "-f", script, *LOAD, "--json"
        )
        running.await_load(pgdyno.store)
        run_sql(database15, f"ALTER ROLE {role} CONNECTION LIMIT 0")
        said = running.wait()
    finally:
        run_sql(database15, f"DROP ROLE {role}")
    assert said.code in (0, 3), said.err
    assert "lost" not in said.err
    assert said.document["transactions"] > 100


def test_a_store_that_is_removed_during_a_run_is_named(
    pgdyno: Command, database15: Target, script: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    running = pgdyno.start(
        "bench", *server_options(database15), "-f", script, *LOAD, "--json", "--store", store
    )
    running.await_load(store)
    shutil.rmtree(store, ignore_errors=True)
    said = running.wait()
    assert said.code == 2
    assert "was removed while the experiment ran" in said.error
    assert str(store) in said.error
    assert said.document["error"]["kind"] == "store"
