"""What a statement is called where there is little room: the beginning of its text."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.measure.statement_texts import OWN

_CHARACTERS = 60


class StatementNames:
    """Names of statements by query id; where no text is known it is the id."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._given: dict[str, str] = {}

    def is_own(self, query_id: str) -> bool:
        """Return whether pgdyno itself sent it."""
        return self._texts.get(query_id) == OWN

    def whole(self, query_id: str) -> str:
        """Return the text as it is kept, with the query id."""
        text = self._texts.get(query_id)
        return f"{text}, query id {query_id}" if text else f"query id {query_id}"

    def short(self, query_id: str) -> str:
        """Return the beginning of the text; of two that begin alike, one with its query id."""
        text = self._texts.get(query_id) or f"query id {query_id}"
        if len(text) > _CHARACTERS:
            text = text[: _CHARACTERS - 4].rstrip() + " ..."
        if self._given.setdefault(text, query_id) != query_id:
            return f"{text} ({query_id})"
        return text
