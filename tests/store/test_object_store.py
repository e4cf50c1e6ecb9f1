"""A store on a mounted object store, where files are only created, appended to and renamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.command import Command, server_options
from tests.fixtures.needs import when_offered
from tests.fixtures.object_store import can_mount, object_store

from pgdyno.errors import SpecError
from pgdyno.process.child import UserIds
from pgdyno.server.scratch.placement import place
from pgdyno.server.target import Target
from pgdyno.store.folder import ExperimentFolder

pytestmark = [
    pytest.mark.pg,
    when_offered(can_mount(), "only root can mount a file system"),
]


def test_results_are_written_and_read_with_appends_and_renames_alone(
    database15: Target, tmp_path: Path
) -> None:
    script = tmp_path / "read.sql"
    script.write_text("SELECT 1;\n")
    with object_store(tmp_path) as objects:
        on_objects = Command(objects.path / "runs")
        load = ("-f", script, "-c", "2", "-T", "300ms", "--warmup", "0", "--reset", "none")
        said = on_objects("bench", *server_options(database15), *load, "--json")
        assert said.code in (0, 3), said.err
        assert on_objects("note", "1", "on a bucket").code == 0
        page = on_objects("report", "1")
        assert page.code == 0, page.err
        again = on_objects("show", "1", "--json")
        assert again.document["transactions"] == said.document["transactions"] > 0
        [folder] = (objects.path / "runs").glob("bench-*")
        experiment = ExperimentFolder(folder)
        assert experiment.verify() == []
        assert [note["text"] for note in experiment.notes()] == ["on a bucket"]
        assert experiment.run_folders()
        assert list(folder.rglob("*.parquet"))
        # Locks and modes belong to the mount. Nothing else that the store needs is refused.
        assert objects.refused() == {"lock", "change of mode"}


def test_a_scratch_server_is_not_put_on_an_object_store(tmp_path: Path) -> None:
    user = UserIds.current()
    with object_store(tmp_path) as objects:
        chosen = place(user=user, data_dir=None, store_dir=objects.path, allow_tmpfs=True)
        assert not chosen.parent.is_relative_to(objects.path)
        assert "it is an object store (fuse.s3fs)" in chosen.notes[0]
        with pytest.raises(SpecError, match="it is an object store"):
            place(user=user, data_dir=objects.path, store_dir=None, allow_tmpfs=True)
