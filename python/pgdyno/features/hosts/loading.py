"""Loads a dataset from all hosts of a fleet: the same interface as one engine has.

The first host leads: it creates tables and journal, and ends the load. Each host does some chains
of every stage. The journal of the load, a table in the database, tells all hosts what is done.
"""

from __future__ import annotations

import asyncio

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine import records
from pgdyno.engine.job import InitWork, Job, LoadShare
from pgdyno.features.hosts.fleet import Fleet
from pgdyno.features.hosts.merge import MergedLoading
from pgdyno.features.hosts.work import HostShare, HostsWork

_PROBES = 20


class HostsLoading(HostsWork):
    """A load of a dataset from all hosts.

    Args: job, whose `jobs` are the connections of all hosts: at least one each.
    """

    _probe_count = _PROBES

    def __init__(self, fleet: Fleet, job: Job, clock: ClockPair) -> None:
        assert isinstance(job.work, InitWork)
        self._work = job.work
        names = [host.name for host in fleet.hosts]
        super().__init__(fleet, job, clock, fleet.hosts, MergedLoading(names))

    def _job_of(self, share: HostShare) -> Job:
        place, count, jobs = share.place, len(self._hosts), self._work.jobs
        part = LoadShare(place=place, count=count)
        # 7 connections of 3 hosts: 2, 2 and 3.
        own_jobs = jobs * (place + 1) // count - jobs * place // count
        work = self._work.model_copy(update={"share": part, "jobs": max(1, own_jobs)})
        return self._job.model_copy(update={"work": work})

    async def _conduct(self) -> None:
        await self._begin_shares()
        leader, others = self._shares[0], self._shares[1:]
        followers = self._follow_all([leader])
        try:
            if await self._wait_until_ready([leader], followers):
                followers += self._follow_all(others)
            await asyncio.gather(*followers)
        finally:
            for follower in followers:
                follower.cancel()
        if (summary := self._merge.summary()) is not None:
            self._put(summary)

    def _lose(self, share: HostShare) -> None:
        """Stop the load: no other host does the part of a host that is lost."""
        super()._lose(share)
        # Before the leader is ready, the wait for it ends with the error.
        if not self._shares[0].is_ready or self._is_stopped:
            return
        time_ns = self._clock.unix_at(monotonic_ns())
        # A leader that lives writes this warning itself.
        if share.place == 0:
            why = "the load did not finish; its completed pieces are kept"
            unfinished = records.WarningKind.DATASET_UNFINISHED
            self._put(records.Warning_(time_ns=time_ns, kind=unfinished, message=why, hint=""))
        message = f"load host {share.host.name} was lost: {share.host.lost}"
        hint = "check that host, and load again"
        self._put(records.Failure(time_ns=time_ns, kind="init", message=message, hint=hint))
        self.stop()
