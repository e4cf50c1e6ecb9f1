"""The tables of a capture as a kind of dataset: a copy of a user's database, made from a file."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.server.dataset.kind import DatasetKind, Number
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import CaptureDataset, CaptureLoading, Dataset

# Every command has the kinds of datasets; only those that use a capture load what reads it.
if TYPE_CHECKING:
    from pgdyno.features.capture.model import Capture
    from pgdyno.features.capture.rebuild import Rebuilt
    from pgdyno.server.connect import Connection


class Captured(DatasetKind):
    """The tables of a capture. The mark says which capture, and how many rows its tables have."""

    name = "capture"
    options = CaptureDataset
    loading = CaptureLoading
    size_option = "fraction"
    is_found_by_mark = True

    def __init__(self, tables: tuple[str, ...] = ()) -> None:
        """Without tables: whichever capture the database has."""
        self.tables = tables

    def bound(self, dataset: Dataset) -> DatasetKind:
        """Return the kind with the tables of the file."""
        # A partition that the server refused is left out.
        shapes = rebuilt_of(dataset).capture.tables
        return Captured(tuple(shape.name for shape in shapes if not shape.partition_of))

    def size_words(self, size: int | None) -> str:
        """Return "120,000 rows of a capture"."""
        return f"{size or 0:,} rows of a capture"

    def size_of(self, dataset: Dataset) -> int:
        """Return the number of rows."""
        return rebuilt_of(dataset).rows

    def read_size(self, number: Number) -> int | None:
        """Return None: the mark has the number of rows."""
        del number
        return None

    def lacks(self, connection: Connection) -> str:
        """Return how many objects of the capture the copy lacks or has in another form."""
        from pgdyno.features.capture.left_out import left_out_words

        return left_out_words(connection)

    def why_partial(self, number: Number, size: int | None) -> str:
        """Return nothing: while a load is not finished, its journal exists."""
        del number, size
        return ""

    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of tables and indexes, in proportion to the original."""
        return rebuilt_of(dataset).bytes

    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the size of the largest index of the original."""
        rebuilt = rebuilt_of(dataset)
        sizes = [index.bytes for index in rebuilt.capture.indexes]
        return round(max(sizes, default=0) * min(1.0, rebuilt.fraction))

    def row_bytes(self, dataset: Dataset) -> float:
        """Return the mean over the rows of all tables."""
        rebuilt = rebuilt_of(dataset)
        return rebuilt.bytes / max(1, rebuilt.rows)

    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the schema and the distributions."""
        del loading, jobs
        return rebuilt_of(dataset).as_engine(seed=1)

    def mark_options(self, dataset: Dataset, loading: Spec | None) -> dict[str, str]:
        """Return what identifies the capture, and the number of rows."""
        del loading
        rebuilt = rebuilt_of(dataset)
        return {
            "digest": digest_of(rebuilt.capture),
            "fraction": f"{rebuilt.fraction:g}",
            "rows": str(rebuilt.rows),
        }


def digest_of(capture: Capture) -> str:
    """Return what tells captures apart: the mark on the tables of a copy has it."""
    from pgdyno.features.capture.file import encoded

    return sha256(encoded(capture)).hexdigest()[:12]


def qualified_at(path: Path) -> Capture:
    """Return the capture of a file as its tables are made, with qualified names.

    Raises: SpecError if the file cannot be read, or has more than the objects of a capture.
    """
    return _rebuilt(path, path.stat().st_mtime_ns if path.is_file() else 0, 1.0).capture


def rebuilt_of(dataset: Dataset) -> Rebuilt:
    """Return the copy that a dataset of the kind `capture` describes.

    Raises: SpecError if the file cannot be read.
    """
    assert isinstance(dataset, CaptureDataset), f"{dataset.kind} tables are not those of a capture"
    path = Path(dataset.file)
    changed_ns = path.stat().st_mtime_ns if path.is_file() else 0
    return _rebuilt(path, changed_ns, dataset.fraction)


@lru_cache(maxsize=8)
def _rebuilt(path: Path, changed_ns: int, fraction: float) -> Rebuilt:
    from pgdyno.features.capture.file import read
    from pgdyno.features.capture.rebuild import Rebuilt
    from pgdyno.features.capture.safety import qualified

    del changed_ns  # A file that changed is another capture.
    return Rebuilt(qualified(read(path), file=str(path)), fraction)


CAPTURED = Captured()
