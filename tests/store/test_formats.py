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
from tests.fixtures.command import Command
from tests.store.contents import check_contents

from pgdyno.designs import answer_of, document_of, page_of, words_of
from pgdyno.loop.history import history_of
from pgdyno.store import ExperimentFolder, Store

FORMATS = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("version", [1])
def test_a_result_of_this_format_reads_as_it_was_written(version: int, tmp_path: Path) -> None:
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
            (one["name"], one["runs"], one["changes"], one["metrics"]["tps"]["value"])
            for one in document.get("variants", ())
        ],
        "effects": [effect["terms"] for effect in document.get("effects", ())],
        "steps": [step["name"] for step in document.get("steps", ())],
        "curves": [
            (curve["variant"], [(one["clients"], one["runs_tps"]) for one in curve["levels"]])
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
@pytest.mark.parametrize("name", ["passes-cut-short", "sweep-cut-short"])
def test_an_experiment_of_before_variants_had_ids_goes_on(
    name: str, pgdyno: Command, house: Path
) -> None:
    folder = unpacked(pgdyno.store, name)
    before = history_of(folder)
    said = pgdyno("run", "--resume", "last")
    assert said.code == 3, said.err  # Runs of a second are too short to be believed.
    after = history_of(folder)
    assert [measured.run for measured in after[: len(before)]] == [m.run for m in before]
    assert len(after) > len(before)
