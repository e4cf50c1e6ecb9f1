"""In which state the runs of a variant began: how its data grew, what every reset had to clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgdyno.loop.journal import Visit
from pgdyno.server.facts import format_bytes

_GROWN_RATIO = 0.02


def state_words(name: str, runs: Sequence[Visit]) -> str:
    """Return growth and what was cleared before the runs of one variant, "" if not known."""
    resets: list[dict[str, Any]] = [
        found
        for visit in runs
        if (found := (visit.stored.document("server.json") or {}).get("reset")) is not None
    ]
    sizes = [one["database_bytes_before"] for one in resets if one.get("database_bytes_before")]
    if len(sizes) < 2:
        return ""
    growth_ratio = sizes[-1] / sizes[0] - 1
    words = (
        f"{name}: {format_bytes(sizes[0])} of data before its first run, "
        f"{format_bytes(sizes[-1])} before its last ({growth_ratio * 100:+.1f} %"
        f"{': bloat is part of what was measured' if growth_ratio > _GROWN_RATIO else ''})"
    )
    dead = [one["dead_rows_before"] for one in resets if one.get("dead_rows_before") is not None]
    history = [
        one["history_rows_removed"] for one in resets if one.get("history_rows_removed") is not None
    ]
    if dead:
        words += f"; {max(dead):,} dead rows at most"
    if history:
        words += f", {max(history):,} rows of history at most, cleared before each run"
    return words
