"""What a call of each statement did on average since the server began to count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pgdyno.features.capture.model import Counters

_PARAMETER = r"\$\d+(?:::[a-z_ ]+(?:\[\])?)?"
_LIST = re.compile(rf"(?:= ?any ?\( ?|\bin ?\( ?){_PARAMETER}(?: ?, ?{_PARAMETER})* ?\)")
# The server counts them as constants, except in tests such as IS NULL. A log has them.
_WORDS = re.compile(r"(?<!is )(?<!not )\b(?:true|false|null)\b")
_TYPED = re.compile(r"\b(?:interval|date|time|timestamp|timestamptz) \$")
_ROWS = re.compile(r"(\bvalues ?)(\([^()]*\))(?: ?, ?\([^()]*\))+")
_SCALED = tuple(name for name in Counters.model_fields if name not in ("calls", "time_ms"))


def form_of(text: str) -> str:
    """Return a text that the log and pg_stat_statements share for one statement.

    A list is one parameter, several rows of VALUES are one row, and types of parameters and words
    such as true do not count.
    """
    line = " ".join(text.lower().split())
    line = _LIST.sub("= any ($)", line)
    line = _TYPED.sub("$", re.sub(_PARAMETER, "$", _WORDS.sub("$1", line)))
    return _ROWS.sub(r"\1\2", line)


class MeansOfStatements:
    """Counters since the last reset, by the form of a text."""

    def __init__(self, counted: Iterable[tuple[str, Counters]]) -> None:
        self._totals: dict[str, Counters] = {}
        for text, counters in counted:
            form = form_of(text)
            before = self._totals.get(form)
            self._totals[form] = Counters.total([before, counters]) if before else counters

    def of(self, text: str, own: Counters) -> Counters:
        """Return the counters of some calls: rows, blocks and WAL are those of as many mean calls.

        Calls and time stay; without counters of the statement everything does.
        """
        total = self._totals.get(form_of(text))
        if total is None or not total.calls or not own.calls:
            return own
        ratio = own.calls / total.calls
        scaled: Mapping[str, int | float] = {
            name: round(getattr(total, name) * ratio) for name in _SCALED
        }
        return own.model_copy(update=dict(scaled))
