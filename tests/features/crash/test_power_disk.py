"""The disk that loses power, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make
from tests.fixtures.command import eventually
from tests.fixtures.programs import FILE_SYSTEMS

from pgdyno.errors import ProcessError
from pgdyno.features.crash.power_disk import FileSystem, PowerDisk
from pgdyno.process import child
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.server.storage import mounts_below, unmount

LAB = """
import os, sys
from pathlib import Path
from pgdyno.features.crash.power_disk import PowerDisk
from pgdyno.process import child
from pgdyno.server.find import find
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
template = ScratchCluster.create(ScratchRequest(find(version="15"), data_dir=Path(sys.argv[1])))
template.stop()
def fill(data_dir, user):
    PowerDisk(data_dir)
    os.chown(data_dir, user.uid, user.gid)
    data_dir.chmod(0o700)
    child.run(["cp", "-a", f"{template.data_dir}/.", data_dir], timeout_s=60)
request = ScratchRequest(find(version="15"), data_dir=Path(sys.argv[1]), fill=fill)
cluster = ScratchCluster.create(request)
print(cluster.pid, flush=True)
sys.stdin.read()
"""


def written(path: Path, text: str, *, synced: bool) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        if synced:
            os.fsync(file.fileno())
    if synced:
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def test_synced_data_survive_a_power_cut(disk: PowerDisk) -> None:
    for seed in range(20):
        place = disk.mount / str(seed)
        place.mkdir()
        written(place / "synced", "kept", synced=True)
    disk.settle()
    for seed in range(20):
        written(disk.mount / str(seed) / "pending", "perhaps", synced=False)
    counts = disk.cut(seed=5)
    disk.restore()
    kept = [(disk.mount / str(seed) / "pending").exists() for seed in range(20)]
    assert all((disk.mount / str(seed) / "synced").read_text() == "kept" for seed in range(20))
    assert counts["names_lost_count"] > 0
    assert not all(kept)


def test_nothing_is_answered_between_cut_and_restore(disk: PowerDisk) -> None:
    written(disk.mount / "file", "kept", synced=True)
    disk.cut(seed=1)
    with pytest.raises(OSError, match="Input/output error"):
        (disk.mount / "other").write_text("x")


@pytest.mark.parametrize("on", FILE_SYSTEMS)
def test_a_file_system_on_the_disk_keeps_what_it_synced(
    can_lose_power: None, tmp_path: Path, on: FileSystem
) -> None:
    place = tmp_path / "data"
    place.mkdir()
    with PowerDisk(place, on=on) as disk:
        for seed in range(3):
            written(place / f"synced {seed}", "kept", synced=True)
            written(place / "pending", "perhaps", synced=False)
            disk.cut(seed)
            disk.restore()
            assert (place / f"synced {seed}").read_text() == "kept"
            assert not (place / "pending").exists()
        (place / "settled").write_text("kept")
        disk.settle()
        disk.cut(9)
        disk.restore()
        assert (place / "settled").read_text() == "kept"
        assert disk.warnings == []
        os.kill(disk.pid, signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert not mounts_below(tmp_path)


def test_a_file_system_whose_program_is_missing_is_named(
    can_lose_power: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "data"
    place.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProcessError, match=r"mkfs.xfs was not found: install"):
        PowerDisk(place, on="xfs")
    assert not mounts_below(tmp_path)


def test_a_wrong_order_of_commands_is_an_error_of_the_disk(disk: PowerDisk) -> None:
    with pytest.raises(ProcessError, match="restore comes after cut"):
        disk.restore()


def test_a_disk_in_use_is_unmounted_all_the_same(can_lose_power: None, tmp_path: Path) -> None:
    disk = PowerDisk(tmp_path)
    used = os.open(tmp_path / "used", os.O_CREAT | os.O_RDWR)
    disk.close()
    with contextlib.suppress(OSError):
        os.close(used)
    disk.close()
    assert not mounts_below(tmp_path)


def test_a_mount_whose_program_was_killed_is_unmounted(
    can_lose_power: None, tmp_path: Path
) -> None:
    disk = PowerDisk(tmp_path)
    os.kill(disk.pid, signal.SIGKILL)
    with pytest.raises(ProcessError, match="ended"):
        disk.settle()
    with pytest.raises(OSError, match="not connected"):
        tmp_path.stat()
    assert unmount(tmp_path)
    disk.close()


@pytest.mark.pg
def test_a_killed_lab_leaves_no_mount_after_the_next_command(
    can_lose_power: None, house: Path
) -> None:
    parent = house / "disk-of-a-killed-lab"
    parent.mkdir()
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with lab:
        assert lab.stdout is not None
        assert lab.stdout.readline().strip().isdecimal()
        assert mounts_below(parent)
        lab.kill()
    removed = [leftover for leftover in sweep_leftovers([parent]) if leftover.is_removed]
    assert len(removed) == 2
    assert not mounts_below(parent)
    assert list(parent.iterdir()) == []


def test_a_crash_ends_every_process_of_a_server(new_cluster: Make) -> None:
    cluster = new_cluster("15")
    postmaster = cluster.pid
    with cluster.connect() as connection:
        backend = connection.info.backend_pid
        seen: list[bool] = []

        def note() -> None:
            seen.append(Path(f"/proc/{backend}").exists())

        cluster.kill(note)
    assert seen == [True]
    for pid in (postmaster, backend):
        eventually(lambda pid=pid: not Path(f"/proc/{pid}").exists() or is_zombie(pid))
    cluster.start()
    with cluster.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_crash_ends_processes_below_the_child() -> None:
    shell = child.start(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
    assert shell.stdout is not None
    grandchild = int(shell.stdout.readline())
    shell.kill_family()
    assert not Path(f"/proc/{grandchild}").exists() or is_zombie(grandchild)
    assert shell.poll() == -signal.SIGKILL
    shell.close_pipes()


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
