"""A sink that keeps rows and notices, and lets a test wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

PATIENCE_S = 20.0


class KeepingSink:
    """Keeps rows and notices in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Mapping[str, Any]]] = {}
        self.notices: list[Mapping[str, Any]] = []
        self._changed = threading.Condition()

    def add_samples(self, collector: str, rows: Sequence[Mapping[str, Any]]) -> None:
        with self._changed:
            self.rows.setdefault(collector, []).extend(rows)
            self._changed.notify_all()

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        with self._changed:
            self.notices.append(notice)
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return when the condition is true; fail after 20 s."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), (self.notices, list(self.rows))

    def kinds(self) -> list[str]:
        return [str(notice["kind"]) for notice in self.notices]
