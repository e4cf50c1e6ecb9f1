"""Texts of statements first seen while a watch lasts, of those that somebody is shown.

They are asked for in a session that observes anyway, because a watch has two and no more. The
server reads all its texts for that, whichever are wanted: with 5,000 statements 11 ms of CPU where
they have 400 characters each, 60 ms where they have 4,000. So it is asked seldom.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

from pgdyno.clock import monotonic_ns
from pgdyno.measure.statement_texts import SCHEMA_SQL, TEXTS_SQL, shown_texts
from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column
from pgdyno.observe.session import ServerSession

ASKED_MAX = 10
# At least so long after the last question, and a thousand times as long as that took.
REST_NS_MIN = 30 * SECOND_NS
REST_RATIO = 1000
# One that is not counted yet (its first execution lasts) may be later; some never are.
_TRIES = 3
# Whatever runs for days has ever new statements; the oldest are forgotten first.
KEPT_MAX = 1_000


class KnownTexts:
    """Texts by query id: those known when the watch began, and those learnt since.

    Whoever shows them asks here; a thread of the observer learns what was asked for in vain.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._lock = threading.Lock()
        self._texts = dict(texts)
        self._tries: dict[int, int] = {}

    def of(self, query_id: int) -> str | None:
        """Return the text, None if it is not known: then it is wanted."""
        with self._lock:
            text = self._texts.get(query_id)
            if text is None and query_id not in self._tries:
                self._tries[query_id] = 0
                _forget_oldest(self._tries)
            return text

    def wanted(self) -> list[int]:
        """Return at most ten query ids that are wanted, those asked least often first."""
        with self._lock:
            open_ones = [one for one, tries in self._tries.items() if tries < _TRIES]
            return sorted(open_ones, key=lambda one: self._tries[one])[:ASKED_MAX]

    def learn(self, asked: list[int], texts: Mapping[int, str]) -> None:
        """Keep what was found of those asked."""
        with self._lock:
            self._texts |= texts
            _forget_oldest(self._texts)
            for one in asked:
                if one in texts:
                    self._tries.pop(one, None)
                elif one in self._tries:
                    self._tries[one] += 1

    def all(self) -> dict[int, str]:
        """Return all that are known."""
        with self._lock:
            return dict(self._texts)


def _forget_oldest(kept: dict[int, Any]) -> None:
    while len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]


class NewTextsCollector:
    """Learns texts that are wanted; it has no rows, and only its cost is kept."""

    name: ClassVar[str] = "statement_texts"
    meaning: ClassVar[str] = "Texts of statements that are shown for the first time"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = ()

    def __init__(self, session: ServerSession, texts: KnownTexts) -> None:
        self._session, self._texts = session, texts
        self._due_ns = 0

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Ask for what is wanted, if it is time; return nothing."""
        wanted = self._texts.wanted()
        began_ns = monotonic_ns()
        if not wanted or began_ns < self._due_ns:
            return []
        try:
            found = self._session.fetch(SCHEMA_SQL)
            sql = TEXTS_SQL.format(schema=found[0][0]) if found else ""
            self._texts.learn(
                wanted, shown_texts(self._session.fetch(sql, [wanted]) if sql else [])
            )
        finally:
            ended_ns = monotonic_ns()
            self._due_ns = ended_ns + max(REST_NS_MIN, REST_RATIO * (ended_ns - began_ns))
        return []
