"""A comparison that decides nothing ends with exit code 5, after the rounds that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

EQUAL = ("--variant", "one: work_mem=4MB", "--variant", "same: work_mem=4097kB")


@pytest.mark.pg
@pytest.mark.usefixtures("short_runs", "short_runs_are_tried")
def test_equal_variants_end_with_exit_code_5_after_the_rounds_that_were_asked_for(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    # The load waits for a random time, so that a few short runs differ by more than 2 %.
    script = tmp_path / "waits.sql"
    script.write_text("SELECT pg_sleep(0.05 * random());\n")
    load = ("-f", script, "-c", "1", "-T", "0.5s", "--warmup", "0s", "--reset", "none")
    here = (*server_options(database15), "--confirm", f"{database15.database}@local")
    said = pgdyno("compare", *here, *load, *EQUAL, "--rounds", "3", "--json")
    assert said.code == 5, said.err
    document = said.document
    assert [variant["runs"] for variant in document["variants"]] == [3, 3]
    assert "cannot tell" in document["sentence"]
