"""How the result of a watch is shown. Its words and its page are loaded when they are used."""

from __future__ import annotations

from typing import Any

from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder


def _document(folder: ExperimentFolder) -> dict[str, Any]:
    from pgdyno.features.watch.segments import document_again

    return document_again(folder)


def _text(document: dict[str, Any], width: int, _level: str) -> str:
    from pgdyno.features.watch.text import text_of

    return text_of(document, width)


def _page(folder: ExperimentFolder) -> str:
    from pgdyno.features.watch.page import watch_page
    from pgdyno.features.watch.panels import watch_findings

    return watch_page(watch_findings(folder))


WATCH = ResultKind(_document, _text, _page, ("segment", "segments"), samples="waits")
