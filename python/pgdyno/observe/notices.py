"""The observer's notices: each problem is reported once until it is over."""

from __future__ import annotations

import threading

from pgdyno.clock import ClockPair
from pgdyno.errors import PgdynoError
from pgdyno.observe.collector import Notice, NoticeKind, Sink


class Notices:
    """Passes notices to the sink; while a problem lasts, it is not reported again."""

    def __init__(self, clock: ClockPair, sink: Sink) -> None:
        self._clock = clock
        self._sink = sink
        self._lock = threading.Lock()
        self._lasting: set[str] = set()
        self.said: list[Notice] = []

    def say(
        self, trouble: str, kind: NoticeKind, message: str, hint: str, *, source: str = ""
    ) -> None:
        """Report this unless the problem of this name was already reported and still lasts."""
        with self._lock:
            if trouble in self._lasting:
                return
            self._lasting.add(trouble)
        self._pass_on(Notice(self._clock.now_ns(), kind, message, hint, source))

    def over(self, trouble: str, kind: NoticeKind, message: str, hint: str = "") -> None:
        """Report the end of a problem if its beginning was reported."""
        with self._lock:
            if trouble not in self._lasting:
                return
            self._lasting.discard(trouble)
        self._pass_on(Notice(self._clock.now_ns(), kind, message, hint))

    def _pass_on(self, notice: Notice) -> None:
        self.said.append(notice)
        try:
            self._sink.add_notice(notice.as_record())
        except PgdynoError:
            # The store cannot write (a full disk): the writer of the records gets the same error.
            return
