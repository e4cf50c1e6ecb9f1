"""One odd entry of a store stops nothing, and a link leads nowhere."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from tests.fixtures.command import Command

from pgdyno.store.experiment import Store

RESULT = Path(__file__).parents[1] / "outputs/stored/bench-tpcc.tar.xz"


@pytest.fixture
def result(pgdyno: Command) -> Path:
    """A result in the store, #1."""
    with tarfile.open(RESULT) as archive:
        archive.extractall(pgdyno.store, filter="data")
    [folder] = pgdyno.store.iterdir()
    return folder


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_result_that_cannot_be_read_is_named_and_the_others_are_listed(
    result: Path, pgdyno: Command
) -> None:
    for number, name in enumerate(("with-a-pipe", "with-a-list", "of-no-time"), 2):
        odd = shutil.copytree(result, result.with_name(name))
        identity = json.loads((odd / "experiment.json").read_text())
        identity["number"] = number
        if name == "with-a-pipe":
            os.mkfifo(odd / "notes.jsonl")
        elif name == "with-a-list":
            (odd / "analysis.json").write_text("[]")
        else:
            identity["began_ns"] = "1e400"
        (odd / "experiment.json").write_text(json.dumps(identity))
    said = pgdyno("list")
    assert said.code == 0, said.err
    assert any(line.startswith("#1 ") for line in said.out.splitlines())
    assert "with-a-pipe" in words(said.err)
    assert "of-no-time" in words(said.err)
    assert pgdyno("show", "1").code == 0
    assert pgdyno("note", "1", "seen").code == 0


def test_a_link_in_a_store_is_not_followed_unless_it_is_named(
    result: Path, pgdyno: Command, tmp_path: Path
) -> None:
    elsewhere = shutil.copytree(result, tmp_path / "elsewhere")
    shutil.rmtree(result)
    result.with_name("linked").symlink_to(elsewhere)
    result.with_name("etc").symlink_to("/etc")
    listed = pgdyno("list")
    assert listed.code == 0
    assert "linked is a symbolic link" in words(listed.err)
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    for asked in (("note", "last", "x"), ("note", "1", "x"), ("report", "last"), ("undo",)):
        said = pgdyno(*asked)
        assert said.code == (0 if asked == ("undo",) else 1), said.err
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    assert pgdyno("show", "linked").code == 0


@pytest.mark.parametrize("name", [".index", ".last-number", ".lock"])
def test_a_pipe_or_a_link_with_the_name_of_a_file_of_the_store_stops_nothing(
    name: str, result: Path, pgdyno: Command, tmp_path: Path
) -> None:
    odd, elsewhere = pgdyno.store / name, tmp_path / "mine"
    elsewhere.write_text("not a result\n")
    for makes in (os.mkfifo, lambda path: path.symlink_to(elsewhere)):
        odd.unlink(missing_ok=True)
        makes(odd)
        Store(pgdyno.store).create("next", "bench")
        listed = pgdyno("list", timeout_s=60)
        assert listed.code == 0, listed.err
        assert words(listed.out).count("next") >= 1
    assert elsewhere.read_text() == "not a result\n"
