"""How the result of crashes is shown. Its words and its page are loaded when they are used."""

from __future__ import annotations

from typing import Any

from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder


def _document(folder: ExperimentFolder) -> dict[str, Any]:
    from pgdyno.features.crash.document import document_again

    return document_again(folder)


def _text(document: dict[str, Any], width: int) -> str:
    from pgdyno.features.crash.text import text_of

    return text_of(document, width)


def _page(folder: ExperimentFolder) -> str:
    from pgdyno.features.crash.page import crash_page

    remarks = list(folder.remarks())
    document = _document(folder)
    return crash_page({**document, "notes": remarks} if remarks else document)


CRASHES = ResultKind(_document, _text, _page, ("crash", "crashes"))
