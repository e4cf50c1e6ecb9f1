"""What was fitted on a copy, in a file of the user, so that the next load does not fit again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, ValidationError

from pgdyno.engine.distribution import CapturePart
from pgdyno.errors import SpecError, StoreError
from pgdyno.features.capture.model import Source
from pgdyno.server.connect import Connection
from pgdyno.store.files import write_bytes
from pgdyno.user_file import read_bytes

_MAX_BYTES = 16 << 20
# The tables by their numbers: a copy that is made again has other ones.
_COPY = (
    "SELECT pg_catalog.current_database(), pg_catalog.array_agg(t.oid ORDER BY t.oid)::text"
    " FROM (SELECT pg_catalog.to_regclass(name)::oid AS oid"
    " FROM pg_catalog.unnest(%s::text[]) AS name) AS t"
)


class Fits(CapturePart):
    """What was fitted: new sources by statement and place, and all statements that were tried."""

    sources: dict[str, dict[int, Source]] = Field(default_factory=dict)
    tried: tuple[str, ...] = ()


def file_of_fits(
    connection: Connection, capture: Path, tables: Iterable[str], *, place: str
) -> Path:
    """Return the file for one capture on one copy.

    Args: place, the server; tables, of the capture. Raises: psycopg.Error.
    """
    row = connection.execute(_COPY, [sorted(tables)]).fetchone()
    content = hashlib.sha256(capture.read_bytes()).hexdigest()
    key = json.dumps([place, content, [str(cell) for cell in row or ()]])
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    return state / "pgdyno" / "fitted" / f"{name}.json"


def read_fits(path: Path) -> Fits:
    """Return what is kept; nothing if the file is missing, another user's, or cannot be read."""
    try:
        status = path.lstat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return Fits()  # Others could choose which values the load sends.
        return Fits.model_validate_json(read_bytes(path, max_bytes=_MAX_BYTES))
    except (OSError, SpecError, ValidationError):
        return Fits()


def keep_fits(path: Path, fits: Fits) -> None:
    """Write what was fitted. A file that cannot be written costs the next load a fit."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(path, fits.model_dump_json(by_alias=True).encode())
    except (OSError, StoreError):
        return
