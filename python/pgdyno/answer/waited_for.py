"""Separates the part of a load that clients wait for from transaction types in the background.

The server counts all transactions. The latency is of the transactions that clients wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.where_facts import ANSWERING, Exchange, WaitSamples
from pgdyno.analysis.where_statements import StatementPlace
from pgdyno.analysis.where_types import TypeTimes, server_shares, type_fractions
from pgdyno.answer.server_time import ServerTime, is_pipelined
from pgdyno.engine.records import Summary, TimeDistribution
from pgdyno.loop.load_numbers import LoadNumbers, of_distribution
from pgdyno.store.stored_run import StoredRun

# Fewer exchanges during the load do not represent it.
_PROBES_MIN = 20
_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True, eq=False)
class WaitedFor:
    """The part of the load that clients wait for: all of it, except types in the background.

    `server_ratio`: share of the server's time. `trips_ratio`: share of the exchanges. `fractions`:
    shape (samples, types), how much of each sample belongs to each type. `samples`: the samples
    without the part of the background.
    """

    types: tuple[TypeTimes, ...]
    places: tuple[StatementPlace, ...]
    fractions: npt.NDArray[np.float64]
    samples: WaitSamples | None
    all_samples: WaitSamples | None
    server_ratio: float
    trips_ratio: float

    @property
    def background(self) -> set[str]:
        """Return the names of the types in the background."""
        return {kind.name for kind in self.types if kind.is_background}

    def core_ratio(self, backend_ns: float, active_ns: float | None) -> float:
        """Return the share of the time that backends were on a core or waited for one.

        Samples give the share inside statements. The rest is at both ends of exchanges.
        Args: backend_ns, this time of all backends; active_ns, their time in statements.
        """
        if self.samples is None or self.all_samples is None or not backend_ns or not active_ns:
            return self.server_ratio
        is_active = np.asarray(self.all_samples.event) != ANSWERING
        total = float(self.all_samples.session_count[is_active].sum())
        if not total:
            return self.server_ratio
        at_work = float(
            self.all_samples.session_count[np.asarray(self.all_samples.event) == ""].sum()
        )
        inside = min(active_ns * at_work / total / backend_ns, 1.0)
        return inside * self.event_ratio(("",)) + (1 - inside) * self.trips_ratio

    def event_ratio(self, events: tuple[str, ...]) -> float:
        """Return the share of the time in some wait events that clients wait for, from samples."""
        if self.samples is None or self.all_samples is None:
            return self.server_ratio
        inside = np.isin(np.asarray(self.all_samples.event), events)
        total = float(self.all_samples.session_count[inside].sum())
        mine = float(self.samples.session_count[inside].sum())
        return mine / total if total else self.server_ratio


def waited_for(
    stored: StoredRun, numbers: LoadNumbers, samples: WaitSamples | None, counted: ServerTime
) -> WaitedFor:
    """Return the part of a run's load that its clients wait for.

    The time of exchanges is the time from start to end of the transactions, minus the server's
    time. If the server kept no count, it is the time of exchanges without work.
    """
    summary = numbers.summary
    types = tuple(
        TypeTimes(
            name=shape.name,
            is_background=shape.is_background,
            ended_count=script.served.ended_count,
            held_ns=script.served.held_ns,
            round_trip_count=script.served.round_trips,
        )
        for shape, script in zip(numbers.scripts, summary.scripts, strict=True)
    )
    exchange_ns = (exchange_of(summary).ns or 0.0) + (reply_wait_ns(summary) or 0.0)
    trip_count = sum(kind.round_trip_count for kind in types)
    if counted.active_ms is not None and trip_count:
        # The time from start to end of the transactions, minus the time of the server.
        held_ns = sum(kind.held_ns for kind in types)
        exchange_ns = max(held_ns - counted.active_ms * 1e6, 0.0) / trip_count
    places = _places(stored, numbers, exchange_ns)
    # Results of an older engine do not have these numbers.
    if not any(kind.ended_count for kind in types):
        none = np.zeros((0, 0))
        return WaitedFor((), places, none, samples, samples, 1.0, 1.0)
    shares = server_shares(types, exchange_ns)
    fractions = np.zeros((0, len(types)))
    if samples is not None:
        fractions = type_fractions(samples, places, types, shares)
    front = np.array([not kind.is_background for kind in types])
    trips = np.array([kind.round_trip_count for kind in types], dtype=np.float64)
    mine = samples
    if samples is not None and not front.all():
        count = samples.session_count * fractions[:, front].sum(axis=1)
        mine = replace(samples, session_count=count)
    return WaitedFor(
        types=types,
        places=places,
        fractions=fractions,
        samples=mine,
        all_samples=samples,
        server_ratio=float(shares[front].sum()),
        trips_ratio=float(trips[front].sum() / trips.sum()) if trips.sum() else 1.0,
    )


def exchange_of(summary: Summary) -> Exchange:
    """Return how long an exchange without work takes, and the CPU time of both ends in it.

    Exchanges during the load are used if there are enough. Otherwise those before the load are
    used: their mean if the engine measured its parts; else their median, because one of the few
    exchanges may have been disturbed.
    """
    probes = summary.traffic.round_trip_probes
    if probes is not None and probes.count >= _PROBES_MIN:
        error_ns = _NORMAL_95 * probes.error_ns
        runnable_ns = probes.backend_runnable_ns
        if runnable_ns is not None:
            runnable_ns += probes.engine_runnable_ns
        return Exchange(probes.round_trip_ns, runnable_ns, probes.engine_runnable_ns, error_ns)
    idle = summary.distribution("round_trip")
    if idle is None:
        return Exchange()
    if summary.traffic.round_trip_runnable_ns is not None:
        return Exchange(mean_ns(idle), summary.traffic.round_trip_runnable_ns)
    return Exchange(of_distribution(idle).percentile_ns(50))


def reply_wait_ns(summary: Summary) -> float | None:
    """Return how long a reply waited for the engine, mean over its threads by their clients."""
    known = [t for t in summary.engine.threads if t.reply_wait_ns_mean is not None]
    clients = sum(thread.clients for thread in known)
    if not clients:
        return None
    return sum((t.reply_wait_ns_mean or 0) * t.clients for t in known) / clients


def _places(
    stored: StoredRun, numbers: LoadNumbers, exchange_ns: float
) -> tuple[StatementPlace, ...]:
    """Return every statement of the run's scripts with its query identifiers, if it has any."""
    known: Mapping[str, Mapping[str, list[int]]] = stored.server_json.get("query_ids") or {}
    timed = {
        (distribution["script"], distribution["statement"]): (
            int(distribution["count"]),
            int(distribution["sum_ns"]),
        )
        for distribution in stored.statements
    }
    places = []
    sources = stored.job.get("work", {}).get("scripts", ())
    # A native program is one script of the job, and each of its types is one here.
    pipelined = {source["name"] for source in sources if is_pipelined(source)}
    for number, (shape, script) in enumerate(
        zip(numbers.scripts, numbers.summary.scripts, strict=True)
    ):
        mine = [timed.get((number, i), (0, 0)) for i in range(len(shape.statements))]
        # Each statement of a pipeline is timed from the start of the pipeline. The statements of
        # transactions that had not ended are timed, too, so sums do not tell a pipeline.
        is_pipeline = (shape.program or shape.name) in pipelined
        is_apart = sum(ns for _, ns in mine) > 0 and not is_pipeline
        for statement, (calls, sum_ns) in zip(shape.statements, mine, strict=True):
            places.append(
                StatementPlace(
                    script=shape.name,
                    line=statement.line,
                    text=statement.text,
                    calls=calls if is_apart else script.counts.completed,
                    query_ids=tuple(known.get(shape.name, {}).get(str(statement.line), ())),
                    server_ns=max(sum_ns - calls * exchange_ns, 0.0) if is_apart else None,
                    writes=not shape.reads_only,
                )
            )
    return tuple(places)


def mean_ns(distribution: TimeDistribution) -> float:
    """Return the mean of a distribution of a record, 0 if it is empty."""
    return distribution.sum_ns / distribution.count if distribution.count else 0.0
