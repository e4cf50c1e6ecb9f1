"""How the result of crashes is shown. Its blocks are loaded when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgdyno.report.result_kind import ResultKind
from pgdyno.store.folder import ExperimentFolder

if TYPE_CHECKING:
    from pgdyno.report.blocks import BlockAnswer


def _document(folder: ExperimentFolder) -> dict[str, Any]:
    from pgdyno.features.crash.document import document_again

    return document_again(folder)


def _blocks(document: Mapping[str, Any], _folder: ExperimentFolder | None) -> BlockAnswer:
    from pgdyno.features.crash.blocks import crash_blocks

    return crash_blocks(document)


CRASHES = ResultKind(_document, _blocks, ("crash", "crashes"))
