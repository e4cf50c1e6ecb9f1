"""How the result of crashes is shown."""

from __future__ import annotations

from pgdyno.features.crash.document import document_again
from pgdyno.features.crash.text import text_of
from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder


def _page(folder: ExperimentFolder) -> str:
    from pgdyno.features.crash.page import crash_page

    remarks = list(folder.remarks())
    document = document_again(folder)
    return crash_page({**document, "notes": remarks} if remarks else document)


CRASHES = ResultKind(document_again, text_of, _page, ("crash", "crashes"))
