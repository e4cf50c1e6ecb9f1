"""How the result of crashes is shown."""

from __future__ import annotations

from pgdyno.features.crash.document import document_again
from pgdyno.features.crash.text import text_of
from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder


def _page(folder: ExperimentFolder) -> str:
    from pgdyno.features.crash.page import crash_page

    return crash_page(document_again(folder))


CRASHES = ResultKind(document_again, text_of, _page, ("crash", "crashes"))
