"""Planted surfaces on real servers: a bad value is found, credited to its setting, without riders.

Twelve servers: ten with one bad value, two on which no setting can matter. Each has twelve minutes;
`PGDYNO_SURFACE_BUDGET` and `PGDYNO_SURFACE_SCALE` make a shorter and a smaller trial. The table is
in the file that `PGDYNO_PROVED` names, a line for each server:
`PGDYNO_PROVED=table.txt pytest -m slow tests/features/tune/test_hidden.py`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved

pytestmark = [pytest.mark.slow, pytest.mark.pg, needs.POSTGRESQL_15]

BUDGET = os.environ.get("PGDYNO_SURFACE_BUDGET") or "12min"
SCALE = os.environ.get("PGDYNO_SURFACE_SCALE") or "20"


@dataclass(frozen=True)
class Planted:
    """A load, and one value that slows it down; `setting` "" plants nothing.

    `also`: further settings of the server, so that the planted one matters. `allowed`: what the
    search may propose; by default the planted setting alone.
    """

    setting: str
    value: str
    script: str
    load: tuple[str, ...] = ("-c", "2")
    also: tuple[str, ...] = ()
    allowed: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """Return the planted value in words."""
        return f"{self.setting} = {self.value}" if self.setting else "nothing"


ROWS = f"100000 * {SCALE}"
SCATTERED = (
    f"\\set start random(1, {ROWS} - 30000)\n"
    "SELECT sum(a.abalance) FROM generate_series(1, 200) g"
    " JOIN pgbench_accounts a ON a.aid = g * 97 + :start;\n"
)
SORT = (
    f"\\set start random(1, {ROWS} - 60000)\n"
    "SELECT count(*) FROM (SELECT filler FROM pgbench_accounts"
    " WHERE aid BETWEEN :start AND :start + 50000 ORDER BY filler, bid OFFSET 0) s;\n"
)
UPDATES = (
    f"\\set start random(1, {ROWS} - 200)\n"
    "UPDATE pgbench_accounts SET filler = md5(random()::text) || md5(random()::text)"
    " WHERE aid BETWEEN :start AND :start + 99;\n"
)
# A row of each of 50 pages, of 4,000 pages in all: a slow machine comes back to them in seconds.
PAGES = (
    "\\set start random(1, 61 * 3950)\n"
    "UPDATE pgbench_accounts SET abalance = abalance + 1"
    " WHERE aid IN (SELECT :start + 61 * g FROM generate_series(0, 49) g);\n"
)
ONE_ROW = (
    f"\\set aid random(1, {ROWS})\n"
    "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n"
)
KEY = f"\\set aid random(1, {ROWS})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
SUM = (
    f"\\set start random(1, {ROWS} - 2000)\n"
    "SELECT sum(abalance * 2 + bid), avg(abalance + 1), count(DISTINCT bid)"
    " FROM pgbench_accounts WHERE aid BETWEEN :start AND :start + 1000;\n"
)
BITMAP = (
    f"\\set start random(1, {ROWS} - 2000)\n"
    "SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :start AND :start + 1000;\n"
)
WAL = ("-c", "2", "--goal", "wal_per_tx")

SURFACES = (
    # A checkpoint follows another, and after each all pages go into the WAL again. Compression
    # always helps against that, so it is on already.
    Planted("max_wal_size", "32MB", PAGES, WAL, ("wal_compression=on",)),
    # The planner reads the whole table rather than 200 rows by the index.
    Planted(
        "random_page_cost",
        "400",
        SCATTERED,
        allowed=frozenset(("random_page_cost", "effective_cache_size")),
    ),
    # 1 MB holds 128 pages: each read goes to the operating system.
    Planted("shared_buffers", "1MB", SCATTERED),
    Planted("work_mem", "64kB", SORT, ("-c", "1"), allowed=frozenset(("work_mem",))),
    # Each page of the bitmap is waited for by itself.
    Planted(
        "effective_io_concurrency",
        "0",
        BITMAP,
        ("-c", "2", "--cache", "cold"),
        ("enable_indexscan=off", "shared_buffers=16MB"),
        frozenset(("effective_io_concurrency", "shared_buffers")),
    ),
    Planted("wal_compression", "off", UPDATES, WAL),
    # Commits wait for the disk; the setting that would end this is of a class that is not allowed.
    Planted("synchronous_commit", "on", ONE_ROW, ("-c", "4"), allowed=frozenset()),
    Planted(
        "jit_above_cost",
        "0",
        SUM,
        also=("jit=on", "jit_optimize_above_cost=0", "jit_inline_above_cost=0"),
        allowed=frozenset(("jit", "jit_above_cost")),
    ),
    # Vacuum never ends, so dead rows are left in the table. A run cannot show this, and says so.
    Planted(
        "autovacuum_vacuum_cost_delay",
        "100ms",
        ONE_ROW,
        ("-c", "4", "--reset", "none"),
        allowed=frozenset(("autovacuum_vacuum_cost_delay",)),
    ),
    Planted("commit_delay", "100000", ONE_ROW, ("-c", "2"), ("commit_siblings=0",)),
    Planted("", "", KEY, ("-c", "2", "--setting", "work_mem", "--setting", "commit_delay")),
    Planted("", "", KEY, ("-c", "2", "--setting", "join_collapse_limit=2..32")),
)
# These may end without a proposal, but never with a wrong one.
MAY_BE_UNKNOWN = frozenset(
    ("synchronous_commit", "autovacuum_vacuum_cost_delay", "effective_io_concurrency", "")
)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("planted", SURFACES, ids=lambda planted: planted.name)
def test_a_planted_value_is_found_and_no_other_has_the_credit(
    planted: Planted, pgdyno: Command, tmp_path: Path, proved: Proved
) -> None:
    script = tmp_path / "load.sql"
    script.write_text(planted.script)
    values = [f"{planted.setting}={planted.value}"] if planted.setting else []
    said = pgdyno(
        *("tune", "--scratch", "--pg-version", "15", "-s", SCALE, "-f", str(script)),
        *(*planted.load, "--budget", BUDGET, "--json"),
        *(word for value in (*values, *planted.also) for word in ("--set", value)),
        timeout_s=1400,
    )
    document = said.document
    allowed = planted.allowed if planted.allowed is not None else {planted.setting}
    # All formulas together may be proposed as a whole; a setting with a ratio has the credit.
    credited = {row["name"] for row in document["settings"] if row["ratio"] is not None}
    seen = document["sentence"]
    proved(f"tune: planted {planted.name}", required="found, no riders", seen=seen)
    assert credited <= allowed, seen
    assert not any(row["class"] == "durability" for row in document["settings"])
    if planted.setting not in MAY_BE_UNKNOWN:
        assert document["verdict"] == "better", seen
        assert planted.setting in {row["name"] for row in document["settings"]} or credited, seen
        assert all(row["decision"] != "not tried" for row in document["tried"][:1])
    if not planted.setting:
        assert document["verdict"] in ("no better", "not known"), seen
