"""Results of every format version that was ever written stay readable.

A fixture is a small experiment as the pgdyno of its time wrote it; it is never made again.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command
from tests.store.contents import check_contents

from pgdyno.designs import answer_of, document_of, page_of, words_of
from pgdyno.features.watch.result_kind import WATCH
from pgdyno.features.watch.segments import document_again
from pgdyno.loop.history import history_of
from pgdyno.report.html import answer_page
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

FORMATS = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("version", [1])
def test_a_result_reads_back_as_written(version: int, tmp_path: Path) -> None:
    (source,) = (FORMATS / f"format-{version}").iterdir()
    shutil.copytree(source, tmp_path / source.name)
    experiment = Store(tmp_path).find("1")
    assert (experiment.verb, experiment.name) == ("bench", "fixture")
    assert experiment.verify() == []
    (run,) = experiment.runs()
    check_contents(run)
    assert experiment.decisions() == [{"run": 7, "why": "the only one"}]
    assert experiment.facts() == {"server_version": "15.0"}


# Results of every design, written before plan.jsonl had a line for each variant: a cell named its
# variant by its place. They were measured in seconds, so nothing in them is a statement.
DESIGNS_1 = FORMATS / "format-1-designs"


def unpacked(store: Path, name: str) -> ExperimentFolder:
    with tarfile.open(DESIGNS_1 / f"{name}.tar.xz") as archive:
        archive.extractall(store, filter="data")
    return Store(store).find("last")


def measured_in(document: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured of what: words and intervals may improve, these stay."""
    return {
        "format": document["format"],
        "runs": document["runs"],
        "tps": document.get("tps", {}).get("value"),
        "reference": document.get("reference"),
        "variants": [
            (
                variant["name"],
                variant["runs"],
                variant["changes"],
                variant["metrics"]["tps"]["value"],
            )
            for variant in document.get("variants", ())
        ],
        "effects": [effect["terms"] for effect in document.get("effects", ())],
        "steps": [step["name"] for step in document.get("steps", ())],
        "curves": [
            (curve["variant"], [(level["clients"], level["runs_tps"]) for level in curve["levels"]])
            for curve in document.get("curves", ())
        ],
    }


@pytest.mark.parametrize(
    "name", [path.name.removesuffix(".tar.xz") for path in sorted(DESIGNS_1.iterdir())]
)
def test_a_result_of_before_variants_had_ids_says_what_it_said(name: str, tmp_path: Path) -> None:
    folder = unpacked(tmp_path, name)
    findings = answer_of(folder)
    said = json.loads((folder.folder / "analysis.json").read_text())
    assert measured_in(json.loads(json.dumps(document_of(findings)))) == measured_in(said)
    assert findings.sentence.split()[0] in words_of(findings, 100)
    assert "<html" in page_of(findings)


@pytest.mark.pg
@needs.POSTGRESQL_15
@pytest.mark.parametrize("name", ["passes-cut-short", "sweep-cut-short"])
def test_an_experiment_of_before_variants_had_ids_goes_on(
    name: str, pgdyno: Command, house: Path
) -> None:
    folder = unpacked(pgdyno.store, name)
    before = history_of(folder)
    said = pgdyno("run", "--resume", "last", "--confirm", "scratch")
    assert said.code == 3, said.err  # Runs of a second are too short to be believed.
    after = history_of(folder)
    assert [measured.run for measured in after[: len(before)]] == [m.run for m in before]
    assert len(after) > len(before)


def unpacked_watch(store: Path) -> ExperimentFolder:
    """Return a watch of 12 s that the pgdyno of 2026-11-22 00:45 UTC (2cbfe10) wrote."""
    with tarfile.open(FORMATS / "format-1-watch.tar.xz") as archive:
        archive.extractall(store, filter="data")
    return Store(store).find("last")


def test_a_watch_of_before_says_what_it_said(pgdyno: Command) -> None:
    folder = unpacked_watch(pgdyno.store)
    said = json.loads((folder.folder / "analysis.json").read_text())
    document = pgdyno("show", "last", "--json").document
    for name in ("format", "tps", "hit_ratio", "wal_bytes_per_second", "seconds_seen", "waits"):
        assert document[name] == said[name], name
    text = pgdyno("show", "last").out
    assert "493 tps" in text
    assert "Lock:transactionid" in text
    page = answer_page(WATCH.answer(folder))
    assert said["sentence"].split(",")[0] in page
    assert 'data-chart="main-waits"' in page


def test_a_watch_of_before_that_was_killed_is_added_up_again(tmp_path: Path) -> None:
    folder = unpacked_watch(tmp_path)
    said = json.loads((folder.folder / "analysis.json").read_text())
    (folder.folder / "analysis.json").unlink()
    again = document_again(folder)
    assert again["tps"] == pytest.approx(said["tps"], rel=0.02)
    assert again["waits"][0]["wait_event"] == "Lock:transactionid"
    assert again["waits"][0]["share_ratio"] == pytest.approx(0.64, abs=0.02)


@pytest.mark.parametrize(
    "line", [("show", "1"), ("report", "1"), ("export", "1", "--table", "waits")]
)
def test_a_watch_that_was_altered_says_which_file(line: tuple[str, ...], pgdyno: Command) -> None:
    folder = unpacked_watch(pgdyno.store)
    facts = folder.folder / "facts.json"
    facts.write_text(facts.read_text().replace("15.20", "18.20"))
    done = pgdyno(*line)
    assert done.code == 0
    assert "facts.json was changed" in done.err
