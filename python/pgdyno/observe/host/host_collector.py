"""What the collectors of a host share: they read its files once a second."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope
from pgdyno.observe.host.files import HERE, HostFiles


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
