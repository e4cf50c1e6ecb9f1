"""Small files written so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.store.secrets import without_secrets

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
            f"{path} is damaged: {error}.", hint="`pgdyno list` shows the results that are whole"
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
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


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
        errno.ENOENT: "was the folder removed meanwhile? `pgdyno list` shows what exists",
    }
    message = f"{path}: {error.strerror or error}."
    return StoreError(
        f"{message} {kept}".rstrip(),
        hint=hints.get(error.errno or 0, "check the folder given with --store or PGDYNO_STORE"),
    )
