"""Incidents of public post-mortems on real servers: the finding names them, with the next step."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.features.watch import strangers
from tests.features.watch.incidents import judged, judged_until
from tests.fixtures.clusters import run_sql

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "log_line_prefix": "%m [%p] %e "}


Staged = Callable[[Target], AbstractContextManager[None]]


@pytest.mark.parametrize(
    ("staged", "kind", "words"),
    [
        (strangers.foreign_key_without_index, "table read whole",
         ("conversations", "DELETE FROM vaults", "conversations_vault_fkey", "CREATE INDEX")),
        (strangers.queue_of_dead_rows, "dead rows are read",
         ("for 1 row", "dead rows", "analytics", "VACUUM jobs")),
        (strangers.subtransactions, "contention inside the server",
         ("subtransactions", "importer", "savepoints")),
        (strangers.timeouts, "errors", ("statement_timeout", "rolled back")),
        (strangers.sequence_at_its_end, "errors", ("a sequence has no number left",)),
        (strangers.sequence_at_its_end, "sequence near its end", ("events_id_seq", "bigint")),
        (strangers.connection_storm, "connection storm", ("new sessions/s", "pool")),
        (strangers.long_lists, "index missing", ("customer IN", "CREATE INDEX")),
        (strangers.hidden_in_a_function, "table read whole", ("SELECT balance", "functions")),
        (strangers.no_statistics, "no statistics", ("orders", "lines", "ANALYZE")),
        (strangers.deadlocks, "deadlocks", ("same order",)),
        (strangers.hot_row, "lock contention", ("one row of items", "UPDATE items")),
        (strangers.exclusive_maintenance, "lock queue", ("maintenance", "table orders")),
        (strangers.full_pool, "lock queue behind DDL", ("report", "11 sessions", "lock_timeout")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_an_incident_of_somebody_else_is_named(
    staged: Staged, kind: str, words: tuple[str, ...], shop: Target
) -> None:
    with staged(shop):
        listed = judged_until(shop, kind)
    finding = next((made for made in listed if made.kind == kind), None)
    assert finding is not None, [made.said for made in listed]
    whole = f"{finding.said} {finding.cost} {' '.join(finding.lines)} {finding.next_step}"
    assert not [word for word in words if word not in whole], whole


@pytest.mark.parametrize(
    "staged", [strangers.slow_client, strangers.catalogue_bloat], ids=lambda made: made.__name__
)
def test_what_is_not_known_is_no_finding(staged: Staged, shop: Target) -> None:
    with staged(shop):
        assert judged(shop, 2) == []


def tpcb(worker: strangers.Worker, turn: int) -> None:
    """Run the transaction of pgbench, in a shop with 4,000 branches."""
    if turn == 1:
        # A backup is a healthy long transaction; so is a commit that waits for its flush.
        worker.execute("SET synchronous_commit = on")
    draw = hash((worker.info.backend_pid, turn))
    with worker.transaction():
        worker.execute("UPDATE accounts SET b = b + 1 WHERE id = %s", [1 + draw % 50000])
        worker.execute("SELECT b FROM accounts WHERE id = %s", [1 + draw % 50000])
        worker.execute("UPDATE branches SET b = b + 1 WHERE id = %s", [1 + draw // 7 % 4000])
        worker.execute("INSERT INTO history VALUES (%s, now())", [turn])


def batch(worker: strangers.Worker, turn: int) -> None:
    """Load, change and sum up rows in long statements, as a nightly job does."""
    with worker.transaction():
        worker.execute("CREATE TEMP TABLE staged ON COMMIT DROP AS SELECT * FROM accounts")
        worker.execute("UPDATE staged SET b = b + 1 WHERE id % 3 = 0")
        worker.execute("INSERT INTO totals SELECT id % 100, sum(b) FROM staged GROUP BY 1")


def pg_dump(binaries: Path, target: Target) -> None:
    """Make a backup of the shop, twice."""
    for _ in range(2):
        command = [binaries / "pg_dump", "-h", target.host, "-p", target.ports, "-U", target.user]
        made = subprocess.run([*command, "-f", "/dev/null", target.database], check=False)
        assert made.returncode == 0


def test_healthy_servers_under_load_have_no_finding(counting: ScratchCluster, shop: Target) -> None:
    """A saturated server, with a batch, a backup, an index build and a vacuum."""
    for statement in (
        "CREATE TABLE accounts AS SELECT id, 0 AS b, repeat('x', 80) AS f"
        " FROM generate_series(1, 50000) id",
        "CREATE TABLE branches AS SELECT id, 0 AS b FROM generate_series(1, 4000) id",
        "CREATE TABLE history (n int, at timestamptz)",
        "CREATE TABLE totals (k int, b bigint)",
        "ALTER TABLE accounts ADD PRIMARY KEY (id)",
        "ALTER TABLE branches ADD PRIMARY KEY (id)",
        "VACUUM ANALYZE accounts, branches, history, totals",
    ):
        run_sql(shop, statement)
    jobs: list[Callable[[], object]] = [
        lambda: None,
        lambda: pg_dump(Path(counting.binaries.bin_dir), shop),
        lambda: run_sql(shop, "CREATE INDEX CONCURRENTLY ON accounts (b)"),
        lambda: run_sql(shop, "VACUUM (FREEZE, ANALYZE) accounts"),
    ]
    with strangers.several(shop, "web", tpcb, 8):
        for job in jobs:
            healthy = threading.Thread(target=job)
            healthy.start()
            assert judged(shop, 2) == []
            healthy.join()
    with strangers.several(shop, "nightly", batch, 2):
        assert judged(shop, 2) == []
