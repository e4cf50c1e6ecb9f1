"""The price of loss: what is read from stored crashes, and what an experiment asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.features.crash.records import BAD, crash
from tests.fixtures import needs
from tests.fixtures.command import Command

from pgdyno.features.crash import price
from pgdyno.features.crash.controls import CONTROLS
from pgdyno.features.crash.price import kinds_of, losses_by_variant
from pgdyno.features.crash.record import CrashRecord
from pgdyno.spec.variant_text import variant_from
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

SYNCHRONOUS, CUT_OFF = (control.name for control in CONTROLS["failover"])


def stored(place: Path, kind: str, records: Sequence[CrashRecord]) -> ExperimentFolder:
    folder = Store(place).create("priced", "compare")
    for record in records:
        folder.add_crash({**record.as_document(), "kind": kind})
    return folder


def test_the_loss_of_each_variant_is_read_from_its_crashes(tmp_path: Path) -> None:
    controls = [crash(arm=SYNCHRONOUS), crash(arm=CUT_OFF, lost=9, lost_ns=5)]
    of_on = [
        crash(number, arm="variant 0", longest_gap_ns=(300 + 300 * (number % 2)) * 1_000_000)
        for number in range(1, 13)
    ]
    of_off = [
        crash(number, arm="variant 1", lost=30, lost_ns=(200 + number) * 1_000_000)
        for number in range(1, 4)
    ]
    seen = losses_by_variant(stored(tmp_path, "failover", [*controls, *of_on, *of_off]))
    [on], [off] = seen["0"], seen["1"]
    assert on.sentence() == (
        "0 of 12 failovers lost a commit (at 95 % fewer than 22 % do); "
        "longest gap of a client, on average 0.45 s (0.358 to 0.566)"
    )
    words = "3 of 3 failovers lost 90 commits: on average those of the last 0.202 s (0.2"
    assert off.sentence().startswith(words)
    assert off.sentence().endswith("), at most 0.203 s")
    assert off.as_document()["loss_seconds"]["n"] == 3


def test_two_losses_have_no_interval(tmp_path: Path) -> None:
    records = [crash(n, arm="variant 0", lost=1, lost_ns=n * 1_000_000) for n in (1, 2)]
    [loss] = losses_by_variant(stored(tmp_path, "kill", records))["0"]
    words = "lost 2 commits: on average those of the last 0.0015 s (no interval: n = 2), at most"
    assert words in loss.sentence()


def test_damage_and_a_blind_test_come_before_losses(tmp_path: Path) -> None:
    damaged = crash(arm="variant 0", checks=(BAD,))
    [loss] = losses_by_variant(stored(tmp_path / "a", "power", [damaged]))["0"]
    assert loss.sentence() == "1 of 1 power failure left damaged data"
    blind = [crash(arm=CUT_OFF), crash(arm="variant 0")]
    [loss] = losses_by_variant(stored(tmp_path / "b", "failover", blind))["0"]
    assert loss.sentence().startswith("The test cannot see losses here: standby cut off did not")


def test_a_variant_crashes_in_each_way_that_shows_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price, "why_not_here", lambda: "")
    assert kinds_of(variant_from("a")) == ("power",)
    assert kinds_of(variant_from("b: standby=asynchronous")) == ("power", "failover")
    monkeypatch.setattr(price, "why_not_here", lambda: "it needs root")
    assert kinds_of(variant_from("c: synchronous_commit=off")) == ("kill",)
    # A killed server loses nothing that the kernel has.
    assert kinds_of(variant_from("d: fsync=off")) == ()


def test_only_scratch_servers_crash_for_a_price(pgdyno: Command) -> None:
    own = ("-h", "db1", "-d", "bank", "--price-of-loss", "3")
    variants = ("--variant", "a", "--variant", "b: synchronous_commit=off")
    said = pgdyno("compare", *own, *variants, "-b", "select-only")
    assert said.code == 1
    assert "price_of_loss lets servers crash: it needs variants on scratch" in said.error
    said = pgdyno("tune", *own, "--setting", "synchronous_commit", "--class", "durability")
    assert said.code == 1
    assert "only scratch servers may crash" in said.error


# Faster without the wait for the disk, on any machine.
WAITS = "SELECT pg_sleep(CASE current_setting('synchronous_commit') WHEN 'on' THEN 0.03"
WAITS += " ELSE 0.003 END);\n"


@pytest.mark.slow
@pytest.mark.pg
@pytest.mark.usefixtures("short_runs")
def test_a_tuning_that_weakens_durability_shows_the_loss_beside_the_gain(
    pgdyno: Command, tmp_path: Path
) -> None:
    needs.postgresql("15")
    script = tmp_path / "waits.sql"
    script.write_text(WAITS)
    said = pgdyno(
        *("tune", "--scratch", "--pg-version", "15", "-s", "1", "-f", script, "-c", "1"),
        *("-T", "200ms", "--warmup", "0s", "--reset", "none", "--goal", "tps", "--budget", "2min"),
        *("--setting", "synchronous_commit=on,off", "--class", "durability"),
        *("--price-of-loss", "2", "--json"),
        timeout_s=600,
    )
    assert said.code in (0, 3), said.err
    document = said.document
    assert document["verdict"] == "better", document["sentence"]
    [setting] = document["settings"]
    assert (setting["name"], setting["new"]) == ("synchronous_commit", "off")
    crashed = [
        json.loads(line)["arm"]
        for stored_crashes in pgdyno.store.glob("*/crashes.jsonl")
        for line in stored_crashes.read_text().splitlines()
    ]
    assert len([arm for arm in crashed if arm.startswith("variant")]) == 2
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    assert re.search(r"of 2 (power failures|crashes) lost", shown), shown
