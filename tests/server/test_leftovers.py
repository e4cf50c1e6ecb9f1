"""What is left when a command ends or is killed: swept, or kept and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import scalar
from tests.fixtures.command import eventually

from pgdyno.errors import SpecError
from pgdyno.process.child import descendants
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.connect import connect
from pgdyno.server.find import Binaries
from pgdyno.server.scratch import cluster as scratch
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.leftovers import _cluster_folders, kept_clusters, sweep_leftovers
from pgdyno.server.scratch.record import FOLDER_PREFIX

LAB = """
import sys
from pathlib import Path
from pgdyno.server.find import find
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
cluster = ScratchCluster.create(
    ScratchRequest(find(version=sys.argv[1]), data_dir=Path(sys.argv[2]), keep={keep})
)
print(cluster.pid, cluster.target.host, flush=True)
sys.stdin.read()
"""


def killed_lab(
    binaries: Binaries, folder: Path, *, keep: bool, before: Callable[[int], None] | None = None
) -> tuple[ProcessIdentity, Path]:
    """Kill a lab with SIGKILL while its cluster runs; return its postmaster and socket folder.

    Args: before, called with the postmaster's pid just before the lab is killed.
    """
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB.format(keep=keep), str(binaries.major), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with lab:
        assert lab.stdout is not None
        pid, socket_dir = lab.stdout.readline().split()
        identity = ProcessIdentity.of(int(pid))
        assert identity is not None
        if before is not None:
            before(identity.pid)
        lab.kill()
    return identity, Path(socket_dir)


def test_a_kept_cluster_is_started_again_with_its_data_and_settings(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    request = ScratchRequest(
        binaries, data_dir=open_folder, keep=True, settings={"work_mem": "7MB"}
    )
    with ScratchCluster.create(request) as cluster:
        with cluster.connect(verb="test") as connection:
            connection.execute("CREATE TABLE public.kept AS SELECT 42 AS answer")
        path = cluster.path
        assert kept_clusters([open_folder]) == []
        with pytest.raises(SpecError, match="in use by another command"):
            ScratchCluster.adopt(path)
    assert kept_clusters([open_folder]) == [path]
    assert sweep_leftovers([open_folder]) == []
    with ScratchCluster.adopt(path, keep=False, listens_tcp=True) as again:
        assert scalar(again.target, "SELECT answer FROM public.kept") == 42
        assert scalar(again.target, "SHOW work_mem") == "7MB"
        assert again.binaries.source == binaries.source
        with connect(again.tcp_target, verb="test") as by_password:
            assert by_password.execute("SELECT 1").fetchone() == (1,)
    assert list(open_folder.iterdir()) == []


def test_only_the_folder_of_a_kept_cluster_is_adopted(open_folder: Path) -> None:
    with pytest.raises(SpecError, match="is not a kept cluster"):
        ScratchCluster.adopt(open_folder)


@needs.LINUX
def test_when_the_lab_is_killed_the_postmaster_ends_and_the_leftover_is_swept(
    binaries: Binaries, open_folder: Path
) -> None:
    experiment = open_folder / "an-experiment-of-the-store"
    postmaster, socket_dir = killed_lab(binaries, experiment, keep=False)
    eventually(lambda: not postmaster.is_running())
    (left,) = experiment.iterdir()
    (swept,) = sweep_leftovers([open_folder])
    assert (swept.path, swept.is_removed) == (left, True)
    assert list(experiment.iterdir()) == []
    assert not socket_dir.exists()


@needs.LINUX
def test_a_server_that_was_stopped_when_its_lab_was_killed_is_ended(
    binaries: Binaries, open_folder: Path
) -> None:
    # `pgdyno crash` stops a postmaster while it cuts the power; it may be killed at that moment.
    family: list[ProcessIdentity] = []

    def stop(postmaster: int) -> None:
        for pid in (postmaster, *descendants(postmaster)):
            if (process := ProcessIdentity.of(pid)) is not None:
                family.append(process)
        for process in family[:2]:  # The second does not see that its postmaster ends.
            os.kill(process.pid, signal.SIGSTOP)

    killed_lab(binaries, open_folder, keep=False, before=stop)
    assert len(family) > 4
    (swept,) = sweep_leftovers([open_folder])
    assert (swept.ended_postmaster, swept.is_removed) == (True, True)
    eventually(lambda: not any(process.is_running() for process in family))


@needs.LINUX
def test_a_cluster_to_be_kept_outlives_a_killed_lab(binaries: Binaries, open_folder: Path) -> None:
    postmaster, socket_dir = killed_lab(binaries, open_folder, keep=True)
    eventually(lambda: not postmaster.is_running())
    assert [leftover for leftover in sweep_leftovers([open_folder]) if leftover.is_removed] == []
    # A command of another test that looks for leftovers has the folder's lock for a moment.
    eventually(lambda: not socket_dir.exists())
    (path,) = eventually(lambda: kept_clusters([open_folder]))
    with ScratchCluster.adopt(path, keep=False) as cluster:
        assert scalar(cluster.target, "SELECT 1") == 1
    assert list(open_folder.iterdir()) == []


def test_an_orphaned_postmaster_is_ended_only_if_it_is_the_recorded_one(
    binaries: Binaries, open_folder: Path
) -> None:
    with ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder)) as cluster:
        record = cluster._folder.record
        another = scratch.ClusterRecord(
            bin_dir=record.bin_dir,
            version=record.version,
            source=record.source,
            user=record.user,
            checksums=False,
            settings={},
            postmaster_pid=record.postmaster_pid,
            postmaster_started="another boot:17",
        )
        assert scratch.end_orphan(another, cluster.path) is False
        assert scalar(cluster.target, "SELECT 1") == 1
        assert scratch.end_orphan(record, cluster.path) is True
        eventually(lambda: cluster.pid is None)


MOMENTS = """
import itertools, os, signal, sys
from pathlib import Path
from pgdyno.server.scratch.record import ClusterFolder, ClusterRecord
from pgdyno.server.scratch.leftovers import sweep_leftovers

place = Path(sys.argv[1])
record = ClusterRecord("/bin", "15.1", "installed", "postgres", checksums=False, settings={})
places = [place / name for name in ("data", "wal", "socket")]


def make(step):
    steps = itertools.count()

    def look(event, arguments):
        is_step = event in ("os.mkdir", "os.chmod", "os.rename", "open")
        if is_step and str(arguments[0]).startswith(str(place)) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    folder = ClusterFolder.create(places[0], record, is_other_user=True)
    folder.make_extra_folder("wal", places[1])
    folder.make_extra_folder("socket", places[2])
    os._exit(0)


for one in places:
    one.mkdir()
for step in itertools.count():
    child = os.fork() or make(step)
    _, status = os.waitpid(child, 0)
    sweep_leftovers([places[0]])
    print(step, [str(path) for one in places for path in one.iterdir()])
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
"""


@needs.LINUX
def test_a_lab_killed_before_any_step_of_making_folders_leaves_none_once_swept(
    open_folder: Path,
) -> None:
    script = [sys.executable, "-c", MOMENTS, str(open_folder)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    left = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(left) > 12
    assert left == [f"{step} []" for step in range(len(left))]


def test_a_folder_without_a_note_that_holds_anything_is_left_alone(open_folder: Path) -> None:
    theirs = open_folder / f"{FOLDER_PREFIX}1"
    theirs.mkdir(mode=0o700)
    (theirs / "mine").touch()
    assert sweep_leftovers([open_folder]) == []
    assert (theirs / "mine").exists()


def test_a_folder_that_a_sweep_took_away_from_its_maker_is_made_again(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    real = tempfile.mkdtemp

    def swept_at_once(*args: str, **options: Any) -> str:
        made.append(Path(real(*args, **options)))
        if len(made) == 1:
            assert [left.path for left in sweep_leftovers([open_folder])] == made
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_once)
    record = scratch.ClusterRecord("/bin", "15.1", "installed", "me", checksums=False, settings={})
    folder = scratch.ClusterFolder.create(open_folder, record, is_other_user=False)
    assert list(open_folder.iterdir()) == [folder.path] == made[1:]
    assert sweep_leftovers([open_folder]) == []
    folder.remove()
    assert list(open_folder.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_never_trusted(open_folder: Path) -> None:
    fake = open_folder / "pgdyno-scratch-trap"
    fake.mkdir()
    (fake / "lock").touch()
    (fake / "cluster.json").write_text('{"format": "pgdyno.cluster/1"}')
    fake.chmod(0o777)
    assert sweep_leftovers([open_folder]) == []
    assert fake.exists()


def test_the_exit_of_the_lab_removes_what_was_forgotten(
    binaries: Binaries, open_folder: Path
) -> None:
    script = LAB.format(keep=False).replace("sys.stdin.read()", "raise SystemExit(0)")
    subprocess.run(
        [sys.executable, "-c", script, str(binaries.major), str(open_folder)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert list(open_folder.iterdir()) == []


def test_a_folder_that_disappears_during_the_search_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "mine" / f"{FOLDER_PREFIX}1"
    gone = tmp_path / "theirs"
    kept.mkdir(parents=True)
    gone.mkdir()
    scandir = os.scandir

    def looked_at(path: Any = ".") -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if str(path).rstrip("/").endswith("theirs"):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", looked_at)
    assert _cluster_folders([tmp_path]) == [kept]
