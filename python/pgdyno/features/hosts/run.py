"""Runs one load on all hosts of a fleet: the same interface as one engine has.

Order: probes of the clocks, a part for each host, all are ready, one start, records, probes again.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import IO, Any

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.job import Job, LoadWork, OpenLoop, Part
from pgdyno.engine.records import Summary
from pgdyno.engine.stream import EngineOutcome, OnRecord
from pgdyno.features.hosts.clocks import PROBES_AFTER, PROBES_BEFORE, drift_ppm
from pgdyno.features.hosts.facts import LoadHostFacts
from pgdyno.features.hosts.fleet import Fleet
from pgdyno.features.hosts.merge import Merge, Stream
from pgdyno.features.hosts.work import HostShare, HostsWork

# The order to start is this long before the start, or 20 times the worst round trip.
_NOTICE_NS = 100_000_000
# Fields of the first line of /proc/stat: user nice system idle iowait irq softirq steal.
_STEAL = 7


def parts_of(thread_count: int, host_count: int) -> list[Part]:
    """Return the threads of each host, as even as possible, in the order of the hosts.

    Args: thread_count, at least host_count.
    """
    ends = [thread_count * place // host_count for place in range(host_count + 1)]
    return [Part(first_thread=first, threads=end - first) for first, end in pairwise(ends)]


class HostsRun(HostsWork):
    """A load on all hosts. Each host runs some threads of the whole load."""

    _probe_count = PROBES_BEFORE

    def __init__(self, fleet: Fleet, job: Job, clock: ClockPair, *, log: IO[bytes]) -> None:
        work = job.work
        assert isinstance(work, LoadWork)
        # Fewer clients than hosts: the last hosts have nothing to do.
        hosts = fleet.hosts[: work.threads]
        self._streams = Merge([host.name for host in hosts])
        super().__init__(fleet, job, clock, hosts, self._streams)
        self._log = log
        self._work = work
        self._parts = parts_of(work.threads, len(hosts))
        self._start_ns = 0

    def run(self, on_record: OnRecord) -> EngineOutcome:
        """Do the load, and write the logs of all engines to the log of the run."""
        outcome = super().run(on_record)
        for share in self._shares:
            self._log.write(share.log.encode())
        self._log.flush()
        return outcome

    def _job_of(self, share: HostShare) -> Job:
        work = self._work.model_copy(update={"part": self._parts[share.place]})
        return self._job.model_copy(update={"work": work})

    async def _conduct(self) -> None:
        await self._begin_shares()
        followers = self._follow_all(self._shares)
        try:
            if await self._wait_until_ready(self._shares, followers):
                await self._start_all()
            await asyncio.gather(*followers)
        finally:
            for follower in followers:
                follower.cancel()
        if self._start_ns:
            present = [share for share in self._shares if not share.host.lost]
            await asyncio.gather(*map(self._end_share, present), return_exceptions=True)
        self._keep_facts()
        if (summary := self._merge.summary()) is not None:
            self._put(summary)

    async def _start_all(self) -> None:
        worst_ns = max(2 * share.before.error_ns for share in self._shares)
        self._start_ns = monotonic_ns() + max(_NOTICE_NS, 20 * worst_ns)
        self._is_under_way = True
        await asyncio.gather(
            *(
                self._order(share, f"start {self._start_ns + share.before.offset_ns}")
                for share in self._shares
            ),
            return_exceptions=True,
        )

    async def _end_share(self, share: HostShare) -> None:
        share.after = await self._fleet.offset(share.host, PROBES_AFTER)
        share.facts_after = await self._fleet.ask(share.host, "facts")

    def _keep_facts(self) -> None:
        start_ns = self._clock.unix_at(self._start_ns) if self._start_ns else None
        self.hosts = tuple(
            facts_of(
                share,
                self._streams.streams[share.place],
                self._parts[share.place],
                start_ns=start_ns,
                work=self._work,
            )
            for share in self._shares
        )


def facts_of(
    share: HostShare, sent: Stream, part: Part, *, start_ns: int | None, work: LoadWork
) -> LoadHostFacts:
    """Return the facts of one host.

    Args: part, its threads; start_ns, the instant of the common start in Unix time, None if there
    was none.
    """
    summary = sent.summary
    own = range(part.first_thread, part.first_thread + part.threads)
    clients = work.arrivals.clients
    facts: dict[str, Any] = {
        "name": share.host.name,
        "thread_count": part.threads,
        "client_count": sum(len(range(thread, clients, work.threads)) for thread in own),
        "transaction_count": 0,
        "measured_ns": 0,
        "clock_offset_ns": share.before.offset_ns,
        "clock_error_ns": share.before.error_ns,
        "core_count": share.host.core_count,
        "is_local": share.host.is_local,
        "lost": share.host.lost,
    }
    if share.after is not None:
        drift, error = drift_ppm(share.before, share.after)
        facts |= {"clock_drift_ppm": drift, "clock_drift_error_ppm": error}
    if summary is not None:
        facts |= _of_summary(summary, start_ns)
        if isinstance(work.arrivals, OpenLoop) and facts["measured_ns"]:
            facts["offered_tps"] = summary.counts.scheduled * 1e9 / facts["measured_ns"]
    elif sent.measured:
        last = sent.measured[0]
        facts["transaction_count"] = last.counts.completed
        # Phase 3 is the measured one.
        facts["measured_ns"] = last.time_ns - sent.begins_ns.get(3, last.time_ns)
        facts["cpu_ns"] = last.cpu_ns
    if share.facts_after:
        facts |= _used(share.facts_before, share.facts_after)
    return LoadHostFacts(**facts)


def _of_summary(summary: Summary, start_ns: int | None) -> dict[str, Any]:
    threads = summary.engine.threads
    span = summary.span("measure")
    began_ns = [thread.began_ns for thread in threads if thread.began_ns is not None]
    measured_ns = span.ended_ns - span.began_ns if span is not None else 0
    is_known = start_ns is not None and bool(began_ns)
    return {
        "transaction_count": summary.counts.completed,
        "measured_ns": measured_ns,
        "start_skew_ns": max(began_ns) - (start_ns or 0) if is_known else None,
        "cpu_ns": summary.engine.cpu_user_ns + summary.engine.cpu_system_ns,
        "busy_ratio": max((thread.busy_ratio for thread in threads), default=None),
        "timer_lag_ns_p99": max((thread.timer_lag_ns_p99 for thread in threads), default=None),
    }


def _used(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    ticks = [b - a for a, b in zip(before["cpu_ticks"], after["cpu_ticks"], strict=True)]
    total = sum(ticks)
    return {
        "worker_cpu_ns": after["worker_cpu_ns"] - before["worker_cpu_ns"],
        "steal_ratio": ticks[_STEAL] / total if total > 0 else None,
    }
