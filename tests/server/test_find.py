from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.errors import ServerError, SpecError
from pgdyno.process.child import UserIds
from pgdyno.server.find import Binaries, embedded, find, installed
from pgdyno.server.scratch import identity
from pgdyno.server.scratch.identity import can_reach, reachable_binaries, server_user
from pgdyno.server.storage import (
    Mount,
    device_name,
    disks_below,
    free_bytes,
    mount_of,
    nearest_existing,
)

needs_root = needs.ROOT

MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 259:1 / /mnt/nvme0 rw,noatime shared:1 master:2 - xfs /dev/nvme0n1p1 rw
31 22 0:27 / /dev/shm rw - tmpfs tmpfs rw
32 22 8:1 / /mnt/with\\040blank rw - ext4 /dev/sda1 rw
33 30 0:44 / /mnt/nvme0 rw - tmpfs hidden rw
not a line of it
"""


def fake_postgres(folder: Path, said: str) -> Path:
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (folder / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that only we may enter, on a file system that other users can reach."""
    folder = Path("/var/tmp") / f"pgdyno-test-closed-{os.getpid()}"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_each_found_server_has_version_source_and_abilities(binaries: Binaries) -> None:
    assert binaries.version.startswith(f"{binaries.major}.")
    assert (binaries.bin_dir / "postgres").exists()
    if binaries.source == "embedded":
        assert not binaries.has_tls
    if binaries.major == 18:
        assert binaries.lacks == ("pgcrypto", "sslinfo", "uuid-ossp", "xml2")
    else:
        assert binaries.lacks == ()
    assert "prefix=" in binaries.configure


def test_the_embedded_servers_are_not_asked_if_an_installed_one_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = installed()
    needs.offered(bool(servers), "no installed PostgreSQL")
    monkeypatch.setattr("pgdyno.server.find.embedded", lambda: pytest.fail("it was asked"))
    assert find().source == "installed"
    assert find(version=str(servers[-1].major)).bin_dir == servers[-1].bin_dir


def test_an_installed_server_comes_before_the_embedded_one() -> None:
    order = installed() + embedded()
    assert find() == order[0]


def test_the_embedded_packages_hold_16_and_18_newest_first() -> None:
    versions = [binaries.version for binaries in embedded()]
    assert (versions[0], versions[-1].split(".")[0]) == ("18.6", "16")


def test_a_full_version_is_matched_whole(binaries: Binaries) -> None:
    assert find(version=binaries.version).version == binaries.version
    with pytest.raises(SpecError):
        find(version=f"{binaries.major}.99")


def test_the_error_of_a_missing_version_lists_the_installed_ones() -> None:
    with pytest.raises(SpecError, match=r"PostgreSQL 12 was not found; found: PostgreSQL 1") as e:
        find(version="12")
    assert "--pg-bin" in e.value.hint


def test_a_server_in_the_path_is_found_through_its_link(tmp_path: Path) -> None:
    folder = fake_postgres(tmp_path / "pg17" / "bin", "postgres (PostgreSQL) 17.2 (Own 17.2-1)")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "postgres").symlink_to(folder / "postgres")
    by_folder = {
        binaries.bin_dir: binaries for binaries in installed({"PATH": f"{tmp_path}/links"})
    }
    assert by_folder[folder].version == "17.2"


def test_a_named_folder_may_be_the_one_above_bin(tmp_path: Path) -> None:
    folder = fake_postgres(tmp_path / "bin", "postgres (PostgreSQL) 18beta1")
    binaries = find(bin_dir=tmp_path)
    assert (binaries.bin_dir, binaries.version, binaries.major) == (folder, "18beta1", 18)


def test_a_named_folder_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="postgres and initdb not found"):
        find(bin_dir=tmp_path)


@pytest.mark.parametrize("version", ["12.22", "19devel"])
def test_a_named_server_of_an_unsupported_version_is_refused(tmp_path: Path, version: str) -> None:
    fake_postgres(tmp_path / "bin", f"postgres (PostgreSQL) {version}")
    with pytest.raises(SpecError, match="supported versions are 14 to 18"):
        find(bin_dir=tmp_path)


def test_a_named_server_of_another_version_than_asked_is_refused(tmp_path: Path) -> None:
    fake_postgres(tmp_path / "bin", "postgres (PostgreSQL) 16.1")
    with pytest.raises(SpecError, match=r"has PostgreSQL 16\.1, not 17"):
        find(bin_dir=tmp_path, version="17")


@needs_root
def test_root_becomes_the_service_user_or_the_user_nobody(binaries: Binaries) -> None:
    expected = "postgres" if binaries.source == "installed" else "nobody"
    assert server_user(binaries).name == expected


def test_an_ordinary_user_stays_itself(binaries: Binaries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity.os, "geteuid", lambda: 4242)
    assert server_user(binaries) == UserIds.current()


@needs_root
def test_programs_in_a_closed_folder_are_copied_once(closed_folder: Path) -> None:
    source, nobody = embedded()[0], UserIds.of("nobody")
    hidden = closed_folder / "site-packages" / source.bin_dir.parent.parent.name
    hidden.mkdir(parents=True)
    shutil.copytree(source.bin_dir.parent, hidden / "pginstall18", symlinks=True)
    libraries = source.bin_dir.parent.parent.with_suffix(".libs")
    if libraries.exists():
        shutil.copytree(libraries, hidden.with_suffix(".libs"))
    closed = find(bin_dir=hidden / "pginstall18" / "bin")
    shelf = closed_folder.with_name(closed_folder.name + "-shelf")
    try:
        assert not can_reach(nobody, closed.program("postgres"))
        copied = reachable_binaries(closed, nobody, shelf)
        assert can_reach(nobody, copied.program("initdb"))
        assert copied.version == closed.version
        (home,) = shelf.iterdir()
        made_ns = home.stat().st_ctime_ns
        assert reachable_binaries(closed, nobody, shelf) == copied
        assert [entry.stat().st_ctime_ns for entry in shelf.iterdir()] == [made_ns]
        assert stat.S_IMODE(home.stat().st_mode) == 0o755
        shelf.chmod(0o777)
        with pytest.raises(ServerError, match="only that user may write"):
            reachable_binaries(closed, nobody, shelf)
    finally:
        shutil.rmtree(shelf, ignore_errors=True)


def test_programs_that_can_be_reached_are_used_where_they_are(binaries: Binaries) -> None:
    user = server_user(binaries)
    if can_reach(user, binaries.program("postgres")):
        assert reachable_binaries(binaries, user) is binaries


def test_a_path_belongs_to_its_deepest_and_topmost_mount() -> None:
    def source(path: str) -> str:
        mount = mount_of(Path(path), MOUNTINFO)
        assert mount is not None
        return f"{mount.file_system} {mount.source}"

    assert source("/nowhere/at/all") == "ext4 /dev/vda"
    assert source("/dev/shm") == "tmpfs tmpfs"


def test_a_mount_point_may_have_a_blank_and_be_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = MOUNTINFO.replace("/mnt/nvme0", str(tmp_path)).replace("/mnt/with", f"{tmp_path}/with")
    (tmp_path / "with blank").mkdir()
    covered = mount_of(tmp_path / "data", lines)
    blank = mount_of(tmp_path / "with blank" / "deep", lines)
    assert covered is not None
    assert (covered.source, covered.is_memory) == ("hidden", True)
    assert blank is not None
    assert blank.source == "/dev/sda1"


def test_free_space_is_asked_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    stat_of = os.statvfs(tmp_path)
    total = stat_of.f_blocks * stat_of.f_frsize
    assert 0 < free_bytes(tmp_path / "not" / "yet" / "there") <= total


def test_a_device_that_the_kernel_does_not_show_is_named_by_its_mount(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    see = Path.stat

    # A container without the rights for /sys.
    def refused(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.is_relative_to("/sys/dev"):
            raise PermissionError(13, "Permission denied", str(path))
        return see(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refused)
    mount = Mount(Path("/"), "ext4", "/dev/nowhere", "254:0", "rw")
    assert device_name(mount) == "/dev/nowhere"
    assert disks_below(mount) == ()
    assert nearest_existing(Path("/sys/dev/block/254:0")) == Path("/sys")
