"""Adds the summaries of several engines up: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

from pydantic import BaseModel

from pgdyno.engine import records

M = TypeVar("M", bound=BaseModel)


def summed(models: Sequence[M], **own: Any) -> M:
    """Return the sum of several models: numbers add up, lists are joined, parts are summed in turn.

    A number that one model lacks is unknown. Of texts, the first counts.
    Args: own, the values of fields that follow another rule.
    """
    kind = type(models[0])
    names = kind.model_fields.keys() - own.keys()
    return kind(**own, **{name: _sum([getattr(model, name) for model in models]) for name in names})


def _sum(values: Sequence[Any]) -> Any:
    first = values[0]
    if any(value is None for value in values):
        return None
    if isinstance(first, BaseModel):
        return summed(values)
    if isinstance(first, tuple):
        return tuple(chain.from_iterable(values))
    if isinstance(first, dict):
        names = dict.fromkeys(chain.from_iterable(values))
        return {name: _sum([own[name] for own in values if name in own]) for name in names}
    return first if isinstance(first, str) else sum(values)


def added(sum_so_far: Sequence[records.Interval], interval: records.Interval) -> records.Interval:
    """Return an interval with the events of both, at the time of the later part."""
    if not sum_so_far:
        return interval
    (known,) = sum_so_far
    pairs = zip(known.completed_by_script, interval.completed_by_script, strict=True)
    return interval.model_copy(
        update={
            "time_ns": max(known.time_ns, interval.time_ns),
            "interval_ns": max(known.interval_ns, interval.interval_ns),
            "counts": summed([known.counts, interval.counts]),
            "completed_by_script": tuple(a + b for a, b in pairs),
            "latency_sum_ns": known.latency_sum_ns + interval.latency_sum_ns,
        }
    )


def merged_distributions(
    known: Iterable[records.TimeDistribution],
) -> list[records.TimeDistribution]:
    """Return one distribution for each duration, script and statement: the buckets add up."""
    groups: dict[tuple[Any, ...], list[records.TimeDistribution]] = {}
    for part in known:
        groups.setdefault((part.measured, part.script, part.statement), []).append(part)
    return [_merged(group) for group in groups.values()]


def _merged(group: Sequence[records.TimeDistribution]) -> records.TimeDistribution:
    buckets: dict[int, int] = {}
    for part in group:
        for bucket, count in part.buckets:
            buckets[bucket] = buckets.get(bucket, 0) + count
    filled = [part for part in group if part.count] or [group[0]]
    same = {name: getattr(group[0], name) for name in ("measured", "script", "statement")}
    return records.TimeDistribution(
        **same,
        count=sum(part.count for part in group),
        sum_ns=sum(part.sum_ns for part in group),
        min_ns=min(part.min_ns for part in filled),
        max_ns=max(part.max_ns for part in filled),
        buckets=tuple(sorted(buckets.items())),
    )


def of_lost_host(
    measured: records.Interval, distributions: Sequence[records.TimeDistribution], script_count: int
) -> records.Summary:
    """Return what is known of a host that was lost in the measured phase, as a summary."""
    counts = measured.counts
    started = counts.completed + counts.failed + measured.in_flight
    counts = counts.model_copy(
        update={
            "started": started,
            "unfinished": measured.in_flight,
            "scheduled": started + counts.skipped + counts.not_started,
        }
    )
    completed = (*measured.completed_by_script, *[0] * script_count)[:script_count]
    return records.Summary(
        time_ns=measured.time_ns,
        ending="aborted",
        phases=(),
        counts=counts,
        transactions_committed_all_phases=counts.completed,
        scripts=tuple(
            records.ScriptCounts(
                counts=records.Counts(scheduled=count, started=count, completed=count), failures={}
            )
            for count in completed
        ),
        failures={},
        distributions=tuple(distributions),
        unfinished_ages_ns=(),
        clients=records.ClientTimes(),
        connections=records.ConnectionFacts(lost_count=0, reconnect_count=0),
        traffic=records.TrafficFacts(round_trips=0, bytes_sent=0, bytes_received=0),
        engine=records.EngineUsage(
            cpu_user_ns=0, cpu_system_ns=0, resident_bytes_max=0, threads=()
        ),
    )


def whole(known: Sequence[records.Summary]) -> records.Summary:
    """Return the summary of a load from those of its hosts; at least part.

    Limits: the fairness over the clients of several hosts is unknown; the longest gap is one that
    all hosts share, and may not be the longest.
    """
    if len(known) == 1:
        return known[0]
    present = [part for part in known if part.phases]
    endings = [part.ending for part in present]
    pauses = _known_sums([part.clients for part in present])
    distributions = merged_distributions(d for part in known for d in part.distributions)
    return summed(
        known,
        time_ns=max(part.time_ns for part in known),
        ending=next((e for e in ("aborted", "stopped") if e in endings), "completed"),
        phases=_spans(known),
        scripts=tuple(map(summed, zip(*(part.scripts for part in known), strict=True))),
        failure_messages=_sum([part.failure_messages or {} for part in known]),
        failed_statements=_failed(known),
        distributions=tuple(distributions),
        unfinished_ages_ns=tuple(sorted(age for part in known for age in part.unfinished_ages_ns)),
        longest_gap=_gap(present),
        clients=summed([part.clients for part in known], **pauses, fairness=None),
        connections=summed(
            [part.connections for part in known],
            idle=_idle([part.connections.idle for part in known]),
            hosts=_served([host for part in known for host in part.connections.hosts]),
        ),
        traffic=_traffic([part.traffic for part in known]),
    )


def _spans(known: Sequence[records.Summary]) -> tuple[records.PhaseSpan, ...]:
    """Return each phase from its first begin to its last end on any host."""
    names = dict.fromkeys(span.phase for part in known for span in part.phases)
    spans = []
    for name in names:
        own = [span for part in known for span in part.phases if span.phase == name]
        began_ns = min(span.began_ns for span in own)
        spans.append(
            records.PhaseSpan(phase=name, began_ns=began_ns, ended_ns=max(s.ended_ns for s in own))
        )
    return tuple(spans)


def _gap(known: Sequence[records.Summary]) -> records.Gap | None:
    gaps = [part.longest_gap for part in known]
    present = [gap for gap in gaps if gap is not None]
    if not present or len(present) < len(gaps):
        return None
    began_ns = max(gap.began_ns for gap in present)
    ended_ns = min(gap.ended_ns for gap in present)
    return records.Gap(began_ns=began_ns, ended_ns=ended_ns) if began_ns < ended_ns else None


def _known_sums(present: Sequence[records.ClientTimes]) -> dict[str, int | None]:
    """Return times that only some engines can tell, of the hosts that told their end."""
    names = ("between_transactions_ns", "think_time_ns")
    return {
        name: _sum([getattr(times, name) for times in present]) if present else None
        for name in names
    }


def _served(known: Sequence[records.HostFacts]) -> tuple[records.HostFacts, ...]:
    """Return what each host of the server served, over all load hosts."""
    by_place: dict[tuple[str, int], list[records.HostFacts]] = {}
    for facts in known:
        by_place.setdefault((facts.host, facts.port), []).append(facts)
    return tuple(summed(group, port=port) for (_, port), group in by_place.items())


def _idle(known: Sequence[records.IdleFacts | None]) -> records.IdleFacts | None:
    present = [part for part in known if part is not None]
    return summed(present) if present else None


def _traffic(known: Sequence[records.TrafficFacts]) -> records.TrafficFacts:
    waits = [part.round_trip_runnable_ns for part in known]
    present = [value for value in waits if value is not None]
    return summed(
        known,
        round_trip_runnable_ns=sum(present) // len(present) if present else None,
        round_trip_probes=_probes([p for part in known if (p := part.round_trip_probes)]),
    )


def _probes(known: Sequence[records.RoundTripProbes]) -> records.RoundTripProbes | None:
    """Return means over the probes of all hosts."""
    count = sum(part.count for part in known)
    if not count:
        return None

    def mean(name: str) -> int:
        return int(sum(getattr(part, name) * part.count for part in known) // count)

    has_backend = all(part.backend_runnable_ns is not None for part in known)
    variance = sum((part.error_ns * part.count / count) ** 2 for part in known)
    return records.RoundTripProbes(
        count=count,
        round_trip_ns=mean("round_trip_ns"),
        engine_runnable_ns=mean("engine_runnable_ns"),
        backend_runnable_ns=mean("backend_runnable_ns") if has_backend else None,
        error_ns=round(variance**0.5),
    )


def _failed(known: Sequence[records.Summary]) -> tuple[records.FailedStatement, ...]:
    """Return the failures of all parts: of each kind the sum, with the first message."""
    kinds: dict[tuple[object, ...], records.FailedStatement] = {}
    for failed in (failed for part in known for failed in part.failed_statements or ()):
        kind = failed.script, failed.line, failed.code
        before = kinds.get(kind)
        count = failed.count + (before.count if before else 0)
        kinds[kind] = (before or failed).model_copy(update={"count": count})
    return tuple(kinds.values())
