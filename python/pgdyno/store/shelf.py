"""Tables of the runs of one experiment, read for many runs at once and in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pgdyno.store import parquet
from pgdyno.store.parquet import Arrays
from pgdyno.store.schema import Table

# Of Parquet; in memory it is some ten times as much, for one table at a time of each name.
_AHEAD_BYTES = 4 << 20


class Shelf:
    """Reads a table for a run and for those after it: whoever analyses goes through them in order.

    Complete runs are never changed, so what was read once stays true.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        """Read nothing yet. Args: folders, of complete runs, in the order they are gone through."""
        self._folders = list(folders)
        self._place = {folder: place for place, folder in enumerate(self._folders)}
        self._chunks: dict[str, dict[Path, Arrays]] = {}

    def arrays(self, folder: Path, table: Table) -> Arrays:
        """Return the columns of a run's table, as `parquet.read_arrays` does."""
        chunk = self._chunks.get(table.name, {})
        if folder not in chunk:
            chunk = self._chunks[table.name] = _read(self._from(folder, table), table)
        return dict(chunk[folder])

    def _from(self, folder: Path, table: Table) -> list[Path]:
        """Return this run's file and those after it, as far as is read at once."""
        found: list[Path] = []
        size = 0
        for other in self._folders[self._place[folder] :]:
            source = other / f"{table.path}.parquet"
            size += source.stat().st_size if source.exists() else 0
            if found and size > _AHEAD_BYTES:
                break
            found.append(source)
        return found


def _read(sources: Sequence[Path], table: Table) -> dict[Path, Arrays]:
    depth = table.path.count("/")
    present = [source for source in sources if source.exists()]
    tables = dict(zip(present, parquet.read_many(present, table), strict=True)) if present else {}
    return {
        source.parents[depth]: tables.get(source) or parquet.read_arrays(source, table)
        for source in sources
    }
