"""What must be undone before this process ends, run last-in first-out on every exit path.

Children and scratch clusters register here when they come into being and forget themselves when
they are gone. `run_all` is called by the command line in its `finally` and once more by atexit, so
that an exit nobody foresaw still leaves nothing behind. SIGKILL is covered elsewhere: by the
parent-death signal of `child` and by `server.leftovers`.
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Callable

_pending: dict[int, tuple[str, Callable[[], object]]] = {}
_tokens = itertools.count(1)
_owner_pid = os.getpid()


def register(name: str, undo: Callable[[], object]) -> int:
    """Remember `undo`, to be called if nobody forgets it first; return the token to forget it."""
    global _owner_pid
    if _owner_pid != os.getpid():  # A fork inherits the list, not the duty.
        _pending.clear()
        _owner_pid = os.getpid()
    token = next(_tokens)
    _pending[token] = (name, undo)
    return token


def forget(token: int) -> None:
    """Drop the registration; forgetting twice is harmless."""
    _pending.pop(token, None)


def pending() -> tuple[str, ...]:
    """Return the names of what is still registered, oldest first."""
    return tuple(name for name, _ in _pending.values())


def mark() -> int:
    """Return a place in time: `run_all` from there leaves what was registered before."""
    return next(_tokens)


def run_all(*, since: int = 0) -> list[str]:
    """Undo what is still registered, newest first; return one line for each that failed.

    One failure never keeps the rest from being undone.
    """
    if _owner_pid != os.getpid():
        return []
    failures: list[str] = []
    while _pending and max(_pending) > since:
        name, undo = _pending.pop(max(_pending))
        try:
            undo()
        except Exception as error:
            failures.append(f"{name}: {error}")
    return failures


atexit.register(run_all)
