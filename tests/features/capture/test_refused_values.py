"""Values that the server refuses are replaced by those that it takes, and the statement stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import make_cluster, run_sql
from tests.fixtures.command import Command, server_options

SCHEMA = (
    "CREATE TYPE job_state AS ENUM ('ready', 'running', 'done')",
    # The key has the partition's column, and the server makes the other one.
    "CREATE TABLE entry (id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz, kind text,"
    " PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
    "CREATE TABLE entry_1 PARTITION OF entry FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
    "INSERT INTO entry (at, kind) SELECT timestamptz '2024-01-02' + n * interval '1 min', 'k'"
    " FROM generate_series(1, 500) n",
    "CREATE TABLE job (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state job_state,"
    " run_at timestamptz, note text)",
    "CREATE FUNCTION add_job(mode text, states text[], due timestamptz) RETURNS int"
    " LANGUAGE plpgsql AS $$ BEGIN IF mode NOT IN ('replace', 'keep') THEN"
    " RAISE EXCEPTION 'mode %', mode; END IF; INSERT INTO job (state, run_at)"
    " SELECT unnest(states)::job_state, coalesce(due, now()); RETURN 1; END $$",
    "ANALYZE",
)


def log_of(database: str) -> str:
    """Return calls whose kept values would be words that no column has."""
    lines = []
    for number in range(120):
        head = f"2026-11-20 10:{number // 60:02}:{number % 60:02}.100 UTC [5001] app@{database} "
        text = "INSERT INTO entry (at, kind) VALUES ($1, $2)"
        values = [f"2024-01-{2 + number % 20:02} 10:00:00+00", "k"]
        if number % 3:
            text = "SELECT add_job($1, $2, $3)"
            mode = ("replace", "keep")[number % 2]
            due = (
                f"2026-11-20 11:{number // 60:02}:{number % 60:02}+00" if number % 8 == 0 else None
            )
            values = [mode, "{ready,running}", due]
        shown = (f"${n} = " + ("NULL" if v is None else f"'{v}'") for n, v in enumerate(values, 1))
        lines.append(f"{head}LOG:  duration: 0.1 ms  execute <unnamed>: {text}")
        lines.append(f"{head}DETAIL:  parameters: {', '.join(shown)}")
    return "\n".join(lines) + "\n"


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_partitions_words_of_functions_and_labels_fail_in_no_call(
    version: str, pgdyno: Command, tmp_path: Path
) -> None:
    path, log = tmp_path / "a.capture", tmp_path / "a.log"
    with make_cluster(version) as cluster:
        run_sql(cluster.target, "CREATE DATABASE core")
        core = cluster.target.with_database("core")
        for statement in SCHEMA:
            run_sql(core, statement)
        log.write_text(log_of("core"))
        said = pgdyno("capture", *server_options(core), "-o", path, "--log", log)
        assert said.code == 0, said.err
        given = ("-c", "1", "--duration", "1s", "--warmup", "0s", "--allow-write", "--json", "-q")
        said = pgdyno("bench", *server_options(core), "-b", path, *given)
        assert said.code in (0, 3), said.err
        likeness = said.document["likeness"]
        assert likeness["failed"] == []
        sent = {row["text"][:6]: row["copy"]["calls"] for row in likeness["statements"]}
        assert min(sent["INSERT"], sent["SELECT"]) > 0, likeness["sentence"]
        # Most calls have NULL in place of a time, so the mirror's jobs are due at once.
        assert run_sql(core, "SELECT count(*) FROM job WHERE run_at <= now()") > [(0,)]
