"""Reads and writes the files of the store: whole files, JSON documents and JSON lines.

Everything is written without secrets. Only a page and what is not a text is written as given.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pgdyno.errors import StoreError
from pgdyno.redaction import may_have_secrets, redacted_output, without_secrets

# Of every folder and document of the store.
FORMAT_VERSION = 1
FILE_MODE = 0o600
Form = Literal["csv", "json", "parquet"]
FORMS: tuple[Form, ...] = ("csv", "json", "parquet")
# The end of the name of the folder of a run that did not end.
PARTIAL_SUFFIX = ".partial"
# The end of the name of a file that is not complete yet.
_UNFINISHED = ".new"
FOLDER_MODE = 0o700
# The answers of a mounted object store that has no locks, or one mode for all files.
_NOT_A_FILE = "it is a pipe, a device or a socket, not a file"
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK})


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically by a text without secrets, and return when it is on the disk.

    Raises: StoreError if the operating system refuses the file.
    """
    write_bytes(path, redacted_output(text).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file, as `write_text` does."""
    replacement = path.with_name(f".{path.name}{_UNFINISHED}")
    try:
        # An object store may refuse to empty the file of an interrupted write.
        replacement.unlink(missing_ok=True)
        # A link that somebody makes meanwhile is not followed.
        descriptor = os.open(replacement, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
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


def append_text(path: Path, text: str) -> None:
    """Append a text without secrets to a file whose last line may be lost in a power failure."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        write_all(descriptor, redacted_output(text).encode())
    finally:
        os.close(descriptor)


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document without its secrets, as `write_text` does."""
    text = json.dumps(without_secrets(document), indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def write_compact_json(path: Path, document: Any) -> None:
    """Write a large JSON document without blanks and secrets, as `write_text` does."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    if may_have_secrets(text):
        clean = without_secrets(document)
        text = json.dumps(clean, allow_nan=False, separators=(",", ":")).encode()
    write_bytes(path, text + b"\n")


def append_line(path: Path, document: Mapping[str, Any]) -> None:
    """Append one JSON line without secrets, and return when it is on the disk.

    If a crash left half a line at the end, the new line begins after a line break. Another name of
    the file, in a copy of the store or elsewhere, keeps the content that it had.
    Raises: StoreError if the operating system refuses the file.
    """
    line = json.dumps(without_secrets(document), ensure_ascii=False, allow_nan=False) + "\n"
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = os.open(path, flags, FILE_MODE)
        try:
            seen = os.fstat(descriptor)
            size = seen.st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = "\n" + line
            if seen.st_nlink > 1:
                return write_bytes(path, path.read_bytes() + line.encode())
            write_all(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not size:
            sync_folder(path.parent)
    except OSError as error:
        raise refused(path, error) from error
    return None


class PrivateLines:
    """A new file of lines that only its owner can read. It is written as given, with its values."""

    def __init__(self, path: Path) -> None:
        """Create the file, which must not exist.

        Raises: StoreError if the operating system refuses the file.
        """
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._stream = os.fdopen(os.open(path, flags, FILE_MODE), "wb", buffering=1 << 20)
        except OSError as error:
            raise refused(path, error) from error

    def write(self, line: str) -> None:
        """Append a line. Raises: StoreError if the disk refuses it."""
        try:
            self._stream.write(line.encode() + b"\n")
        except OSError as error:
            raise refused(self._path, error) from error

    def discard(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file when it is on the disk. Raises: StoreError if the disk refuses it."""
        try:
            with self._stream:
                self._stream.flush()
                os.fsync(self._stream.fileno())
        except OSError as error:
            raise refused(self._path, error) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. A pipe or a device, which may never end, is an OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, _NOT_A_FILE)
        return stream.read()


def refuse_strange_files(folder: Path) -> None:
    """Raise StoreError if a folder has more than files and folders.

    Reading a pipe or a device may never end. A symbolic link may lead to a file of somebody else.
    """
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            try:
                mode = path.lstat().st_mode
            except OSError:
                continue  # A run that is being written renames its files.
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                continue
            if stat.S_ISLNK(mode):
                if path.resolve().is_relative_to(folder.resolve()):
                    continue
                what = "is a symbolic link that leads out of the result"
            else:
                what = "is no file"
            raise StoreError(
                f"{path} {what}, so the result is not as pgdyno wrote it.",
                hint="ask where the result comes from, or remove this entry",
            )


def read_json(path: Path) -> Any:
    """Return a JSON document. Raises: StoreError if the file is missing or damaged."""
    try:
        return json.loads(read_bytes(path))
    except OSError as error:
        raise refused(path, error) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} is damaged: {error}.", hint="`pgdyno list` shows the intact results"
        ) from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file, without half lines; nothing if the file is missing.

    Raises: StoreError if the file cannot be read.
    """
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise refused(path, error) from error
    for line in content.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def is_unfinished(path: Path) -> bool:
    """Return whether this is the file of a write that did not end."""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock in the block; other processes wait for it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Wait for the lock of an open file or folder; do nothing if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def give_mode(path: Path, mode: int) -> None:
    """Change the mode of our own file; do nothing if the mount decides about modes."""
    try:
        path.chmod(mode)
    except OSError as error:
        if error.errno not in {*_UNSUPPORTED, errno.EPERM}:
            raise


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte. An almost full disk takes a part first, and then raises OSError."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of the files in this folder, if it can be asked."""
    try:
        sync(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Wait until the disk has this file's content."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refused(path: Path, error: OSError, *, kept: str = "") -> StoreError:
    """Return the error for a file that the operating system refused, with a hint for the user.

    Args: kept, a sentence about what was kept before, "" for none.
    """
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
