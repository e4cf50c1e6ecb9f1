"""The workers that a running command has started on this host."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.command import RunningCommand


def workers_of(running: RunningCommand) -> list[int]:
    """Return the pids of the workers: forks of the Python in the shell that the lab started."""
    below = [pid for shell in children(running.process.pid) for pid in children(shell)]
    parents = [pid for pid in below if b"exec(start" in _command(pid)]
    return sorted(pid for parent in parents for pid in children(parent))


def folder_of(worker: int) -> Path:
    """Return the folder of a worker on its host."""
    words = Path(f"/proc/{worker}/environ").read_bytes().decode().split("\0")
    return Path(dict(word.split("=", 1) for word in words if word)["PGDYNO_FOLDER"])


def children(parent: int) -> list[int]:
    """Return the pids of the children of a process."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if (fields := _fields(pid)) and fields[1] == str(parent)]


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    return bool(fields := _fields(pid)) and fields[0] not in "ZX"


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
