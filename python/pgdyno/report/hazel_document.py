"""The JSON of speed and waits by the method published as PG_HAZEL, and by the corrected one."""

from __future__ import annotations

from typing import Any

from pgdyno.analysis.hazel import Hazel

AS_PUBLISHED = (
    "operational speed: statements and rows per minute, medians of up to 60 windows; "
    "correlations over all windows, at any load"
)
CORRECTED = (
    "speed and share of the wait in server time, windows without overlap, at fixed load; with "
    "95 % intervals"
)


def hazel_document(answer: Hazel | None) -> dict[str, Any] | None:
    """Return the answers of both methods, each with a label; None with too few windows."""
    if answer is None:
        return None
    return {
        "as_published": {
            "label": AS_PUBLISHED,
            "has_rows": answer.has_rows,
            "windows": [
                {"clients": load or None, "operational_speed_per_minute": speed}
                for load, speed in zip(answer.loads_count, answer.speeds_per_minute, strict=True)
            ],
            "waits": [
                {
                    "type": wait.wait_type,
                    "correlation_with_speed": wait.published_ratio,
                    "weighted_wait_correlation": wait.weighted_ratio,
                    "band": wait.band,
                }
                for wait in answer.waits
            ],
        },
        "corrected": {
            "label": CORRECTED,
            "waits": [
                {
                    "type": wait.wait_type,
                    "correlation_with_speed": wait.corrected_ratio,
                    "low": wait.low_ratio,
                    "high": wait.high_ratio,
                }
                for wait in answer.waits
            ],
        },
    }
