"""A watch built by hand: its document, and its page's findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.analysis.findings import Mark, Panel, Series
from pgdyno.features.watch.blocks import watch_blocks
from pgdyno.features.watch.panels import WatchFindings
from pgdyno.report.block_text import answer_text
from pgdyno.report.blocks import Level
from pgdyno.report.html import answer_page

LOCK = {"wait_event": "Lock:transactionid", "share_ratio": 0.57}
EVENTS = [{**LOCK, "sessions": 12.94, "low": 12.7, "high": 13.2}]
DOCUMENT: dict[str, Any] = {
    "number": 12,
    "name": "watch core",
    "pgdyno_version": "0.1",
    "target": "db1:5432/core  PostgreSQL 15.14 primary",
    "began_utc": "2026-11-20T14:00:00Z",
    "seconds_asked": 3600.0,
    "seconds": 3600.0,
    "seconds_seen": 3591.0,
    "is_complete": True,
    "sentence": "1,902 tps, 22.7 active sessions on average, at most 61; 1 gap",
    "tps": 1902.0,
    "wal_bytes_per_second": 11e6,
    "hit_ratio": 0.991,
    "sessions_at_work": {
        "mean": 22.7,
        "low": 22.55,
        "high": 22.85,
        "how": "counted",
        "why_sampled": "",
        "sampled_mean": 21.3,
        "sampled_low": 20.9,
        "sampled_high": 21.7,
        "peak": 61,
        "samples": 35910,
        "sightings": 764_883,
    },
    "waits": EVENTS,
    "statements": [
        {
            "query_id": "-1",
            "text": "UPDATE account SET balance = balance + $1 WHERE <b>id</b> = $2",
            "share_ratio": 0.41,
            "share_low_ratio": 0.38,
            "share_high_ratio": 0.44,
            "sessions": 9.307,
            "low": 8.6,
            "high": 10.0,
            "sightings": 313_602,
            "calls": 6_847_200,
            "ms_per_call": 4.7,
            "db_ms_per_call": 4.9,
            "db_ms_per_call_low": 4.5,
            "db_ms_per_call_high": 5.3,
            "waits": [{**LOCK, "sessions": 5.3}],
        }
    ],
    "gaps": [{"ended_unix_ns": 9, "seconds": 9.0}],
    "gap_count": 1,
    "reset_count": 0,
    "cost": {"lab_cores": 0.004, "server_cores": 0.006},
    "bytes": 38 << 20,
    "bytes_per_hour": float(38 << 20),
    "doctor": {"bad": 1, "warn": 0, "good": 9, "unknown": 0},
}
EXAMINED = {
    "id": "shared_buffers",
    "verdict": "bad",
    "seen": "128 MB",
    "why": "too little is read again",
    "mend": "ALTER SYSTEM SET shared_buffers = '7GB'",
}
WAITS = Panel(
    "waits", "Active sessions", "sessions", (0.5, 1.5), (Series("Lock:tuple", (1.0, None)),)
)


def watch_page(shown: WatchFindings) -> str:
    """Return the page of a watch with a note."""
    return answer_page(watch_blocks(shown), ["CHG0048211"])


def text_of(document: Mapping[str, Any], width: int = 100, level: Level = "short") -> str:
    """Return a watch as text."""
    return answer_text(watch_blocks(WatchFindings(document)), width, level)


def findings(**changes: Any) -> WatchFindings:
    whole = {
        "document": DOCUMENT,
        "duration_s": 3600.0,
        "panels": (WAITS,),
        "marks": (Mark(2000.0, "gap", "no samples for 9.0 s"),),
        "examined": (EXAMINED,),
        "settings": (("work_mem", "4 MB"),),
    }
    return WatchFindings(**(whole | changes))


def watched() -> WatchFindings:
    """Return a watch with charts of every heading, a gap and a vacuum."""
    axis = tuple(float(second) for second in range(0, 3600, 60))
    values = tuple(None if 30 <= i < 33 else 10.0 + i % 7 for i in range(len(axis)))
    panels = [
        Panel("waits", "Active sessions", "sessions", axis, (Series("Lock:tuple", values),)),
        Panel("wal", "WAL", "MB/s", axis, (Series("generated", values),)),
    ]
    for section in ("Server", "Host"):
        for key in ("one", "two"):
            name = f"{section} {key}"
            drawn = (Series("first", values), Series("second", values[::-1]))
            panels.append(Panel(name.lower(), name, "a second", axis, drawn, section=section))
    marks = (Mark(1860.0, "gap", "no samples for 180 s"), Mark(600.0, "vacuum", "vacuum"))
    return findings(panels=tuple(panels), marks=marks)
