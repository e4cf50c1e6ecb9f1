"""What one kind of dataset adds to `pgdyno init`: a file, options, a comparison at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pgdyno.cli import wanted
from pgdyno.feature import FeatureTable

if wanted.body(__name__):
    from pgdyno.measure.loading import Loading
    from pgdyno.server.connect import Connection
    from pgdyno.server.target import Target


class ComparedCopy(Protocol):
    """How alike the loaded tables are to those of which they are a copy."""

    def as_document(self) -> dict[str, Any]:
        """Return everything that was compared, for a document in JSON."""


@dataclass(frozen=True, slots=True)
class InitKind:
    """What `init FILE` does for a kind of dataset that is made from a file.

    `help`: the text of --help. `is_file`: whether an argument names such a file. `options`: the
    decorators of its options. `refuse_unfit`: raises RefusedError, before anything is made, if the
    server lacks what the dataset needs. `finished`: marks and compares what was made. `text`: a
    likeness in lines.
    """

    help: str
    is_file: Callable[[str], bool]
    options: Callable[[], list[Callable[[Any], Any]]]
    refuse_unfit: Callable[[Target, Any, Loading], None]
    finished: Callable[[Connection, Any, Loading], ComparedCopy]
    text: Callable[[Any], str]


INIT_KINDS: FeatureTable[InitKind] = FeatureTable("init_kinds", {})
