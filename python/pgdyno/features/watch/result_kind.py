"""How the result of a watch is shown. Its blocks are loaded when they are used."""

from __future__ import annotations

from pgdyno.feature import at_first_call
from pgdyno.report.result_kind import ResultKind

WATCH = ResultKind(
    at_first_call("pgdyno.features.watch.segments:document_again"),
    at_first_call("pgdyno.features.watch.blocks:stored_blocks"),
    ("segment", "segments"),
    samples="waits",
    comparing="pgdyno watch --of {after} --compare-to {before}",
)
