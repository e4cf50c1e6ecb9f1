"""A cluster that --keep left is found again, and is used only if it is as asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import run_sql, scalar

from pgdyno.clock import read_pair
from pgdyno.errors import ServerError
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.setup import Setup
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.server.scratch.record import ClusterFolder, ClusterRecord
from pgdyno.spec.experiment import (
    BenchDesign,
    Experiment,
    Permissions,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    Workload,
)


class Notes(RunProgress):
    """Keeps the lines about steps."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def said(self, text: str) -> None:
        self.lines.append(text)

    def kept_path(self, start: str) -> str:
        """Return the folder in the one line that begins like this."""
        (line,) = [line for line in self.lines if line.startswith(start)]
        return line.rpartition(" ")[2]


def opened_once(store_dir: Path, sql: str, **scratch: Any) -> tuple[Notes, object]:
    """Open the server of an experiment that keeps its cluster, ask it one thing, and close it."""
    notes = Notes()
    experiment = Experiment(
        name="kept",
        server=Server(scratch=Scratch(version="15", keep=True, **scratch)),
        dataset=PgbenchDataset(scale=1),
        workload=Workload(scripts=(Script(builtin="select-only"),), clients=2),
        design=BenchDesign(),
    )
    setup = Setup(
        experiment=experiment,
        verb="test",
        target=None,
        permissions=Permissions(),
        scripts=(),
        clock=read_pair(),
        store_dir=store_dir,
        progress=notes,
    )
    with opened_servers(setup) as servers:
        target = servers.ready(None, 0).target
        if sql.startswith("CREATE"):
            return notes, run_sql(target, sql)
        return notes, scalar(target, sql)


@pytest.mark.pg
def test_a_cluster_kept_next_to_the_results_is_found_again(open_folder: Path) -> None:
    needs.postgresql("15")
    first, _ = opened_once(open_folder, "CREATE TABLE kept AS SELECT 42 AS answer")
    path = first.kept_path("The cluster is kept for the next command: ")
    assert Path(path).parent == open_folder
    second, answer = opened_once(open_folder, "SELECT answer FROM kept")
    assert second.kept_path("using the kept cluster ") == path
    assert answer == 42
    # The WAL of the kept cluster is in its data directory, which is not what is asked for now.
    wal = open_folder / "wal"
    wal.mkdir(mode=0o755)
    third, _ = opened_once(open_folder, "SELECT 1", wal_dir=wal)
    assert not [line for line in third.lines if line.startswith("using")]


def test_a_removal_that_fails_leaves_the_note_for_the_next_command(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ClusterRecord("/bin", "15.0", "installed", "nobody", checksums=False, settings={})
    folder = ClusterFolder.create(open_folder, record, is_other_user=False)
    (folder.data_dir / "base").mkdir(parents=True)
    socket_dir = folder.make_extra_folder("socket", open_folder)
    remove = shutil.rmtree
    with monkeypatch.context() as patch:
        patch.setattr(
            shutil,
            "rmtree",
            lambda path, **how: None if path == folder.data_dir else remove(path, **how),
        )
        with pytest.raises(ServerError, match=f"{folder.data_dir} still exists"):
            folder.remove()
    assert not socket_dir.exists()
    (left,) = sweep_leftovers([open_folder])
    assert (left.path, left.is_removed) == (folder.path, True)
    assert list(open_folder.iterdir()) == []
