"""The answer of a watch as one JSON document (`pgdyno.watch/1`).

Text and page are made from this document alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.at_work import SIGHTINGS_MIN, AtWork
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.rounding import decimals_of
from pgdyno.analysis.server_clocks import bound
from pgdyno.analysis.where_facts import NOT_INSTRUMENTED
from pgdyno.analysis.where_sampled import Sampled, shared_out
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import SHOWN_MAX, Danger, IncidentFinding
from pgdyno.features.watch.incident.known_statements import short_text
from pgdyno.features.watch.statements import Calls, counted_ms, grown, most_called
from pgdyno.features.watch.tally import Tally
from pgdyno.features.watch.words import number_text
from pgdyno.quantities import fixed, plain, plain_decimals
from pgdyno.store.folder import ExperimentFolder

_EVENTS_SHOWN = 12
_EVENTS_OF_STATEMENT = 3
_GAPS_SHOWN = 100
_SEED = 20_261_122
# A finding is the answer of a watch if it takes this share of DB time, or if it gets worse.
_ANSWER_RATIO = 0.1
_LARGEST_RATIO = 0.5
# From this number of calls in a transaction on, the application sends a statement in a loop.
_OFTEN_MIN = 20
# With more transactions and fewer sessions at work, what is slow is outside of the server.
_BUSY_TPS, _IDLE_SESSIONS = 50.0, 0.5

_OF_ALL_CALLS = ("db_ms_per_call", "db_ms_per_call_low", "db_ms_per_call_high")
HEALTHY = "nothing found that is wrong"
# Counters of statements and tables have 10 s between two samples.
SHORT_NS = 12_000_000_000
# The first sample and the last are not at the ends of a watch.
_SHORT_RATIO = 0.95

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watched:
    """The sums of a watch and its conditions.

    `cost_ns`: CPU time of the lab's threads, and CPU time of their backends on the server.
    """

    tally: Tally
    asked_ns: int
    lasted_ns: int
    began_utc: str
    is_complete: bool
    is_local: bool
    version: str
    cost_ns: tuple[int, int] | None

    def dearest(self, count: int) -> list[int]:
        """Return the query ids with the most samples, largest first; unknown ids are left out."""
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
    findings: Sequence[IncidentFinding] = (),
    evidence: IncidentEvidence | None = None,
) -> Document:
    """Return the document `pgdyno.watch/1`.

    Counters describe the whole server. The number of sessions at work is the server's count of
    their time, and samples only split it by wait event and statement. If the count cannot be used,
    the number comes from samples, too.
    Args: before and after, the calls of all statements at both ends of the watch; findings, most
    lost time first; evidence, for statements that were not counted.
    """
    tally, total = watched.tally, watched.tally.total
    work = WatchedWork.of(tally)
    size_bytes = sum(path.stat().st_size for path in folder.folder.rglob("*") if path.is_file())
    hours = watched.lasted_ns / 3.6e12
    facts = folder.facts() or {}
    named = replace(after, texts={**(evidence.session_texts() if evidence else {}), **after.texts})
    statements = [
        *_without_id(work, tally, named.texts.get(0, "")),
        *(
            statement_of(watched, work, query, before=before, after=named)
            for query in watched.dearest(10)
        ),
    ]
    _add_unfinished(statements, evidence.unfinished_calls() if evidence else Counter())
    statements.sort(key=lambda statement: -statement["share_ratio"])
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
        "sentence": answer_of(findings)
        or quiet_answer(tally, work, findings, statements, often(tally, before, after)),
        "findings": [finding.as_document() for finding in findings[:SHOWN_MAX]],
        "also_seen": [finding.as_document() for finding in findings[SHOWN_MAX:]],
        "tps": total.tps,
        "tps_counts_parallel_workers": total.has_uncounted_workers,
        "wal_bytes_per_second": total.wal_bytes_per_second,
        "hit_ratio": total.hit_ratio,
        "sessions_at_work": _sessions(tally, work),
        "waits": [_event(name, part, work) for name, part in work.largest(_EVENTS_SHOWN)],
        "statements": statements,
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


def _add_unfinished(statements: Sequence[Document], unfinished: Counter[int]) -> None:
    for statement in statements:
        statement["unfinished_calls"] = unfinished[int(statement["query_id"])]
        if statement["unfinished_calls"]:
            # Their time is in the DB time of the statement: one mean would be of both.
            statement |= dict.fromkeys(_OF_ALL_CALLS)


def answer_of(findings: Sequence[IncidentFinding]) -> str:
    """Return the sentence of the first finding, "" if it is no reason to act at once."""
    for finding in findings[:1]:
        if (finding.share_ratio or 0.0) >= _ANSWER_RATIO or finding.danger >= Danger.GROWS:
            return finding.answer
    return ""


def quiet_answer(
    tally: Tally,
    work: WatchedWork,
    findings: Sequence[IncidentFinding],
    statements: Sequence[Document] = (),
    much: str = "",
) -> str:
    """Return the answer of a watch if no finding is the answer: it names the worst one.

    Without a finding it names the statement that takes most of the time, if one does.
    Args: much, what is called in a loop.
    """
    if not findings:
        opening = f"{HEALTHY}: " * (tally.total.tps is not None)
        at_work = work.sessions_at_work
        if (
            tally.seen_ns < _SHORT_RATIO * SHORT_NS
            and at_work
            and at_work.mean.value >= _IDLE_SESSIONS
        ):
            opening = f"too short to judge statements, watch {SHORT_NS // 10**9} s or longer: "
        largest = "".join(
            f"; {100 * statement['share_ratio']:.0f} % of DB time is one statement:"
            f" {short_text(' '.join(statement['text'].split()))}"
            for statement in statements[:1]
            if statement["text"] and statement["share_ratio"] >= _LARGEST_RATIO
        )
        return opening + sentence(tally, work) + largest + much
    more = f" and {len(findings) - 1} more" * (len(findings) > 1)
    return f"not urgent: {findings[0].answer}{more}"


def often(tally: Tally, before: Calls, after: Calls) -> str:
    """Return "; one statement runs 80 times in a transaction: ..."; "" without such a one."""
    transactions = (tally.total.tps or 0.0) * tally.seen_ns / 1e9
    query, calls = most_called(before, after)
    text = short_text(" ".join(after.texts.get(query, "").split()))
    if not text or not transactions or calls < _OFTEN_MIN * transactions:
        return ""
    times = number_text(calls / transactions)
    return (
        f"; one statement runs {times} times in a transaction, on average: {text}; one statement"
        " for all rows saves the way to the server and back"
    )


def sentence(tally: Tally, work: WatchedWork) -> str:
    """Return what was seen in one sentence."""
    total, at_work = tally.total, work.sessions_at_work
    if total.tps is None:
        return "nothing was observed"
    most = "at most " * total.has_uncounted_workers
    text = f"{most}{number_text(total.tps)} tps, {_sessions_words(at_work, tally.peak_sessions)}"
    active = (at_work.mean.high or at_work.mean.value) if at_work is not None else _IDLE_SESSIONS
    if active < _IDLE_SESSIONS and total.tps >= _BUSY_TPS:
        text += "; the server mostly waits for its clients: look at the application and the network"
    elif total.by_event.total() >= SIGHTINGS_MIN:
        [(event, share)] = work.largest(1)
        text += f"; {100 * share.value:.0f} % of DB time is {event or NOT_INSTRUMENTED}"
    if tally.gap_count:
        text += f"; {tally.gap_count} gap{'s' * (tally.gap_count > 1)}"
    return text


def _sessions_words(at_work: AtWork | None, peak_count: int) -> str:
    """Return how many sessions were at work; no mean if samples saw only a few."""
    if at_work is None:
        return "active sessions not visible to this role"
    if at_work.is_certain:
        digits = min(decimals_of(at_work.mean), max(plain_decimals(at_work.mean.value), 0))
        mean = fixed(at_work.mean.value, digits)
        most = "" if at_work.sampled is None else f", at most {peak_count}"
        return f"{mean} active sessions on average{most}"
    if at_work.mean.high is None:
        return f"at most {peak_count} active sessions"
    return f"fewer than {plain(at_work.mean.high, 2)} active sessions on average"


def utc(time_ns: int) -> str:
    """Return a Unix time in ns as ISO text in UTC."""
    moment = datetime.fromtimestamp(time_ns // 1_000_000_000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class WatchedWork:
    """Sessions at work, and the shares of wait events and statements, with intervals.

    `counted`: the wait events whose time a clock of the server counted.
    """

    sessions_at_work: AtWork | None
    by_event: Mapping[str, Estimate]
    by_statement: Mapping[str, Estimate]
    counted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tally: Tally) -> WatchedWork:
        """Return the work of a watch. The shares of events sum to 1, and so do statements'."""
        at_work = tally.at_work()
        if at_work is None or not at_work.seen_count:
            return cls(at_work, {}, {})

        def shares(drawn: Sampled) -> dict[str, Estimate]:
            parts = shared_out(drawn, 1.0, "", seen_count=at_work.seen_count)
            return dict(zip(drawn.events, parts, strict=True))

        seconds = max(tally.seen_ns, 1) / 1e9
        samples = tally.stretches.events(seconds, seed=_SEED)
        events, errors = _bound(samples, tally, at_work)
        by_event = shares(events)
        for event, error in errors.items():
            share = by_event[event]
            low, high = max(share.value - error, 0.0), share.value + error
            by_event[event] = replace(share, low=low, high=high, scope="within_run")
        by_statement = shares(tally.stretches.statements(seconds, seed=_SEED))
        return cls(at_work, by_event, by_statement, frozenset(errors))

    def largest(self, count: int) -> list[tuple[str, Estimate]]:
        """Return the wait events with the largest shares, largest first."""
        return sorted(self.by_event.items(), key=lambda part: -part[1].value)[:count]

    def sessions(self, share: Estimate) -> Estimate:
        """Return a share of DB time as a number of sessions, with the errors of both factors."""
        assert self.sessions_at_work is not None, "a share is of something"
        mean = self.sessions_at_work.mean
        value = share.value * mean.value
        if share.low is None or share.high is None or mean.low is None or mean.high is None:
            return without_interval(value, "sessions")
        below = mean.value * (share.value - share.low), share.value * (mean.value - mean.low)
        above = mean.value * (share.high - share.value), share.value * (mean.high - mean.value)
        low, high = value - math.hypot(*below), value + math.hypot(*above)
        return Estimate(value, max(low, 0.0), high, share.n, "sessions", "within_run")


def _bound(samples: Sampled, tally: Tally, at_work: AtWork) -> tuple[Sampled, dict[str, float]]:
    """Return the samples, bound by the server's clocks of wait events, and the counted events.

    The clocks report as late as the count of sessions at work. So they are not used if this count
    is not, or if they exceed it.
    Returns: for each event that a clock counted alone, the half-width of the error of its share.
    """
    counted, mean = tally.counted_events(), at_work.mean.value
    clocks = [(events, sessions) for events, sessions, _ in counted]
    clocks_count = math.fsum(sessions for _, sessions in clocks)
    if at_work.how != "counted" or not 0 < clocks_count <= mean:
        return samples, {}

    def bound_rows(rows: FloatArray) -> dict[str, FloatArray]:
        whole = rows.sum(axis=1, keepdims=True)
        sessions = mean * rows / np.where(whole > 0, whole, 1.0)
        by_event = dict(zip(samples.events, sessions.T, strict=True))
        return bound(by_event, clocks, np.full(len(rows), mean), rows=len(rows))

    point, redrawn = bound_rows(samples.point_count[None, :]), bound_rows(samples.redrawn_count)
    whole = Sampled(
        tuple(point),
        np.array([count[0] for count in point.values()]),
        np.stack([redrawn[event] for event in point], axis=1),
        samples.block_count,
    )
    errors = {events[0]: error / mean for events, _, error in counted if len(events) == 1}
    return whole, errors


def _sessions(tally: Tally, work: WatchedWork) -> Document:
    at_work, samples = work.sessions_at_work, tally.total.wait_samples
    mean = at_work.mean if at_work is not None else None
    sampled = at_work.sampled if at_work is not None else None
    return {
        "mean": mean and mean.value,
        "low": mean and mean.low,
        "high": mean and mean.high,
        "how": at_work and at_work.how,
        "why_sampled": at_work.why_sampled if at_work is not None else "",
        "sampled_mean": sampled and sampled.value,
        "sampled_low": sampled and sampled.low,
        "sampled_high": sampled and sampled.high,
        "peak": tally.peak_sessions if samples else None,
        "samples": samples,
        "sightings": at_work.seen_count if at_work is not None else 0,
    }


def statement_of(
    watched: Watched, work: WatchedWork, query: int, *, before: Calls, after: Calls
) -> Document:
    """Return a statement's share of DB time, and the time of one call.

    `ms_per_call` is the figure of pg_stat_statements, which ends before a COMMIT waits for its
    flush. `db_ms_per_call` is DB time over calls, which includes this wait. Calls were counted over
    a slightly longer time than sessions, so one rate is divided by the other.
    """
    share = work.by_statement[str(query)]
    waits, text = watched.tally.total.by_statement[query], after.texts.get(query, "")
    row = _statement_row(work, query, share, waits, text)
    counted = grown(before, after, query)
    calls = counted[0] if counted else None
    call_ms = counted_ms(before, after) / calls if calls else None
    return row | {
        "calls": calls,
        "ms_per_call": counted[1] if counted else None,
        "db_ms_per_call": _times(row["sessions"], call_ms),
        "db_ms_per_call_low": _times(row["low"], call_ms),
        "db_ms_per_call_high": _times(row["high"], call_ms),
    }


def _statement_row(
    work: WatchedWork, query: int, share: Estimate, waits: Counter[str], text: str
) -> Document:
    """Return a statement of which no calls are counted."""
    part = work.sessions(share)
    return {
        "query_id": str(query),  # More digits than a JSON reader's floating point keeps.
        "text": text,
        "share_ratio": share.value,
        "share_low_ratio": share.low,
        "share_high_ratio": share.high,
        "sessions": part.value,
        "low": part.low,
        "high": part.high,
        "sightings": waits.total(),
        "calls": None,
        "ms_per_call": None,
        "db_ms_per_call": None,
        "db_ms_per_call_low": None,
        "db_ms_per_call_high": None,
        "waits": [
            {
                "wait_event": event or NOT_INSTRUMENTED,
                "sessions": part.value * seen / waits.total(),
                "share_ratio": seen / waits.total(),
            }
            for event, seen in waits.most_common(_EVENTS_OF_STATEMENT)
        ],
    }


def _without_id(work: WatchedWork, tally: Tally, text: str) -> Iterator[Document]:
    """Yield the sessions that waited for a lock before their statement had a query id."""
    waits = tally.total.by_statement.get(0, Counter())
    locks = Counter({name: seen for name, seen in waits.items() if name.startswith("Lock:")})
    if text and locks and (share := work.by_statement.get("0")) is not None:
        yield _statement_row(work, 0, share.scaled(locks.total() / waits.total(), ""), locks, text)


def _times(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _event(name: str, share: Estimate, work: WatchedWork) -> Document:
    """Return one wait event with its share of DB time (not of all waits)."""
    part = work.sessions(share)
    return {
        "wait_event": name or NOT_INSTRUMENTED,
        "sessions": part.value,
        "low": part.low,
        "high": part.high,
        "share_ratio": share.value,
        "how": "counted" if name in work.counted else "sampled",
    }


def _cost(watched: Watched) -> Document | None:
    if watched.cost_ns is None or not watched.lasted_ns:
        return None
    lab_ns, backend_ns = watched.cost_ns
    return {
        "lab_cores": lab_ns / watched.lasted_ns,
        "server_cores": backend_ns / watched.lasted_ns if watched.is_local else None,
    }
