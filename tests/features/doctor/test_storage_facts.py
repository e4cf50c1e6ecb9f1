"""Where folders lie, on machines made by hand: NVMe partitions, volumes, arrays, networks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.features.doctor.machines import tree

from pgdyno.errors import SpecError
from pgdyno.features.doctor import flush
from pgdyno.features.doctor.storage_facts import Disk, StoragePlace, place_received, read_place
from pgdyno.observe.host.files import LocalFiles, ReceivedFiles

NVME = "sys/block/nvme0n1"
MACHINE = {
    f"{NVME}/dev": "259:0\n",
    f"{NVME}/queue/rotational": "0\n",
    f"{NVME}/queue/scheduler": "[none] mq-deadline kyber\n",
    f"{NVME}/queue/write_cache": "write back\n",
    f"{NVME}/nvme0n1p1/dev": "259:1\n",
    f"{NVME}/nvme0n1p1/partition": "1\n",
    f"{NVME}/nvme0n1p1/start": "2048\n",
    "sys/block/dm-0/dev": "253:0\n",
    "sys/block/dm-0/slaves/nvme0n1p1": f"->../../../../{NVME}/nvme0n1p1",
    "sys/block/dm-0/slaves/sda": "->../../sda",
    "sys/block/sda/dev": "8:0\n",
    "sys/block/sda/queue/rotational": "1\n",
    "sys/block/sda/queue/scheduler": "none [bfq]\n",
    "sys/block/vda/dev": "254:0\n",
    "sys/block/vda/queue/rotational": "1\n",
}
# The same as the host collector sends it: links are names without a line.
SENT = {f"/{name}": "" if text.startswith("->") else text for name, text in MACHINE.items()} | {
    "/proc/self/mountinfo": "36 35 8:3 / / rw - ext4 /dev/sda3 rw\n"
    "37 36 253:0 / /pg rw,noatime - xfs /dev/mapper/pg rw,attr2\n"
    "38 36 259:1 / /wal rw - ext4 /dev/nvme0n1p1 rw\n",
    "/df/data": "/dev/mapper/pg 1000 400 600 40% /pg\n",
}


def place(tmp_path: Path, line: str) -> StoragePlace:
    data = read_place(
        "data",
        Path("/"),
        LocalFiles(tree(tmp_path, MACHINE)),
        mountinfo=f"36 35 {line.replace('|', ' - ')}\n",
    )
    assert data is not None
    return data


def test_a_partition_of_an_nvme_disk_is_read_with_its_disk(tmp_path: Path) -> None:
    data = place(tmp_path, "259:1 / / rw,noatime shared:1|xfs /dev/nvme0n1p1 rw,attr2,inode64")
    assert data.disks == (
        Disk("nvme0n1", False, "none", ("none", "mq-deadline", "kyber"), "write back", 1 << 20),
    )
    assert (data.file_system, data.source) == ("xfs", "/dev/nvme0n1p1")
    assert data.options == ("rw", "noatime", "attr2", "inode64")
    assert data.disks[0].is_nvme
    assert data.total_bytes >= data.free_bytes > 0


def test_a_volume_over_two_disks_shows_both(tmp_path: Path) -> None:
    data = place(tmp_path, "253:0 / / rw|ext4 /dev/mapper/pg rw,barrier=0")
    assert [disk.name for disk in data.disks] == ["nvme0n1", "sda"]
    assert [disk.is_rotational for disk in data.disks] == [False, True]
    assert "barrier=0" in data.options


def test_a_file_system_with_a_number_of_no_device_is_found_by_its_source(tmp_path: Path) -> None:
    data = place(tmp_path, "0:33 / / rw|btrfs /dev/nvme0n1p1 rw,ssd")
    assert [disk.name for disk in data.disks] == ["nvme0n1"]


def test_a_network_file_system_has_no_disk_here(tmp_path: Path) -> None:
    assert place(tmp_path, "0:44 / / rw|nfs4 filer:/pg rw,hard").disks == ()


def test_the_rotation_flag_of_a_paravirtual_disk_is_ignored(tmp_path: Path) -> None:
    (disk,) = place(tmp_path, "254:0 / / rw|ext4 /dev/vda rw").disks
    assert (disk.is_rotational, disk.offset_bytes) == (None, None)


def test_the_disks_of_another_host_follow_from_its_df_and_links() -> None:
    files = ReceivedFiles({**SENT, "/server/wal": "/wal/15\n", "/server/data": "/pg/15\n"})
    data, wal = place_received("data", files), place_received("WAL", files)
    assert data is not None
    assert wal is not None
    assert (data.path, data.mount_point, data.file_system) == ("/pg/15", "/pg", "xfs")
    assert (data.total_bytes, data.free_bytes) == (1000 * 1024, 600 * 1024)
    assert [disk.name for disk in data.disks] == ["nvme0n1", "sda"]
    assert "noatime" in data.options
    assert (wal.mount_point, wal.total_bytes) == ("/wal", 0)
    assert wal.disks == (
        Disk("nvme0n1", False, "none", ("none", "mq-deadline", "kyber"), "write back", 1 << 20),
    )


def test_the_file_system_of_an_unreadable_data_directory_is_found() -> None:
    data = place_received("data", ReceivedFiles(SENT), "/srv/link/15")
    assert data is not None
    assert (data.path, data.mount_point) == ("/srv/link/15", "/pg")
    assert place_received("WAL", ReceivedFiles(SENT)) is None


def test_a_server_in_a_container_is_found_by_its_own_mounts() -> None:
    own = {"/proc/77/mountinfo": "1 0 0:50 / / rw - overlay overlay rw\n"}
    own["/proc/77/mountinfo"] += "2 1 254:0 /v /var/lib/postgresql rw - ext4 /dev/vda rw\n"
    files = ReceivedFiles({**SENT, **own})
    del files.by_path["/df/data"]
    data = place_received("data", files, "/var/lib/postgresql/data")
    assert data is not None
    assert (data.mount_point, [disk.name for disk in data.disks]) == (
        "/var/lib/postgresql",
        ["vda"],
    )


def test_flushes_are_timed_and_counted_and_nothing_is_left(tmp_path: Path) -> None:
    times = flush.measure(tmp_path, devices=("none",), seconds=0.05)
    assert times.flush_count >= 1
    assert 0 < times.latency_ns_p50 <= times.latency_ns_p99 <= times.latency_ns_max
    assert times.device_flushes is None
    assert list(tmp_path.iterdir()) == []


def test_the_devices_own_count_of_flushes_is_read(tmp_path: Path) -> None:
    stats = "259 0 nvme0n1 1 0 8 1 1 0 8 1 0 1 1 0 0 0 0 70 9\n 8 0 sda 1 0 8 1 1 0 8 1 0 1 1\n"
    root = tree(tmp_path, {"proc/diskstats": stats})
    times = flush.measure(tmp_path, devices=("nvme0n1",), seconds=0.01, root=root)
    assert times.device_flushes == 0
    old = flush.measure(tmp_path, devices=("nvme0n1", "sda"), seconds=0.01, root=root)
    assert old.device_flushes is None


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot write a file"):
        flush.measure(tmp_path / "absent", devices=())
