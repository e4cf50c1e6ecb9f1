"""A store that was moved, zipped, or written by another pgdyno."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from bench.generated import generate
from tests.store import records
from tests.store.contents import check_contents, written

from pgdyno.designs import answer_of
from pgdyno.errors import StoreError
from pgdyno.store.experiment import Store


def test_a_store_that_was_zipped_and_unpacked_elsewhere_says_the_same(tmp_path: Path) -> None:
    first = Store(tmp_path / "here")
    before = answer_of(generate(first, rounds=2, effect_ratio=0.1, noise_ratio=0.01))
    zipped = shutil.make_archive(str(tmp_path / "store"), "zip", first.root)
    shutil.rmtree(first.root)
    shutil.unpack_archive(zipped, tmp_path / "there")
    folder = Store(tmp_path / "there").find("last")
    assert answer_of(folder) == before
    assert [run.number for run in folder.runs()] == [1, 2, 3, 4]


def test_a_moved_result_keeps_its_seal_and_leaves_the_next_number_free(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "here")
    folder = store.create("mine", "bench")
    written(folder).finish()
    folder.seal()
    moved = store.root.rename(tmp_path / "there")
    moved_folder = Store(moved).find("mine")
    assert moved_folder.verify() == []
    check_contents(moved_folder.runs()[0])
    assert Store(moved).create("next", "bench").number == 2


def test_one_result_copied_into_another_store_is_found_by_number_name_and_folder(
    tmp_path: Path,
) -> None:
    source = Store(tmp_path / "a").create("my disk", "bench").folder
    target = tmp_path / "b"
    target.mkdir()
    shutil.copytree(source, target / source.name)
    for handle in ("1", "last", "my disk", source.name, str(target / source.name)):
        assert Store(target).find(handle).folder == target / source.name


def test_of_two_results_with_one_name_the_newest_is_meant(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create("disk", "bench")
    newest = store.create("disk", "bench")
    assert store.find("disk").number == newest.number


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_format_that_this_pgdyno_does_not_read_is_refused_by_its_number(
    tmp_path: Path, version: int
) -> None:
    folder = Store(tmp_path).create("x", "bench").folder
    identity = json.loads((folder / "experiment.json").read_text())
    (folder / "experiment.json").write_text(json.dumps({**identity, "format": version}))
    with pytest.raises(StoreError, match=f"has format {version}, this pgdyno reads 1") as caught:
        Store(tmp_path).find("1")
    assert "newer" in caught.value.hint


def test_a_run_of_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("x", "bench")
    run = written(folder).finish().folder
    identity = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**identity, "format": 7}))
    with pytest.raises(StoreError, match="has format 7"):
        folder.runs()


def test_additions_of_a_newer_pgdyno_to_a_result_are_ignored(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("x", "bench")
    with folder.begin_run(1, "", records.JOB) as writer:
        writer.add_record({**records.summary(), "a_new_field": [1]})
        writer.write_json("newer.json", {"a": 1})
        run = writer.finish()
    assert run.summary["ending"] == "completed"
    assert folder.runs()[0].number == 1


def test_a_file_where_the_store_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for ask in (Store(tmp_path / "file").list, lambda: Store(tmp_path / "file").find("last")):
        with pytest.raises(StoreError, match="is a file, not a folder of results"):
            ask()


def test_an_error_names_a_missing_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StoreError, match="working directory no longer exists"):
        Store.default("relative")
    os.chdir(tmp_path)  # What is given as an absolute path needs none.
    assert Store.default(tmp_path / "x").root == tmp_path / "x"
