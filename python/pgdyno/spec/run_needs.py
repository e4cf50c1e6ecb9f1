"""What a run must contain so that a setting can show its effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

Need = Literal["checkpoint", "full-page images", "autovacuum", "full cache"]

_BY_NEED: Mapping[Need, tuple[str, ...]] = {
    "checkpoint": (
        *("max_wal_size", "min_wal_size", "checkpoint_timeout", "checkpoint_completion_target"),
        *("checkpoint_flush_after"),
    ),
    "full-page images": ("wal_compression", "full_page_writes"),
    "autovacuum": (
        *("autovacuum", "autovacuum_naptime", "autovacuum_max_workers", "autovacuum_work_mem"),
        *("autovacuum_vacuum_cost_delay", "autovacuum_vacuum_cost_limit", "vacuum_cost_limit"),
        *("autovacuum_vacuum_scale_factor", "autovacuum_vacuum_threshold", "vacuum_cost_delay"),
        *("autovacuum_vacuum_insert_threshold", "autovacuum_vacuum_insert_scale_factor"),
        *("autovacuum_analyze_scale_factor", "autovacuum_analyze_threshold"),
    ),
    "full cache": ("shared_buffers",),
}
NEEDS: Mapping[str, Need] = {
    setting: need for need, settings in _BY_NEED.items() for setting in settings
}
"""Setting -> what a run must contain; a setting that is not there needs nothing special."""

WORDS: Mapping[Need, str] = {
    "checkpoint": "no run had a checkpoint",
    "full-page images": "no run wrote full-page images",
    "autovacuum": "no run had a vacuum of a table of the load",
    "full cache": "the cache was still filling in each run",
}


def needs_of(settings: Iterable[str]) -> dict[str, Need]:
    """Return setting -> need, of those settings that have one."""
    return {name: NEEDS[name.lower()] for name in settings if name.lower() in NEEDS}
