"""A bench whose rate has phases, and a latency limit, as its user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.command import Command, server_options

from pgdyno.server.scratch.cluster import ScratchCluster

pytestmark = pytest.mark.pg


def _against(cluster: ScratchCluster, folder: Path) -> list[str]:
    script = folder / "one.sql"
    script.write_text("SELECT 1;\n", encoding="ascii")
    return [*server_options(cluster.target), "-f", str(script), "--warmup", "0.3s", "--json"]


def test_each_phase_of_the_rate_has_its_own_figures(
    pgdyno: Command, pg18: ScratchCluster, tmp_path: Path
) -> None:
    asked = ["-c", "4", "--rate", "60:1s,60-600:1s,600:1s", "-L", "100000"]
    said = pgdyno("bench", *_against(pg18, tmp_path), *asked)
    assert said.code in (0, 3), said.out + said.err
    document = said.document
    phases = document["phases"]
    assert [(phase["from_tps"], phase["to_tps"]) for phase in phases] == [
        (60, 60),
        (60, 600),
        (600, 600),
    ]
    assert [phase["begin_s"] for phase in phases] == [0, 1, 2]
    # 60 +- 8, 330 +- 18 and 600 +- 24 arrivals.
    offered = [phase["offered_tps"] for phase in phases]
    assert offered[0] < 150 < offered[1] < 465 < offered[2]
    assert document["duration_seconds"] == pytest.approx(3)
    late = document["over_latency_limit"]
    assert (late["limit_ms"], late["transactions"], late["share"]["value"]) == (100_000, 0, 0)
    assert late["of"] >= document["transactions"] > 500
    assert document["loop"] == "open"


def test_a_rate_no_server_could_hold_is_measured_to_its_end_with_its_backlog(
    pgdyno: Command, pg18: ScratchCluster, tmp_path: Path
) -> None:
    script = tmp_path / "slow.sql"
    script.write_text("SELECT pg_sleep(0.02);\n", encoding="ascii")
    asked = ["-f", str(script), "-c", "1", "-R", "2000", "-T", "2s", "-L", "10"]
    said = pgdyno("bench", *_against(pg18, tmp_path), *asked)
    assert said.code in (0, 3), said.out + said.err
    document = said.document
    assert document["valid"] is False
    assert document["duration_seconds"] == pytest.approx(2)
    assert document["backlog_at_end_count"] > 1000
    # Both scripts run; what never began is late too, and hides in no percentile.
    assert document["over_latency_limit"]["share"]["value"] > 0.9
    assert document["latency_ms"]["p99"]["censored"] is True
