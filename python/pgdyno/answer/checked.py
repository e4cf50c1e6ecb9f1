"""Reads the check of the data after a stored run."""

from __future__ import annotations

from pgdyno.analysis.consistency import CheckFindings, ConditionFindings
from pgdyno.store.stored_run import StoredRun


def check_of(stored: StoredRun) -> CheckFindings | None:
    """Return the result of the data check after a run, None if nothing was checked."""
    document = stored.server_json.get("consistency")
    if not document:
        return None
    return CheckFindings(
        conditions=tuple(
            ConditionFindings(
                number=int(verdict["number"]),
                rule=str(verdict["rule"]),
                violations={int(part): int(count) for part, count in verdict["violations"].items()},
            )
            for verdict in document.get("conditions", ())
        ),
        duration_s=document.get("duration_ns", 0) / 1e9,
        why_not=str(document.get("why_not", "")),
    )
