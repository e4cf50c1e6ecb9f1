"""How the result of a watch is shown."""

from __future__ import annotations

from pgdyno.features.watch.segments import document_again
from pgdyno.features.watch.text import text_of
from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder


def _page(folder: ExperimentFolder) -> str:
    from pgdyno.features.watch.page import watch_page
    from pgdyno.features.watch.panels import watch_findings

    return watch_page(watch_findings(folder))


WATCH = ResultKind(document_again, text_of, _page, ("segment", "segments"), samples="waits")
