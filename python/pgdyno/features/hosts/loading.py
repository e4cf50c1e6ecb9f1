"""Loads a dataset from all hosts of a fleet: the same interface as one engine has.

The first host leads: it creates tables and journal, and ends the load. Each host does some chains
of every stage. The journal of the load, a table in the database, tells all hosts what is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine import records
from pgdyno.engine.job import InitWork, Job, LoadShare
from pgdyno.features.hosts.fleet import Fleet
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


class MergedLoading:
    """Adds the progress of all hosts up."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._begun: set[str] = set()
        self._rows: dict[str, dict[int, records.Progress]] = {}
        self._pieces: dict[str, dict[int, records.Pieces]] = {}
        self._summaries: list[records.Summary] = []

    def add(self, place: int, record: records.Record) -> Iterator[records.Record]:
        """Take one record of a host; yield that of the whole load. Ends of phases are left out.

        A host reports its share of the rows done, but the rows of the whole table as `rows_total`;
        its `total_count` of pieces is that of its share.
        """
        if isinstance(record, records.Progress):
            rows = self._rows.setdefault(record.table, {})
            rows[place] = record
            done = sum(part.rows_done for part in rows.values())
            yield record.model_copy(update={"rows_done": min(done, record.rows_total)})
        elif isinstance(record, records.Pieces):
            pieces = self._pieces.setdefault(record.phase, {})
            pieces[place] = record
            done = sum(part.done_count for part in pieces.values())
            total = sum(part.total_count for part in pieces.values())
            yield record.model_copy(update={"done_count": done, "total_count": total})
        elif isinstance(record, records.Summary):
            self._summaries.append(record)
        elif isinstance(record, records.Phase):
            if record.event == "begin" and record.phase not in self._begun:
                self._begun.add(record.phase)
                yield record
        elif isinstance(record, records.Failure) or (
            isinstance(record, records.Warning_) and place > 0
        ):
            words = f"load host {self._names[place]}: {record.message}"
            yield record.model_copy(update={"message": words})
        elif not isinstance(record, records.Hello) or place == 0:
            yield record

    def lose(self, place: int) -> Iterator[records.Record]:
        """Do nothing: no record waits for another host."""
        del place
        return iter(())

    def summary(self) -> records.Summary | None:
        """Return the summary with the rows and bytes of all hosts; None if no host has one."""
        known = self._summaries
        if not known:
            return None
        endings = {summary.ending for summary in known}
        worst = next(end for end in ("aborted", "stopped", "completed") if end in endings)
        facts = [summary.init for summary in known if summary.init is not None]
        total = facts[0].model_copy(
            update={
                "rows": sum(part.rows for part in facts),
                "bytes_sent": sum(part.bytes_sent for part in facts),
            }
        )
        return known[0].model_copy(update={"ending": worst, "init": total})
