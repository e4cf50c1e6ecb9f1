"""A run on a server elsewhere, whose host was recorded there by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.fixtures.line import Line
from tests.measure.test_watched_run import last_run

from pgdyno.observe.remote.host_session import collector_script
from pgdyno.server.scratch import ScratchCluster

pytestmark = pytest.mark.pg
OF_HOST = {"file_system", "free_space", "swappiness", "cpu_limit"}


def test_the_doctor_of_a_run_has_the_host_that_was_recorded_by_hand(
    pgdyno: Command, far_line: Line, pg15: ScratchCluster, tmp_path: Path
) -> None:
    recorded, numbers = tmp_path / "host.txt", tmp_path / "numbers.csv"
    numbers.write_text("time,name,value,unit\n")
    with recorded.open("wb") as out:
        arguments = ("0", "2", str(pg15.pid), str(pg15.data_dir))
        subprocess.run(["sh", "-c", collector_script(), "sh", *arguments], stdout=out, check=True)
    there = far_line.target
    way = ("-h", there.host, "-p", there.ports, "-U", there.user, "-d", there.database)
    script = tmp_path / "one.sql"
    script.write_text("SELECT pg_sleep(0.005);\n")
    for files, is_there in (((numbers,), False), ((numbers, recorded), True)):
        said = pgdyno(
            *("bench", *way, "-f", script, "-c", "1", "-t", "3"),
            *("--warmup", "0s", "-q", "--store", tmp_path / "store"),
            *(part for file in files for part in ("--host-file", file)),
        )
        assert said.code in (0, 3), said.err
        doctor = last_run(tmp_path / "store").document("doctor.json") or {}
        unjudged = {name for source in doctor["not_measurable"] for name in source["checks"]}
        assert (OF_HOST & unjudged == set()) == is_there, doctor["not_measurable"]
        assert "fsync" not in unjudged
