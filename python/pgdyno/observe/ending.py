"""Told once to end, by another thread, and waited for many times until then."""

from __future__ import annotations

import threading


class Ending:
    """An Event whose waiting is one call that the interpreter makes in C.

    An Event makes a lock and an entry of a list for each wait: with caches that are cold each time
    that is 0.1 ms, ten times a second.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        # Held until the end is requested.
        self._untold = threading.Lock()
        self._untold.acquire()
        self.is_told = False

    def tell(self) -> None:
        """End every wait, now and from now on."""
        with self._guard:
            if not self.is_told:
                self.is_told = True
                self._untold.release()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return True if the end was requested, even before the call."""
        if not self._untold.acquire(timeout=max(0.0, seconds)):
            return False
        self._untold.release()
        return True
