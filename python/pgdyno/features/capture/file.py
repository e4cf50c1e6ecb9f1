"""The file of a capture: JSON lines under zstd, which any zstd program can read.

The file begins with a frame that decompressors skip: one line for people. The first JSON line is
the header; each other line is one item with its `part`; the last line counts them, so a cut file
is noticed. Each frame has a checksum.
"""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from pgdyno.errors import SpecError
from pgdyno.features.capture.model import FORMAT, Capture, givers_of, referred_by
from pgdyno.features.capture.sent import with_harmless_load
from pgdyno.quantities import format_bytes
from pgdyno.user_file import read_bytes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# In the name of every file that has values of rows: core.with-values.capture.
KEPT_SUFFIX = ".with-values"
FILE_MAX_BYTES = 256 << 20
TEXT_MAX_BYTES = 2 << 30
LINE_MAX_BYTES = 64 << 20
_SKIPPABLE = 0x184D2A50
# Every capture begins with these bytes.
FIRST_BYTES = struct.pack("<I", _SKIPPABLE)
_FIRST_LINES = {
    False: "pgdyno capture: no values of rows. `pgdyno capture show FILE` lists the contents.",
    True: "pgdyno capture WITH VALUES OF ROWS. `pgdyno capture show FILE` lists the contents.",
}
_FAMILY, _, _VERSION = FORMAT.rpartition("/")
# Parts of a capture that are lists have a line for each item.
_ITEMS = {
    name: TypeAdapter[Any](get_args(field.annotation)[0])
    for name, field in Capture.model_fields.items()
    if str(field.annotation).startswith("tuple[")
}
_WHOLE = {
    name: TypeAdapter[Any](field.annotation or Any)
    for name, field in Capture.model_fields.items()
    if name not in _ITEMS
}


def encoded(capture: Capture) -> bytes:
    """Return the bytes of the file of a capture."""
    parameters = zstd.CompressionParameter
    options = {int(parameters.compression_level): 10, int(parameters.checksum_flag): 1}
    note = _FIRST_LINES[capture.header.keeps_values].encode() + b"\n"
    lines = b"".join(_lines(capture))
    return struct.pack("<II", _SKIPPABLE, len(note)) + note + zstd.compress(lines, options=options)


def read(path: Path, *, of: str = "") -> Capture:
    """Return the capture in a file, without statements of its load that could do harm.

    Args: of, the option that named the file, for the message.
    Raises: SpecError if the file is not a capture, is damaged, or needs a newer pgdyno.
    """
    content = read_bytes(path, of=of, max_bytes=FILE_MAX_BYTES)
    try:
        return with_harmless_load(_assembled(_documents(content, path), path))
    except RecursionError:
        raise damaged(path, "a part has too many parts inside of each other") from None
    except (zstd.ZstdError, EOFError):
        raise damaged(path, "it cannot be decompressed") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise damaged(path, f"{error.title} {where}: {first['msg']}") from None


def capture_at(path: Path) -> Capture:
    """Return the capture of a load, which is read once in each command.

    Raises: SpecError if the file cannot be read, or is not a capture.
    """
    changed_ns = path.stat().st_mtime_ns if path.exists() else 0
    return _read_once(path, changed_ns)


@cache
def _read_once(path: Path, _changed_ns: int) -> Capture:
    return read(path, of="-b")


def damaged(path: Path, why: str) -> SpecError:
    """Return the error for a file that is not a whole capture."""
    return SpecError(
        f"{path} is not a whole capture: {why}.",
        hint="copy the file again, or make a new one with `pgdyno capture`",
    )


def _lines(capture: Capture) -> Iterator[bytes]:
    count = 0
    for name in Capture.model_fields:
        value = getattr(capture, name)
        items = value if name in _ITEMS else (value,) if value is not None else ()
        for item in items:
            count += 1
            is_text = name in ("notes", "kept") or name == "settings"
            body = item if is_text else item.model_dump(mode="json")
            row = {"part": name, "value": body} if is_text else {"part": name, **body}
            yield json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    yield json.dumps({"part": "end", "lines": count}).encode() + b"\n"


def _documents(content: bytes, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a whole file; check the format first, and that none is missing."""
    count, is_ended = 0, False
    for line in _decompressed(content, path):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise damaged(path, f"line {count + 1} is not JSON, or is too deep") from None
        if not isinstance(document, dict) or not isinstance(document.get("part"), str):
            raise damaged(path, f"line {count + 1} is not a part of a capture")
        if count == 0:
            _require_format(document, path)
        if document["part"] == "end":
            is_ended = document.get("lines") == count
            continue
        count += 1
        yield document
    if not is_ended:
        raise damaged(path, "lines at its end are missing")


def _decompressed(content: bytes, path: Path) -> Iterator[bytes]:
    size_bytes = 0
    with zstd.ZstdFile(io.BytesIO(content)) as stream:
        while line := stream.readline(LINE_MAX_BYTES + 1):
            size_bytes += len(line)
            if len(line) > LINE_MAX_BYTES:
                raise damaged(path, f"a line has more than {format_bytes(LINE_MAX_BYTES)}")
            if size_bytes > TEXT_MAX_BYTES:
                limit = format_bytes(TEXT_MAX_BYTES)
                raise damaged(path, f"it has more than {limit} of text")
            yield line


def _require_format(header: dict[str, Any], path: Path) -> None:
    family, _, version = str(header.get("format", "")).rpartition("/")
    if header["part"] != "header" or family != _FAMILY or not version.isdecimal():
        raise damaged(path, "the first line does not name the format")
    if int(version) > int(_VERSION):
        raise SpecError(
            f"{path} has format {family}/{version}; this pgdyno reads up to {FORMAT}.",
            hint="use a newer pgdyno, or make the capture again with this one",
        )


def _assembled(documents: Iterator[dict[str, Any]], path: Path) -> Capture:
    """Return the capture of the lines; parts that a later version adds are ignored."""
    items: dict[str, list[Any]] = {name: [] for name in _ITEMS}
    whole: dict[str, Any] = {}
    for document in documents:
        name = document.pop("part")
        body = document.get("value", document)
        if name in _ITEMS:
            items[name].append(_ITEMS[name].validate_python(body))
        elif name in _WHOLE:
            whole[name] = _WHOLE[name].validate_python(body)
    capture = Capture(**whole, **{name: tuple(parts) for name, parts in items.items()})
    if (missing := next(_missing(capture), None)) is not None:
        raise damaged(path, missing)
    return capture


def _missing(capture: Capture) -> Iterator[str]:
    """Yield what the transactions use and the file does not have."""
    known = {statement.id for statement in capture.statements}
    for template in capture.templates:
        for step in template.steps:
            taken = {own.statement for source in step.parameters for own in givers_of(source)}
            if not {step.statement, *taken} <= known:
                yield f"{template.name} has a statement that is not in the file"
            if any(not 0 <= number < len(template.steps) for number, _ in referred_by(step)):
                yield f"{template.name} uses a value of a step that it does not have"
