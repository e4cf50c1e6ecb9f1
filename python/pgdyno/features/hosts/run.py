"""Runs one load on all hosts of a fleet: the same interface as one engine has.

Order: probes of the clocks, a part for each host, all are ready, one start, records, probes again.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import IO

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.job import Job, LoadWork, Part
from pgdyno.engine.stream import EngineOutcome, OnRecord
from pgdyno.features.hosts.clocks import PROBES_AFTER, PROBES_BEFORE
from pgdyno.features.hosts.facts import facts_of
from pgdyno.features.hosts.fleet import Fleet
from pgdyno.features.hosts.merge import Merge
from pgdyno.features.hosts.work import HostShare, HostsWork

# The order to start is this long before the start, or 20 times the worst round trip.
_NOTICE_NS = 100_000_000


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
