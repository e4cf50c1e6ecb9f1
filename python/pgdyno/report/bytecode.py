"""Stores compiled templates next to the templates: `python -m pgdyno.report.bytecode` in a build.

Compiling the templates for each page would take a twentieth of a second.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache

FOLDER = Path(__file__).parent / "templates/__pycache__"


class TemplateBytecode(BytecodeCache):
    """Reads compiled templates. If the text or Python's version differs, jinja2 compiles again."""

    def __init__(self, *, is_building: bool = False) -> None:
        """Keep the folder. Args: is_building, whether newly compiled templates are stored."""
        self._is_building = is_building

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket with the compiled template of the build if there is a current one."""
        # A truncated file is treated as missing.
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            bucket.bytecode_from_string(_file(bucket).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store the compiled template atomically, because other processes may read it."""
        if self._is_building:
            FOLDER.mkdir(exist_ok=True)
            partial = _file(bucket).with_suffix(".partial")
            partial.write_bytes(bucket.bytecode_to_string())
            partial.replace(_file(bucket))


def compile_templates() -> None:
    """Compile every template whose compiled form is missing or old."""
    from pgdyno.report.html import page_environment

    environment = page_environment()
    environment.bytecode_cache = TemplateBytecode(is_building=True)
    for name in environment.list_templates(extensions=["j2"]):
        environment.get_template(name)


def _file(bucket: Bucket) -> Path:
    return FOLDER / f"{bucket.key}.{sys.implementation.cache_tag}.template"


if __name__ == "__main__":
    compile_templates()
