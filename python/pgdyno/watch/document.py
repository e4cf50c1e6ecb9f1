"""The answer of a watch as one JSON document; text and page are made from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgdyno.store.folder import ExperimentFolder
from pgdyno.watch.statements import Calls, grown
from pgdyno.watch.tally import Tally

_EVENTS_SHOWN = 12
_EVENTS_OF_STATEMENT = 3
_GAPS_SHOWN = 100
# The sentence names a wait event if active sessions were seen this often: fewer are chance.
_SESSIONS_SEEN_MIN = 30

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watched:
    """What was added up. `cost_ns` is our CPU time here, and of our backends there."""

    tally: Tally
    asked_ns: int
    lasted_ns: int
    began_utc: str
    is_complete: bool
    is_local: bool
    version: str
    cost_ns: tuple[int, int] | None

    def dearest(self, count: int) -> list[int]:
        """Return the query ids that took most time, known ones only."""
        by_time = sorted(
            (
                (waits.total(), query)
                for query, waits in self.tally.total.by_statement.items()
                if query
            ),
            reverse=True,
        )
        return [query for _, query in by_time[:count]]


def document_of(
    watched: Watched,
    folder: ExperimentFolder,
    *,
    before: Calls,
    after: Calls,
) -> Document:
    """Return the document `pgdyno.watch/1`.

    Counters are of the whole server and counted, not estimated; sessions at work are means over
    samples at random gaps.
    """
    tally, total = watched.tally, watched.tally.total
    size_bytes = sum(path.stat().st_size for path in folder.folder.rglob("*") if path.is_file())
    hours = watched.lasted_ns / 3.6e12
    low, high = tally.active_series.interval() or (None, None)
    facts = folder.facts() or {}
    return {
        "format": "pgdyno.watch/1",
        "number": folder.number,
        "name": folder.name,
        "pgdyno_version": watched.version,
        "target": facts.get("target_line", "not known"),
        "began_utc": watched.began_utc,
        "seconds_asked": watched.asked_ns / 1e9,
        "seconds": watched.lasted_ns / 1e9,
        "seconds_seen": tally.seen_ns / 1e9,
        "is_complete": watched.is_complete,
        "sentence": sentence(tally),
        "tps": total.tps,
        "wal_bytes_per_second": total.wal_bytes_per_second,
        "hit_ratio": total.hit_ratio,
        "sessions_at_work": {
            "mean": total.active,
            "low": low,
            "high": high,
            "peak": tally.peak_sessions if total.wait_samples else None,
            "samples": total.wait_samples,
        },
        "waits": _events(total.by_event, total.wait_samples, _EVENTS_SHOWN),
        "statements": [
            statement_of(watched, query, before=before, after=after)
            for query in watched.dearest(10)
        ],
        "statement_texts": {str(query): text for query, text in after.texts.items()},
        "gaps": [
            {"ended_unix_ns": gap.time_ns, "seconds": gap.length_ns / 1e9}
            for gap in tally.gaps[-_GAPS_SHOWN:]
        ],
        "gap_count": tally.gap_count,
        "reset_count": tally.reset_count,
        "cost": _cost(watched),
        "bytes": size_bytes,
        "bytes_per_hour": size_bytes / hours if hours else None,
        "doctor": facts.get("doctor", {}).get("counts", {}),
    }


def sentence(tally: Tally) -> str:
    """Return the answer of a watch in one sentence."""
    total = tally.total
    if total.tps is None:
        return "nothing was observed"
    text = f"{total.tps:,.0f} tps"
    if total.active is None:
        text += ", active sessions not visible to this role"
    else:
        text += f", {total.active:.3g} active sessions on average, at most {tally.peak_sessions}"
    if total.by_event.total() >= _SESSIONS_SEEN_MIN:
        event, count = total.by_event.most_common(1)[0]
        share = 100 * count / total.by_event.total()
        text += f"; {share:.0f} % of DB time is {event or 'CPU or not instrumented'}"
    if tally.gap_count:
        text += f"; {tally.gap_count} gap{'s' * (tally.gap_count > 1)}"
    return text


def utc(time_ns: int) -> str:
    """Return a moment as ISO text."""
    moment = datetime.fromtimestamp(time_ns // 1_000_000_000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def statement_of(watched: Watched, query: int, *, before: Calls, after: Calls) -> Document:
    """Return a statement's share of DB time, and what one call of it takes.

    `ms_per_call` is pg_stat_statements' own figure, which ends before a COMMIT waits for its flush;
    `db_ms_per_call` is sampled DB time over calls, and has that wait.
    """
    waits = watched.tally.total.by_statement[query]
    total, samples = watched.tally.total.by_event.total(), watched.tally.total.wait_samples
    counted = grown(before, after, query)
    calls = counted[0] if counted else None
    at_work_ms = waits.total() / samples * watched.tally.seen_ns / 1e6 if samples else 0.0
    return {
        "query_id": str(query),  # More digits than a JSON reader's floating point keeps.
        "text": after.texts.get(query, ""),
        "share_ratio": waits.total() / total if total else 0.0,
        "sessions": waits.total() / samples if samples else 0.0,
        "calls": calls,
        "ms_per_call": counted[1] if counted else None,
        "db_ms_per_call": at_work_ms / calls if calls else None,
        "waits": _events(waits, samples, _EVENTS_OF_STATEMENT),
    }


def _events(waits: Counter[str], samples: int, count: int) -> list[Document]:
    """Return the events that took most time; shares are of DB time, never of all waits."""
    total = waits.total()
    shown: Iterable[tuple[str, int]] = waits.most_common(count)
    return [
        {
            "wait_event": event or "CPU or not instrumented",
            "sessions": seen / samples if samples else 0.0,
            "share_ratio": seen / total,
        }
        for event, seen in shown
    ]


def _cost(watched: Watched) -> Document | None:
    if watched.cost_ns is None or not watched.lasted_ns:
        return None
    lab_ns, backend_ns = watched.cost_ns
    return {
        "lab_cores": lab_ns / watched.lasted_ns,
        "server_cores": backend_ns / watched.lasted_ns if watched.is_local else None,
    }
