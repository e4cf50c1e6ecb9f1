"""Reads files of a host's /proc and /sys: of this host, or received from another host."""

from __future__ import annotations

import fnmatch
import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope

_PART_BYTES = 1 << 16


class HostFiles(Protocol):
    """Reads a host; paths are absolute, such as /proc/stat."""

    def text(self, path: str) -> str:
        """Return a file's text. Raises: FileNotFoundError, or another OSError."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        ...

    def matching(self, pattern: str) -> list[str]:
        """Return the paths that match, in order; `*` does not match a slash."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of this host; in a test, of the host whose root folder is `root`."""

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """Return a file's text."""
        return read_whole(f"{self.root}{path}").decode(errors="replace")

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        return os.path.exists(f"{self.root}{path}")  # noqa: PTH110 - as `text`

    def matching(self, pattern: str) -> list[str]:
        """Return the paths that match, in order."""
        paths = glob.glob(pattern.lstrip("/"), root_dir=self.root)  # noqa: PTH207 - as `text`
        return sorted(f"/{path}" for path in paths)


HERE = LocalFiles()


@dataclass(slots=True)
class ReceivedFiles:
    """The files that another host sent, by path; a file that was not sent does not exist."""

    by_path: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """Return a file's text."""
        if path not in self.by_path:
            raise FileNotFoundError(path)
        return self.by_path[path]

    def exists(self, path: str) -> bool:
        """Return whether the file was sent, or a file below this folder."""
        return path in self.by_path or any(known.startswith(f"{path}/") for known in self.by_path)

    def matching(self, pattern: str) -> list[str]:
        """Return the paths that match, folders included, in order."""
        depth = pattern.count("/")
        known = {"/".join(path.split("/")[: depth + 1]) for path in self.by_path}
        return sorted(
            path
            for path in known
            if path.count("/") == depth
            and all(map(fnmatch.fnmatchcase, path.split("/"), pattern.split("/")))
        )

    def replace(self, sent: Mapping[str, str], *, keeping: tuple[str, ...]) -> None:
        """Take the files sent now; of earlier files keep only paths that begin with `keeping`."""
        self.by_path = {p: t for p, t in self.by_path.items() if p.startswith(keeping)} | dict(sent)


def read_whole(path: str) -> bytes:
    """Return the bytes of a file in half the time of `Path` and `open`: it is read every second.

    Raises: FileNotFoundError, or another OSError.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, _PART_BYTES):  # A file of /proc may come in parts.
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def text_or_nothing(files: HostFiles, path: str) -> str:
    """Return a file's text; "" if it does not exist or may not be read."""
    try:
        return files.text(path)
    except OSError:
        return ""


class HostCollector(ABC):
    """A `Collector` of the files of a host. A subclass adds name, meaning, columns and `sample`."""

    name: ClassVar[str]
    meaning: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]]
    scope: ClassVar[Scope] = "host"
    interval_ns: ClassVar[int] = SECOND_NS

    def __init__(self, files: HostFiles = HERE) -> None:
        """Args: files, of the host; this one if not given."""
        self._files = files

    @abstractmethod
    def sample(self, now_ns: int) -> list[Row]:
        """Return the rows of this instant, as `Collector.sample` says."""


def on_load_host(kind: type[HostCollector], meaning: str) -> type[HostCollector]:
    """Return the collector that samples a load's host as `kind` samples the host of a server."""
    of_load: dict[str, object] = {
        "__doc__": f"Samples the load's host as {kind.__name__} does.",
        "name": f"load_{kind.name}",
        "scope": "load host",
        "meaning": meaning,
    }
    return type(f"Load{kind.__name__}", (kind,), of_load)
