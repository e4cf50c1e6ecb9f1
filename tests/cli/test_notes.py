"""What people note about a result is shown wherever the result is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.generated import generate
from tests.features.crash.records import crash
from tests.features.crash.test_document import stored
from tests.fixtures.command import Command

from pgdyno.store.experiment import Store

NOTE = "CHG0048211: <b>new</b> disks"


def made(kind: str, folder: Path) -> None:
    if kind == "experiment":
        generate(Store(folder), rounds=2, effect_ratio=0.1, noise_ratio=0.01).seal()
    else:
        stored(folder, crash()).seal()


@pytest.mark.parametrize("kind", ["experiment", "crash"])
def test_a_note_is_in_list_show_json_and_page(kind: str, pgdyno: Command, tmp_path: Path) -> None:
    made(kind, tmp_path / "store")
    where = ("--store", str(tmp_path / "store"))
    assert NOTE in pgdyno("note", "1", NOTE, *where).out
    assert NOTE in pgdyno("list", *where).out
    [listed] = json.loads(pgdyno("list", *where, "--json").out)["results"]
    assert listed["notes"][0].endswith(NOTE)
    assert NOTE in pgdyno("show", "1", *where).out
    [kept] = json.loads(pgdyno("show", "1", *where, "--json").out)["notes"]
    assert kept.endswith(NOTE)
    page = Path(pgdyno("report", "1", *where).out.strip()).read_text()
    assert "CHG0048211: &lt;b&gt;new&lt;/b&gt; disks" in page


@pytest.mark.parametrize("name", ["r.md", "r.html", "r.json"])
def test_the_extension_of_a_report_decides_its_form(
    pgdyno: Command, tmp_path: Path, name: str
) -> None:
    made("experiment", tmp_path / "store")
    where = ("--store", str(tmp_path / "store"))
    file = tmp_path / name
    assert pgdyno("report", "1", *where, "-o", str(file)).code == 0
    begins = {"md": "# ", "html": "<!doctype html>", "json": "{"}[name.partition(".")[2]]
    assert file.read_text().lower().startswith(begins)


@pytest.mark.parametrize("name", ["r.pdf", "r.txt", "r"])
def test_a_form_that_a_report_cannot_have_is_refused(
    pgdyno: Command, tmp_path: Path, name: str
) -> None:
    made("experiment", tmp_path / "store")
    where = ("--store", str(tmp_path / "store"))
    said = pgdyno("report", "1", *where, "-o", str(tmp_path / name))
    assert (said.code, "this extension" in " ".join(said.err.split())) == (1, True)
    assert not (tmp_path / name).exists()
