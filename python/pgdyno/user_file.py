"""Reads files that the user names. Every such file is read here.

Devices, pipes, sockets and folders are refused by kind: reading them may never end. The size is
bounded, because a wrong file may not fit in memory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pgdyno.errors import SpecError
from pgdyno.quantities import format_bytes

# Larger than any script, spec or configuration file: 10,000 pages of text.
TEXT_MAX_BYTES = 32 << 20
# A log or recorded samples of months; they are read line by line.
LINES_MAX_BYTES = 64 << 30
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def read_text(path: Path, *, of: str = "") -> str:
    """Return a file's text: UTF-8, with line ends of this system.

    Args: of, the option that named the file, for the message.
    Raises: SpecError with the reason if the file cannot be read.
    """
    with _opened(path, of, TEXT_MAX_BYTES) as stream:
        # A file may grow while it is read.
        read = stream.read(TEXT_MAX_BYTES)
    try:
        # Editors on Windows begin a file with a byte order mark.
        return read.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        lines = read[: error.start].decode("utf-8").split("\n")
        encoding = "UTF-16" if read.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
        script_rule = ": the server converts to its encoding" if path.suffix == ".sql" else ""
        raise SpecError(
            f"{path}, line {len(lines)}, column {len(lines[-1]) + 1}:"
            f" byte 0x{read[error.start]:02x} is not UTF-8.",
            hint=f"iconv -f {encoding} -t UTF-8 {path} > COPY, and use the copy{script_rule}",
        ) from None


def require_utf8(name: str, *, of: str) -> None:
    """Raise SpecError if a name has a byte that is not UTF-8, such as "a\\udcff.sql".

    Results are written in UTF-8. The name is not shown: it may have a password.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:
        byte = name[error.start].encode("utf-8", "surrogateescape")
        raise SpecError(
            f"{of} has the byte 0x{byte.hex()}, which is not UTF-8.",
            hint="rename it: pgdyno writes names into its results in UTF-8",
        ) from None


def read_bytes(path: Path, *, of: str = "", max_bytes: int) -> bytes:
    """Return the bytes of a file. Raises: SpecError with the reason if it cannot be read."""
    with _opened(path, of, max_bytes) as stream:
        return stream.read(max_bytes)


def require_long_file(path: Path, *, of: str) -> None:
    """Raise SpecError with the reason if a long file, such as a log, cannot be read."""
    with _opened(path, of, LINES_MAX_BYTES):
        pass


def require_file(path: Path, *, of: str = "") -> None:
    """Raise SpecError if another program, such as libpq, would read a file that never ends."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # That program has the better message for a missing file.
    _require_regular(path, of, mode)


@contextmanager
def _opened(path: Path, of: str, max_bytes: int) -> Iterator[IO[bytes]]:
    try:
        # O_NONBLOCK: opening a pipe without a writer would wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, of, error) from None
    try:
        status = os.fstat(descriptor)
        _require_regular(path, of, status.st_mode)
        if status.st_size > max_bytes:
            raise SpecError(
                f"{_named(path, of)} has {format_bytes(status.st_size)}; pgdyno reads at most "
                f"{format_bytes(max_bytes)}.",
                hint="check the path",
            )
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    except OSError as error:
        raise _unreadable(path, of, error) from None
    finally:
        os.close(descriptor)


def _require_regular(path: Path, of: str, mode: int) -> None:
    is_of_kernel = path.resolve().is_relative_to("/proc") or path.resolve().is_relative_to("/sys")
    if _is_the_null_device(path) or (stat.S_ISREG(mode) and not is_of_kernel):
        return
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "made by the kernel")
    raise SpecError(
        f"{_named(path, of)} is {kind}, not a file.",
        hint="name a file" if kind == "a folder" else "write the text to a file, and name the file",
    )


def _is_the_null_device(path: Path) -> bool:
    """Return whether this is /dev/null, which users name for an empty file."""
    try:
        return path.samefile(os.devnull)
    except OSError:
        return False


def _unreadable(path: Path, of: str, error: OSError) -> SpecError:
    return SpecError(f"{_named(path, of)} cannot be read: {error.strerror}.", hint="check the path")


def _named(path: Path, of: str) -> str:
    return f"{of} {path}".lstrip()
