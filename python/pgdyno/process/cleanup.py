"""Registry of everything to undo before this process ends; the newest entry is undone first.

Children and scratch clusters register when they are created and leave the list when they are gone.
The command line calls `run_all` in its `finally`, and atexit calls it again for unexpected exits.
After a SIGKILL, the parent-death signal of `child` and `server.leftovers` do this work.
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
    """Register `undo` for the clean-up; return the token with which `forget` removes it."""
    global _owner_pid
    if _owner_pid != os.getpid():  # A fork inherits the list, but must not undo it.
        _pending.clear()
        _owner_pid = os.getpid()
    token = next(_tokens)
    _pending[token] = (name, undo)
    return token


def forget(token: int) -> None:
    """Drop the registration; a second call is harmless."""
    _pending.pop(token, None)


def pending() -> tuple[str, ...]:
    """Return the names of all entries still registered, oldest first."""
    return tuple(name for name, _ in _pending.values())


def mark() -> int:
    """Return a mark: `run_all` from this mark leaves earlier entries registered."""
    return next(_tokens)


def run_all(*, since: int = 0) -> list[str]:
    """Undo all entries still registered, newest first; return one line for each failure.

    A failure never prevents the undoing of the rest.
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
