"""Rules for every text file: length of files and lines, and leftovers that are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import Source

FILE_LINES_MAX = 600
LINE_COLUMNS_MAX = 100
BLOB_BYTES_MAX = 256 * 1024
# Vendored assets, by name: everything else of this size does not belong into a repository.
LARGE_FILES = {"python/pgdyno/report/vendor/echarts.common.min.js"}
# Templates are prose, and style sheets have one rule a line: only their length is held.
WRAPPED = (".py", ".rs", ".sql", ".sh")
CODE = (".py", ".rs", ".sql", ".sh", ".css", ".js", ".html", ".j2")
QUOTED = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?$)')
LEFT_BEHIND = re.compile(
    r"\b(?:FIX" + r"ME|XX" + r"X)\b|\bTO" + r"DO\b(?!\s*\(#\d+\))|\bdbg!" + r"|\bbreak" + r"point\("
)


def file_length(source: Source) -> Iterator[str]:
    """A file of code has at most 600 lines; generated ones say so on line 1."""
    if source.path.endswith(CODE) and not source.is_generated:
        count = len(source.lines)
        if count > FILE_LINES_MAX:
            yield source.problem(count, f"{count} lines, at most {FILE_LINES_MAX}")


def line_length(source: Source) -> Iterator[str]:
    """A line of code has at most 100 columns, unless it is one word or an address."""
    is_script = source.path.startswith("scripts/")
    if not (source.path.endswith(WRAPPED) or is_script) or source.is_generated:
        return
    is_rust_test = source.is_rust and "/tests/" in source.path
    for number, line in enumerate(source.lines, 1):
        # Cases are one row each: what stands in quotes is not counted in tests.
        counted = QUOTED.sub('""', line) if is_rust_test else line
        can_be_broken = " " in line.strip() and "://" not in line
        if len(counted) > LINE_COLUMNS_MAX and can_be_broken:
            yield source.problem(number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}")


def prose_length(source: Source) -> Iterator[str]:
    """A line of prose in a document has at most 100 columns; code and tables may be longer."""
    if not source.path.endswith(".md") or source.is_generated:
        return
    # The examples are written by the program from results.
    if source.path.startswith("docs/examples/"):
        return
    is_code = False
    for number, line in enumerate(source.lines, 1):
        is_code ^= line.lstrip().startswith("```")
        can_be_broken = " " in line.strip() and not line.startswith(("|", "#", "![", "    "))
        if len(line) > LINE_COLUMNS_MAX and can_be_broken and not is_code:
            yield source.problem(number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}")


def left_behind(source: Source) -> Iterator[str]:
    """A note on open work has the number of its issue; nothing prints for debugging."""
    if not source.path.endswith((".md", ".toml")):
        for number, line in enumerate(source.lines, 1):
            if match := LEFT_BEHIND.search(line):
                yield source.problem(number, f"{match[0]} does not belong here")


def large_blobs(root: Path, paths: list[str]) -> Iterator[str]:
    """No file under version control is above 256 KiB, vendored assets excepted by name."""
    for path in paths:
        size_bytes = (root / path).stat().st_size
        if size_bytes > BLOB_BYTES_MAX and path not in LARGE_FILES:
            yield f"{path}: {size_bytes} bytes, at most {BLOB_BYTES_MAX}"
