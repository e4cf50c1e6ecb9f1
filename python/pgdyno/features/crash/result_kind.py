"""How the result of crashes is shown. Its blocks are loaded when they are used."""

from __future__ import annotations

from pgdyno.feature import at_first_call
from pgdyno.report.result_kind import ResultKind

CRASHES = ResultKind(
    at_first_call("pgdyno.features.crash.document:document_again"),
    at_first_call("pgdyno.features.crash.blocks:crash_blocks"),
    ("crash", "crashes"),
)
