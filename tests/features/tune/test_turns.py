"""Turns within one load, on real servers: settings change while it runs, and each turn counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.command import Command

from pgdyno.store.experiment import Store

pytestmark = [pytest.mark.pg, pytest.mark.timeout(300)]
SLEEPY = "SELECT pg_sleep(current_setting('seq_page_cost')::float / 1000);\n"
"""A statement whose time is a setting: 1 ms for each unit of it."""


@pytest.mark.parametrize("version", ["15", "18"])
def test_values_take_turns_in_one_load_and_the_better_one_is_proved(
    version: str, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "sleepy.sql"
    script.write_text(SLEEPY)
    done = pgdyno(
        *("tune", "--scratch", "--pg-version", version, "-s", "1", "-f", str(script)),
        *("--set", "seq_page_cost=20", "--setting", "seq_page_cost=20,2"),
        *("--budget", "75s", "--json"),
        timeout_s=280,
    )
    document = done.document
    assert document["verdict"] == "better", document["sentence"]
    [setting] = document["settings"]
    assert (setting["name"], setting["new"]) == ("seq_page_cost", "2")
    # 20 ms against 2 ms; each statement takes some time on top of it, more on a busy machine.
    assert document["proved"]["value"] > 2
    [trial] = document["tried"]
    assert trial["pair_count"] >= 4, "one load has many pairs"
    folder = Store(pgdyno.store).find("last")
    loads = [json.loads(path.read_text()) for path in folder.folder.glob("runs/*/turns.json")]
    turns = [turn for load in loads for turn in load["turns"]]
    assert {turn["variant"] for turn in turns} == {"0", "seq_page_cost=2"}
    assert all(turn["from_ns"] < turn["to_ns"] for turn in turns)
    again = pgdyno("show", "last", "--json")
    assert again.document["sentence"] == document["sentence"], "the stored files give the answer"
    assert pgdyno("report", "last", "-o", tmp_path / "page.html").code == 0
