"""What the findings and the tables of a watch say, on servers in trouble."""

from __future__ import annotations

import psycopg
import pytest
from tests.features.watch.incidents import busy, judged_until, of_kind

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
}


def test_forced_checkpoints_name_the_writer_and_a_size_and_no_time_of_other_waits(
    shop: Target,
) -> None:
    def write(worker: psycopg.Connection, _turn: int) -> None:
        worker.execute("UPDATE orders SET n = n + 1")

    with busy(shop, "price-import", write):
        listed = [made.as_document() for made in judged_until(shop, "forced checkpoints", 5)]
    finding = of_kind(listed, "forced checkpoints")
    assert finding["lost_s"] == 0
    assert "session-seconds" not in finding["cost"]
    assert "is full-page images" in finding["cost"]
    said = " ".join(finding["lines"])
    assert "UPDATE orders SET n = n +" in said
    assert "price-import" in said
    assert "ALTER SYSTEM SET max_wal_size = '" in finding["next_step"]
    assert "pg_reload_conf()" in finding["next_step"]
