"""The CPU time of programs that are neither the server nor pgdyno."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fixtures.command import Command, server_options

from pgdyno.loop.disturbed import other_programs_ratio_of
from pgdyno.loop.journal import visits
from pgdyno.loop.load_numbers import load_numbers
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store

_CORES = os.cpu_count() or 1


@contextmanager
def hogs(count: int) -> Iterator[list[float]]:
    """Keep this number of cores busy; the list gets the share of all cores that they had."""
    share: list[float] = []
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield share
    finally:
        for hog in running:
            hog.kill()
        used = [os.wait4(hog.pid, 0)[2] for hog in running]
        for hog in running:
            hog.returncode = -9
        seconds = (time.monotonic() - began) * _CORES
        share.append(sum(usage.ru_utime + usage.ru_stime for usage in used) / seconds)


def benched(pgdyno: Command, database: Target, script: Path, *options: str) -> dict[str, object]:
    said = pgdyno(
        *("bench", *server_options(database), "-f", script, "-T", "5s", "--warmup", "0s"),
        *("--quick", "--json", *options),
    )
    assert said.code in (0, 3), said.err
    return json.loads(said.out)


def ratio_of(store: Path) -> float | None:
    *_, visit = visits(Store(store).find("last"))
    return other_programs_ratio_of(visit.stored, load_numbers(visit.stored))


@pytest.mark.pg
def test_programs_beside_a_load_are_counted_and_make_it_doubtful(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    with hogs(_CORES // 2 + 1) as share:
        document = benched(pgdyno, database, script)
    ratio = ratio_of(pgdyno.store)
    assert ratio is not None
    # They had about this share of the run, too; other programs of this machine add to it.
    assert ratio >= 0.7 * share[0]
    kinds = {warning["kind"] for warning in document["warnings"]}  # type: ignore[attr-defined]
    assert ("other_programs" in kinds) == (ratio > 0.1)


@pytest.mark.pg
def test_a_connection_for_each_transaction_hides_the_servers_share(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    benched(pgdyno, database, script, "-C")
    assert ratio_of(pgdyno.store) is None
