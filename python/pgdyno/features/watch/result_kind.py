"""How the result of a watch is shown. Its blocks are loaded when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder

if TYPE_CHECKING:
    from pgdyno.report.blocks import BlockAnswer


def _document(folder: ExperimentFolder) -> dict[str, Any]:
    from pgdyno.features.watch.segments import document_again

    return document_again(folder)


def _blocks(document: dict[str, Any], folder: ExperimentFolder | None) -> BlockAnswer:
    from pgdyno.features.watch.blocks import watch_blocks
    from pgdyno.features.watch.panels import WatchFindings, watch_findings

    return watch_blocks(WatchFindings(document) if folder is None else watch_findings(folder))


WATCH = ResultKind(
    _document,
    _blocks,
    ("segment", "segments"),
    samples="waits",
    comparing="pgdyno watch --of {after} --compare-to {before}",
)
