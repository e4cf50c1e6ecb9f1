"""Whether a line or a file of a store was written by this user on this host.

A store can be copied, unpacked or shared, so its files may be somebody else's. The key is therefore
not in the store, but in the user's state folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from pgdyno.store import files

_KEY_BYTES = 32


def seal_of(content: bytes) -> str:
    """Return the seal of a content; "" if no key can be kept, so that nothing counts as ours."""
    key = _key(_key_path())
    if key is None:
        return ""
    host = socket.gethostname().encode()
    return hmac.new(key, host + b"\0" + content, hashlib.sha256).hexdigest()


def is_ours(content: bytes, seal: object) -> bool:
    """Return whether `seal` was made by this user on this host for this content."""
    if not isinstance(seal, str) or not seal.isascii():
        return False
    own = seal_of(content)
    return bool(own) and hmac.compare_digest(own, seal)


def keep_last(journal: str, seal: str) -> None:
    """Remember the seal of the last line of a journal, outside of the store.

    If this fails, the seal of an earlier line stays, so that the journal may be cut to there.
    """
    path = _last_path(journal)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            files.write_all(descriptor, seal.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.replace(path)


def is_last_kept(journal: str, seals: Sequence[str]) -> bool:
    """Return whether the seals of a journal, in order, have the one that was kept last.

    The first seal is "". A crash may come between a line and its `keep_last`.
    """
    try:
        last = _last_path(journal).read_text(encoding="ascii")
    except (OSError, ValueError):
        last = ""
    return last in seals if last else len(seals) <= 2


def _last_path(journal: str) -> Path:
    name = hashlib.sha256(journal.encode()).hexdigest()[:32]
    return _key_path().parent / "journals" / name


def _key_path() -> Path:
    """Return the file of the key: in $XDG_STATE_HOME, else in ~/.local/state."""
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return state / "pgdyno" / "journal.key"


@cache
def _key(path: Path) -> bytes | None:
    """Return the key, which is made when it is first needed; None if it cannot be kept safe."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        if not path.exists():
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                files.write_all(descriptor, secrets.token_bytes(_KEY_BYTES))
            finally:
                os.close(descriptor)
            # Subtle: link fails if another process was faster; then its key counts.
            try:
                path.hardlink_to(new)
            except FileExistsError:
                pass
            finally:
                new.unlink()
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(stream.fileno())
            is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
            if not (stat.S_ISREG(status.st_mode) and is_private):
                return None
            key = stream.read(_KEY_BYTES)
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None
