"""A scratch server that ends in a run: its log goes with it, so the error has its last words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command
from tests.loop.test_bad_luck import KILL, SCRATCH, SHORT, one_script

from pgdyno.server.scratch.postmaster import last_words

LOG = """\
2026-11-21 02:00:00.000 UTC [10] LOG:  starting PostgreSQL 15.18
2026-11-21 02:00:00.100 UTC [10] LOG:  database system is ready to accept connections
2026-11-21 02:00:01.000 UTC [11] LOG:  checkpoint starting: time
2026-11-21 02:00:02.000 UTC [20] ERROR:  relation "x" does not exist
2026-11-21 02:00:02.000 UTC [20] STATEMENT:  SELECT 'LOG:  no line of its own' FROM x
2026-11-21 02:00:03.000 UTC [10] LOG:  server process (PID 20) was terminated by signal 9: Killed
2026-11-21 02:00:03.000 UTC [10] DETAIL:  Failed process was running: UPDATE accounts
2026-11-21 02:00:03.001 UTC [10] LOG:  terminating any other active server processes
2026-11-21 02:00:03.002 UTC [21] FATAL:  the database system is in recovery mode
2026-11-21 02:00:03.003 UTC [22] FATAL:  the database system is in recovery mode
2026-11-21 02:00:03.500 UTC [23] PANIC:  could not locate a valid checkpoint record
2026-11-21 02:00:03.501 UTC [10] LOG:  startup process (PID 23) was terminated by signal 6: Aborted
"""


def test_the_last_lines_of_a_log_are_the_servers_without_repeats() -> None:
    assert last_words(LOG) == (
        "server process (PID 20) was terminated by signal 9: Killed",
        "terminating any other active server processes",
        "PANIC: could not locate a valid checkpoint record",
        "startup process (PID 23) was terminated by signal 6: Aborted",
    )
    assert last_words("") == ()
    start = "2026-11-21 02:01:00.000 UTC [30] LOG:  starting PostgreSQL 15.18\n"
    assert last_words(LOG + start) == (), "what it said before does not explain the next end"


@needs.POSTGRESQL_15
@pytest.mark.pg
def test_the_error_of_a_server_that_ended_has_its_last_log_lines(
    pgdyno: Command, tmp_path: Path
) -> None:
    said = pgdyno(
        *("bench", "-s", "1", "--pg-version", "15", *SCRATCH, "-c", "1", "-T", "1s"),
        *("--warmup", "0s", "-f", one_script(tmp_path, KILL)),
    )
    assert said.code == 2
    error = " ".join(said.error.split())
    assert "The last lines of the server's log: received immediate shutdown request." in error, (
        said.err
    )
    assert "next: the results until then are kept" in said.err


@needs.POSTGRESQL_15
@pytest.mark.pg
def test_a_variant_left_out_for_a_crash_has_the_last_words_in_its_result(
    pgdyno: Command, tmp_path: Path
) -> None:
    killer = tmp_path / "killer.sql"
    killer.write_text(KILL)
    # The order is drawn. If the killer is first, nothing was measured, and the error has the words.
    for _ in range(8):
        said = pgdyno(
            *("compare", "-s", "1", "--pg-version", "15", *SCRATCH, *SHORT, "--json"),
            *("-f", one_script(tmp_path), "--variant", "first"),
            *("--variant", f"killer: script={killer}"),
        )
        document = json.loads(said.out)
        if "variants" in document:
            break
        assert "received immediate shutdown request" in " ".join(said.err.split())
    by_name = {variant["name"]: variant for variant in document["variants"]}
    assert "received immediate shutdown request" in by_name["killer"]["cannot_start"]
