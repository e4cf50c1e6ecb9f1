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


def hazel_document(found: Hazel | None) -> dict[str, Any] | None:
    """Return both methods' answers, each labelled; None where there are too few windows."""
    if found is None:
        return None
    return {
        "as_published": {
            "label": AS_PUBLISHED,
            "has_rows": found.has_rows,
            "windows": [
                {"clients": load or None, "operational_speed_per_minute": speed}
                for load, speed in zip(found.loads_count, found.speeds_per_minute, strict=True)
            ],
            "waits": [
                {
                    "type": one.wait_type,
                    "correlation_with_speed": one.published_ratio,
                    "weighted_wait_correlation": one.weighted_ratio,
                    "band": one.band,
                }
                for one in found.waits
            ],
        },
        "corrected": {
            "label": CORRECTED,
            "waits": [
                {
                    "type": one.wait_type,
                    "correlation_with_speed": one.corrected_ratio,
                    "low": one.low_ratio,
                    "high": one.high_ratio,
                }
                for one in found.waits
            ],
        },
    }
