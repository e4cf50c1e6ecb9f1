"""The load of a capture as a program: its templates come with the capture."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pgdyno.features.capture.file import read
from pgdyno.features.capture.model import Capture
from pgdyno.programs.program import Program

MIRROR = "mirror"
PROGRAM = Program(name=MIRROR, protocol="prepared", counts_statements=True)


def capture_at(path: Path) -> Capture:
    """Return the capture in a file, which is read once in each command.

    Raises: SpecError if the file cannot be read, or is not a capture.
    """
    changed_ns = path.stat().st_mtime_ns if path.exists() else 0
    return _read(path, changed_ns)


@cache
def _read(path: Path, _changed_ns: int) -> Capture:
    return read(path, of="-b")
