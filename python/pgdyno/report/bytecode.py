"""Compiled templates next to the templates: `python -m pgdyno.report.bytecode`, part of a build.

Compiling them for each page takes a twentieth of a second.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache

FOLDER = Path(__file__).parent / "templates/__pycache__"


class TemplateBytecode(BytecodeCache):
    """Reads what was compiled; jinja2 compiles anew what is of another text or another Python."""

    def __init__(self, *, is_building: bool = False) -> None:
        """Take the folder as it is. Args: is_building, keep what had to be compiled."""
        self._is_building = is_building

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket with what a build compiled, if there was one and it is still right."""
        # What was cut off is like what is not there.
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            bucket.bytecode_from_string(_file(bucket).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled, whole or not at all: others may be reading."""
        if self._is_building:
            FOLDER.mkdir(exist_ok=True)
            partial = _file(bucket).with_suffix(".partial")
            partial.write_bytes(bucket.bytecode_to_string())
            partial.replace(_file(bucket))


def compile_templates() -> None:
    """Compile every template that is not yet, or not as it is now."""
    from pgdyno.report.html import page_environment

    environment = page_environment()
    environment.bytecode_cache = TemplateBytecode(is_building=True)
    for name in environment.list_templates(extensions=["j2"]):
        environment.get_template(name)


def _file(bucket: Bucket) -> Path:
    return FOLDER / f"{bucket.key}.{sys.implementation.cache_tag}.template"


if __name__ == "__main__":
    compile_templates()
