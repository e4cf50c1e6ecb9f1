"""Scripts and SQL by name: a built-in, or a file with its text."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import SpecError
from pgdyno.spec.workload import BUILTINS, Script


def script_named(text: str) -> Script:
    """Return `tpcb-like`, `orders.sql` or either with a weight: `orders.sql@3`.

    Raises: SpecError if it is neither a built-in nor a file that can be read.
    """
    name, at, weight = text.rpartition("@")
    if not at or not weight.isdigit():
        name, weight = text, "1"
    if name in BUILTINS:
        return Script(builtin=name, weight=int(weight))
    path = Path(name)
    if not path.exists():
        raise SpecError(
            f"There is no script {name!r}: no built-in has that name, and no file.",
            hint=f"a file, or one of {', '.join(BUILTINS)}",
        )
    return Script(file=path.absolute(), text=read_text(path), weight=int(weight))


def read_text(path: Path) -> str:
    """Return a file's text. Raises: SpecError saying why it cannot be read."""
    try:
        read = path.read_bytes()
    except OSError as error:
        raise SpecError(
            f"{path} cannot be read: {error.strerror}.", hint="check the path"
        ) from None
    try:
        return read.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        lines = read[: error.start].decode("utf-8").split("\n")
        raise SpecError(
            f"{path}, line {len(lines)}, column {len(lines[-1]) + 1}:"
            f" byte 0x{read[error.start]:02x} is not UTF-8.",
            hint=f"iconv -f LATIN1 -t UTF-8 {path} > COPY, and give the copy: the server converts"
            f" to its own encoding",
        ) from None
