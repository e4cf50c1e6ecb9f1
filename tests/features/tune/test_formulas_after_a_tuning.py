"""A short tuning on real servers ends with values that can be set, each with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.command import Command

pytestmark = pytest.mark.pg


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_tuning_without_a_proof_still_names_values_and_says_that_they_are_not_proved(
    pgdyno: Command, version: str, tmp_path: Path
) -> None:
    conf = tmp_path / "box.conf"
    said = pgdyno(
        *("tune", "--scratch", "--pg-version", version, "-s", "5", "-c", "2", "--allow-tmpfs"),
        *("--warmup", "0s", "--budget", "70s", "--json", "--conf", str(conf)),
    )
    assert said.code in (0, 3, 5), said.err
    [whole] = [trial for trial in said.document["tried"] if "the set" in trial["candidate"]]
    assert {"max_wal_size", "work_mem", "random_page_cost"} <= set(whole["settings"])
    assert whole["pair_count"] >= 3, "the whole set is measured first"
    assert "not alone   max_wal_size: this load leads to a checkpoint every" in said.err
    if said.document["verdict"] == "not known":
        formula = {value["name"]: value for value in said.document["formula"]}
        assert formula["max_wal_size"]["old"] == "1GB"
        assert formula["max_wal_size"]["why"] == "from a formula, not proved; PGTune: 8 GB"
        assert "max_wal_size = '8GB'" in said.document["conf"]
        assert "\n-- undo: ALTER SYSTEM RESET " in said.document["apply"]
    assert conf.is_file() == bool(said.document["formula"] or said.document["settings"])
    listed = pgdyno("list", "--json").document
    assert len(listed["results"]) == 1, "the first run is a part of the one result"
    page = tmp_path / "page.html"
    assert not pgdyno("report", "last", "-o", str(page)).code
    has_variants = "Changes and measured metrics" in page.read_text()
    assert has_variants == (said.document["verdict"] == "better"), "no empty tables"
    shown = pgdyno("show", "-v", "last")
    assert not shown.code, shown.err
    if conf.is_file():
        assert "max_wal_size = '8GB'" in conf.read_text()
        assert ", not proved (as a file: --conf FILE): " in shown.out or (
            said.document["verdict"] == "better"
        )
