"""Settings as new sessions of the load's role have them, whatever the doctor's own session sets."""

from __future__ import annotations

from tests.fixtures.clusters import run_sql

from pgdyno.features.doctor.server_seen import read_settings
from pgdyno.features.doctor.session import read_only
from pgdyno.server.target import Target


def test_settings_that_our_session_changes_are_shown_as_new_sessions_have_them(
    database: Target,
) -> None:
    name = database.database
    run_sql(database, f"ALTER DATABASE {name} SET max_parallel_workers_per_gather = 7")
    run_sql(database, f"ALTER DATABASE {name} SET work_mem = '7MB'")
    with read_only(database, "doctor") as (session, _):
        settings = read_settings(session)
        [(own,)] = session.fetch("SELECT current_setting('max_parallel_workers_per_gather')")
    assert own == "0"
    assert settings["max_parallel_workers_per_gather"].text == "7"
    assert settings["work_mem"].shown == "7 MB"
