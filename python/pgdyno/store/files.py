"""Take passwords out of everything that is about to be written into a results folder.

The callers leave secrets out in the first place; this is the second lock on the same door.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError, masked_text

_SECRET_KEYS = frozenset({"password", "passwd", "sslpassword", "pgpassword", "passfile", "secret"})


def without_secrets(value: Any) -> Any:
    """Return a copy of a JSON value without secret keys, and with every string masked."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, Mapping):
        return {
            key: without_secrets(item)
            for key, item in value.items()
            if str(key).lower() not in _SECRET_KEYS
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


FILE_MODE = 0o600
FOLDER_MODE = 0o700


def write_text(path: Path, text: str) -> None:
    """Write a whole file, durable and atomically.

    Raises: StoreError when the disk refuses.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file, as `write_text` does."""
    replacement = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(replacement, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        replacement.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        replacement.unlink(missing_ok=True)
        raise refused(path, error) from error


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document as `write_text` does, its secrets left out."""
    text = json.dumps(without_secrets(document), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def write_compact_json(path: Path, document: Any) -> None:
    """Write a large JSON document without blanks; nothing in it may be secret."""
    write_text(path, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")


def append_line(path: Path, document: Mapping[str, Any]) -> None:
    """Append one JSON line and wait until the disk has it: for decisions and journals.

    A half line that a crash left behind is ended first, so that it cannot spoil this one.
    """
    line = json.dumps(without_secrets(document), ensure_ascii=False, allow_nan=False) + "\n"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = "\n" + line
            write_all(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not size:
            sync_folder(path.parent)
    except OSError as error:
        raise refused(path, error) from error


def read_json(path: Path) -> Any:
    """Return a JSON document; StoreError when it is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise refused(path, error) from error
    except ValueError as error:
        raise StoreError(
            f"{path} is damaged: {error}.", hint="`pgdyno list` shows the intact results"
        ) from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file; a missing file is empty, a torn line is left out."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise refused(path, error) from error
    for line in content.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte, or raise OSError: a full disk may take only part of them first."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make names created in or renamed into this folder survive a loss of power."""
    sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Wait until the disk has this file's content."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refused(path: Path, error: OSError, *, kept: str = "") -> StoreError:
    """Return what the operating system refused about a file of the store, as one error."""
    hints = {
        errno.ENOSPC: "free some space, or name another folder with --store",
        errno.EDQUOT: "free some of the quota, or name another folder with --store",
        errno.EACCES: "name a folder you may write to with --store or PGDYNO_STORE",
        errno.EROFS: "name a folder you may write to with --store or PGDYNO_STORE",
        errno.ENOENT: "the folder may have been removed; `pgdyno list` shows the results",
    }
    message = f"{path}: {error.strerror or error}."
    return StoreError(
        f"{message} {kept}".rstrip(),
        hint=hints.get(error.errno or 0, "check the folder in --store or PGDYNO_STORE"),
    )
