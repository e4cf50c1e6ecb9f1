"""Where files are: mount point, file system, device, free space; most of it only on Linux."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from pgdyno.process.child import run

MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
# File systems that show an object store, and cannot write within a file.
_OBJECT_STORES = frozenset(
    f"fuse.{name}" for name in ("s3fs", "gcsfuse", "goofys", "rclone", "blobfuse", "blobfuse2")
)


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    mount_point: Path
    file_system: str
    source: str
    device_number: str
    options: str

    @property
    def is_memory(self) -> bool:
        """True if files there are only in memory, never on a disk."""
        return self.file_system in MEMORY_FILE_SYSTEMS

    @property
    def is_object_store(self) -> bool:
        """True if files there are objects, which no server can work with."""
        return self.file_system in _OBJECT_STORES


def mount_of(path: Path, mountinfo: str | None = None) -> Mount | None:
    """Return the mount of `path`, or of its nearest existing parent; None if unknown.

    Args: mountinfo, the text of /proc/self/mountinfo (None: read it).
    """
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return None
    return mount_in(mountinfo, nearest_existing(path).resolve())


def mount_in(mountinfo: str, place: PurePath) -> Mount | None:
    """Return the mount of a path without links from a host's mountinfo; None if there is none."""
    best: Mount | None = None
    # Names of mounts are of users, and may have any other line end of Unicode.
    for line in mountinfo.split("\n"):
        mount = _parse(line)
        if mount is None or not place.is_relative_to(mount.mount_point):
            continue
        # Subtle: of two mounts on one point, the later line is visible.
        if best is None or len(mount.mount_point.parts) >= len(best.mount_point.parts):
            best = mount
    return best


def device_name(mount: Mount) -> str:
    """Return the block device's kernel name ("nvme0n1p1"), or the mount's source if it has none."""
    block = Path("/sys/dev/block") / mount.device_number
    return block.resolve().name if is_there(block) else mount.source


def disks_below(mount: Mount) -> tuple[str, ...]:
    """Return the kernel's names of the whole disks below a mount, through partitions and layers.

    Empty if the kernel does not show them: memory, a network, a pool of ZFS.
    """
    folders = [Path("/sys/dev/block") / mount.device_number]
    if mount.source.startswith("/dev/"):
        # The number of a file system of many disks, such as btrfs, names no device.
        folders.append(Path("/sys/class/block") / Path(mount.source).name)
    folder = next((folder for folder in folders if is_there(folder)), None)
    return tuple(dict.fromkeys(_disks(folder.resolve()))) if folder is not None else ()


def _disks(folder: Path) -> Iterator[str]:
    """Yield the disks below a device's folder in /sys, each at least once."""
    if is_there(folder / "partition"):
        folder = folder.parent
    members = sorted((folder / "slaves").glob("*"))
    for member in members:
        yield from _disks(member.resolve())
    if not members:
        yield folder.name.replace("!", "/")


def free_bytes(path: Path) -> int:
    """Return how many bytes an ordinary user can still write on the file system of `path`."""
    stat = os.statvfs(nearest_existing(path))
    return stat.f_bavail * stat.f_frsize


def is_there(path: Path) -> bool:
    """Return whether a file can be seen. In a container, the kernel may refuse to answer."""
    try:
        return path.exists()
    except OSError:
        return False


def nearest_existing(path: Path) -> Path:
    """Return `path`, or the closest parent of it that exists."""
    path = path.absolute()
    while not is_there(path) and path != path.parent:
        path = path.parent
    return path


def _parse(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    fields, tail = before.split(" "), after.split(" ")
    if not separator or len(fields) < 6 or len(tail) < 2:
        return None
    return Mount(
        mount_point=Path(unescaped(fields[4])),
        file_system=tail[0],
        source=unescaped(tail[1]),
        device_number=fields[2],
        # Options of the mount and of the file system, such as "rw,noatime" and "rw,barrier=0".
        options=",".join(dict.fromkeys(",".join([fields[5], *tail[2:3]]).split(","))),
    )


def unescaped(text: str) -> str:
    """Undo the kernel's octal escapes for blank, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mounts_below(folder: Path) -> list[Path]:
    """Return the mount points at `folder` and below it, the last mounted first."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").split("\n")
    except OSError:
        return []
    points = [mount.mount_point for line in lines if (mount := _parse(line)) is not None]
    place = folder.parent.resolve() / folder.name  # A dead mount cannot be resolved itself.
    return [point for point in reversed(points) if point.is_relative_to(place)]


def unmount(folder: Path) -> bool:
    """Unmount everything at `folder` and below, even if it is in use; True if nothing is left."""
    for point in mounts_below(folder):
        run(["umount", "--lazy", point], timeout_s=30)
    return not mounts_below(folder)
