"""Sweeps of variants and against a latency target, from the command line to the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK
from tests.fixtures.command import Command

pytestmark = [pytest.mark.pg, needs.POSTGRESQL_15]
RAN = (0, 3)  # Runs of a second are too short to be believed, and pgdyno says so.


def options(folder: Path, *more: str) -> list[str | Path]:
    settings = [part for n, v in QUICK.items() for part in ("--set", f"{n}={v}")]
    (folder / "slow.sql").write_text("SELECT pg_sleep(0.020);\n")
    (folder / "fast.sql").write_text("SELECT pg_sleep(0.005);\n")
    return [
        *("sweep", "-s", "1", "-T", "1s", "--warmup", "0s", "--knee-duration", "1s"),
        *("--pg-version", "15", *settings, "--json", *more),
    ]


def test_each_variant_has_a_curve_and_its_speed_up_at_every_level(
    pgdyno: Command, tmp_path: Path
) -> None:
    asked = options(tmp_path, "-c", "1,2", "--rounds", "2", "-f", tmp_path / "fast.sql")
    variants = ["--variant", "plain", "--variant", "less memory: work_mem=1MB"]
    said = pgdyno(*asked, *variants)
    assert said.code in RAN, said.err
    plain, less = said.document["curves"]
    assert (plain["variant"], less["variant"]) == ("plain", "less memory")
    assert plain["speed_up"] is None
    assert [level["clients"] for level in less["speed_up"]["levels"]] == [1, 2]
    for level in less["speed_up"]["levels"]:
        assert level["ratio"]["low"] < level["ratio"]["value"] < level["ratio"]["high"]
    assert less["speed_up"]["maximum"]["value"] >= less["speed_up"]["mean"]["value"]
    shown = pgdyno("show", "-v", "last").out
    assert "speed-up against the first variant" in " ".join(shown.split())


def test_a_search_ends_with_the_load_that_is_held_and_its_cost(
    pgdyno: Command, tmp_path: Path
) -> None:
    # Twice what two clients can do leaves a second's backlog; a machine that stops for a moment
    # spoils a trial or two, which the search allows for. make prove asks for more.
    asked = options(tmp_path, "-c", "2", "--rounds", "1", "--slo", "p99=250ms")
    fast = f"fast: script={tmp_path / 'fast.sql'}; price=100 EUR/month"
    said = pgdyno(*asked, "--variant", fast, timeout_s=240)
    assert said.code in RAN, said.err
    [curve] = said.document["curves"]
    capacity = curve["capacity"]
    assert capacity["end"] == "found", capacity
    assert 4 < capacity["tps"]["low"] <= capacity["tps"]["value"] <= capacity["tps"]["high"] < 800
    assert curve["cost"]["value"] == pytest.approx(100_000 / capacity["tps"]["value"])
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    assert "EUR/month per 1,000 tps" in shown


@pytest.mark.slow
def test_the_load_that_is_held_under_a_latency_target_is_searched(
    pgdyno: Command, tmp_path: Path
) -> None:
    # Two clients that sleep 5 ms hold at most 400 a second: with less, nobody waits for long.
    asked = options(tmp_path, "-c", "2", "--rounds", "2", "--slo", "p99=40ms")
    said = pgdyno(*asked, "-f", tmp_path / "fast.sql", timeout_s=240)
    assert said.code in RAN, said.err
    [curve] = said.document["curves"]
    capacity = curve["capacity"]
    assert capacity["end"] == "found", capacity
    assert 50 < capacity["tps"]["low"] <= capacity["tps"]["value"] <= capacity["tps"]["high"] < 480
    assert "p99 <= 40 ms" in capacity["rule"]
    assert len(capacity["trials"]) <= 16
