"""Runs one load on all hosts of a fleet: the same interface as one engine has.

Order: probes of the clocks, a part for each host, all are ready, one start, records, probes again.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, Any

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.job import ClockPairModel, Job, LoadWork, Part
from pgdyno.engine.records import Failure, Ready, Record, parse_record
from pgdyno.engine.stream import EngineOutcome, OnRecord
from pgdyno.errors import EngineError, InterruptedByUser, PgdynoError
from pgdyno.hosts.clocks import PROBES_AFTER, PROBES_BEFORE, Offset
from pgdyno.hosts.facts import LoadHostFacts, facts_of
from pgdyno.hosts.fleet import Fleet, Host
from pgdyno.hosts.merge import Merge

# The order to start is this long before the start, or 20 times the worst round trip.
_NOTICE_NS = 100_000_000
_RECORDS_EVERY_S = 1.0
_SILENCE_S = 5.0
_STOP_GRACE_S = 15.0


@dataclass(slots=True)
class Share:
    """What one host does in one run. `before`, `after`: the offset of its clock."""

    host: Host
    part: Part
    run: str
    place: int
    before: Offset
    after: Offset | None = None
    is_ready: bool = False
    is_over: bool = False
    received_count: int = 0
    exit_code: int = 0
    log: str = ""
    facts_before: dict[str, Any] = field(default_factory=dict)
    facts_after: dict[str, Any] = field(default_factory=dict)


def parts_of(thread_count: int, host_count: int) -> list[Part]:
    """Return the threads of each host, as even as possible, in the order of the hosts.

    Args: thread_count, at least host_count.
    """
    ends = [thread_count * place // host_count for place in range(host_count + 1)]
    return [Part(first_thread=first, threads=end - first) for first, end in pairwise(ends)]


def threads_over(fleet: Fleet, connections: int, asked: int | None) -> int:
    """Return the number of threads of the whole load, at most one for each connection.

    By default each host has as many as it would have alone; workers on this host share its cores.
    """
    count = len(fleet.hosts)
    if asked is None:
        cores = min(host.core_count for host in fleet.hosts)
        if fleet.asked.local_count:
            cores //= count
        asked = count * min(8, max(1, cores // 2))
    return min(connections, max(asked, count))


class HostsRun:
    """A load on all hosts; use it as a context manager: no engine outlives the block."""

    pid = None

    def __init__(
        self, fleet: Fleet, job: Job, clock: ClockPair, *, threads: int, log: IO[bytes]
    ) -> None:
        work = job.work
        assert isinstance(work, LoadWork)
        self._fleet, self._job, self._clock, self._log = fleet, job, clock, log
        self._work = work.model_copy(update={"threads": threads})
        # Fewer clients than hosts: the last hosts have nothing to do.
        self._hosts = fleet.hosts[:threads]
        self._records: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._merge = Merge([host.name for host in self._hosts])
        self._shares: list[Share] = []
        self._is_stopped = False
        self._start_ns = 0
        self._failures: list[Failure] = []
        self.hosts: tuple[LoadHostFacts, ...] = ()

    def __enter__(self) -> HostsRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.call(self._forget(), _SILENCE_S)

    def stop(self) -> None:
        """Ask for an early, clean end on every host."""
        self._is_stopped = True
        self._fleet.start(self._order_all("stop"))

    def run(self, on_record: OnRecord) -> EngineOutcome:
        """Pass every record of the whole load to `on_record` until all engines have ended.

        The first SIGINT or SIGTERM stops the engines, and is in the outcome.
        Raises: EngineError if a host is lost or refuses before the load begins.
        """
        conduct = self._fleet.start(self._conduct())
        conduct.add_done_callback(lambda _: self._fleet.wake())
        interrupted: InterruptedByUser | None = None
        deadline_ns = None
        while not (conduct.done() and self._records.empty()):
            try:
                self._fleet.wait(0.5)
            except InterruptedByUser as signal_seen:
                interrupted = signal_seen
                deadline_ns = monotonic_ns() + int(_STOP_GRACE_S * 1e9)
                self.stop()
            while not self._records.empty():
                record = self._records.get()
                if isinstance(record, Failure):
                    self._failures.append(record)
                on_record(record.model_dump_json(exclude_none=True).encode(), record)
            if deadline_ns is not None and monotonic_ns() > deadline_ns:
                conduct.cancel()
                break
        if not conduct.cancelled() and (error := conduct.exception()) is not None:
            raise error if interrupted is None else interrupted
        for share in self._shares:
            self._log.write(share.log.encode())
        self._log.flush()
        summary = self._merge.summary()
        codes = [share.exit_code for share in self._shares if not share.host.lost]
        tail = " ".join(share.log for share in self._shares)
        return EngineOutcome(
            summary, tuple(self._failures), max(codes, default=2), interrupted, tail[-2000:]
        )

    async def _conduct(self) -> None:
        await asyncio.gather(*(self._begin_share(place) for place in range(len(self._hosts))))
        self._shares.sort(key=lambda share: share.place)
        tasks = [self._submit(share) for share in self._shares]
        followers = [
            asyncio.ensure_future(self._follow(share, task))
            for share, task in zip(self._shares, tasks, strict=True)
        ]
        try:
            if await self._all_ready(followers):
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

    async def _begin_share(self, place: int) -> None:
        """Look at a host: its clock, and whether it can reach the server. Raises: EngineError."""
        fleet, host = self._fleet, self._hosts[place]
        if host.lost:
            raise _lost_before(host, host.lost)
        part = parts_of(self._work.threads, len(self._hosts))[place]
        servers = [[h.host, h.hostaddr, h.port] for h in self._job.target.hosts]
        try:
            await fleet.ask(host, "reach", timeout_s=20.0, hosts=servers)
            before = await fleet.offset(host, PROBES_BEFORE)
            facts = await fleet.ask(host, "facts")
        except EngineError as error:
            error.hint = error.hint or "name the server so that every load host reaches it"
            raise
        except (OSError, TimeoutError) as error:
            raise _lost_before(host, str(error) or type(error).__name__) from None
        run = f"{secrets.token_hex(8)}-{place}"
        self._shares.append(Share(host, part, run, place, before, facts_before=facts))

    def _submit(self, share: Share) -> Any:
        """Send a host its part: the job of the whole load, with its own threads and its own clock.

        The pair of clocks contains the offset, so every time in its records is in our time.
        """
        clock = ClockPairModel(
            monotonic_ns=self._clock.monotonic_ns + share.before.offset_ns,
            unix_ns=self._clock.unix_ns,
        )
        work = self._work.model_copy(update={"part": share.part})
        job = self._job.model_copy(update={"clock": clock, "work": work})
        return self._fleet.submit(share.host, share.run, job.to_line().decode())

    async def _follow(self, share: Share, task: Any) -> None:
        """Take a host's records until its engine has ended or the host is lost."""
        try:
            while not share.is_over:
                is_loading = bool(self._start_ns)
                answer = await self._fleet.ask(
                    share.host,
                    "records",
                    timeout_s=_RECORDS_EVERY_S + _SILENCE_S,
                    run=share.run,
                    after=share.received_count,
                    wait_s=_RECORDS_EVERY_S,
                    at_once=not is_loading,
                )
                self._take(share, answer)
                if task.status == "error":
                    raise await task.exception()
        except (OSError, TimeoutError, PgdynoError) as error:
            share.host.lost = await self._why_lost(share.host, error)
            share.is_over = True
            for record in self._merge.lose(share.place):
                self._put(record)

    async def _why_lost(self, host: Host, error: BaseException) -> str:
        """Return why a host is lost, with the end of its worker if we started it."""
        if isinstance(error, PgdynoError):
            return error.message.removeprefix(f"Load host {host.name}: ")
        for _ in range(10):
            if host.process is not None and (code := host.process.poll()) is not None:
                return f"its worker ended with code {code}"
            await asyncio.sleep(0.02)
        if isinstance(error, TimeoutError):
            return f"it did not answer for {_SILENCE_S:g} s"
        return "the connection to its worker was closed"

    def _take(self, share: Share, answer: dict[str, Any]) -> None:
        if answer["first"] != share.received_count:
            raise EngineError(
                f"records {share.received_count} to {answer['first'] - 1} did not arrive"
            )
        for line in answer["lines"]:
            share.received_count += 1
            record = parse_record(line)
            if isinstance(record, Ready):
                share.is_ready = True
                continue
            for merged in self._merge.add(share.place, record):
                self._put(merged)
            if isinstance(record, Failure) and not self._is_stopped:
                self.stop()
        if answer["code"] is None:
            return
        share.is_over, share.exit_code, share.log = True, answer["code"], answer["log"]
        stream = self._merge.streams[share.place]
        if stream.summary is None and not self._failed_by_record(share):
            why = answer["ended_why"] or f"its engine ended with code {share.exit_code}"
            raise EngineError(why)
        for merged in self._merge.lose(share.place):
            self._put(merged)

    def _failed_by_record(self, share: Share) -> bool:
        """Return whether the engine said itself why it ended."""
        return share.exit_code == 1

    async def _all_ready(self, followers: Sequence[asyncio.Future[None]]) -> bool:
        """Wait until every host is ready; return False if the load is to end instead.

        Raises: EngineError if a host was lost.
        """
        while not all(share.is_ready for share in self._shares):
            lost = next((share.host for share in self._shares if share.host.lost), None)
            if lost is not None:
                await self._order_all("stop")
                raise _lost_before(lost, lost.lost)
            if self._is_stopped or any(share.is_over for share in self._shares):
                await self._order_all("stop")
                return False
            await asyncio.wait(followers, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
        return not self._is_stopped

    async def _start_all(self) -> None:
        worst_ns = max(2 * share.before.error_ns for share in self._shares)
        self._start_ns = monotonic_ns() + max(_NOTICE_NS, 20 * worst_ns)
        await asyncio.gather(
            *(
                self._order(share, f"start {self._start_ns + share.before.offset_ns}")
                for share in self._shares
            ),
            return_exceptions=True,
        )

    async def _order(self, share: Share, order: str) -> None:
        await self._fleet.ask(share.host, "order", run=share.run, order=order)

    async def _order_all(self, order: str) -> None:
        present = [share for share in self._shares if not (share.is_over or share.host.lost)]
        orders = (self._order(share, order) for share in present)
        await asyncio.gather(*orders, return_exceptions=True)

    async def _end_share(self, share: Share) -> None:
        share.after = await self._fleet.offset(share.host, PROBES_AFTER)
        share.facts_after = await self._fleet.ask(share.host, "facts")

    def _keep_facts(self) -> None:
        start_ns = self._clock.unix_at(self._start_ns) if self._start_ns else None
        self.hosts = tuple(
            facts_of(share, self._merge.streams[share.place], start_ns, self._work)
            for share in self._shares
        )

    async def _forget(self) -> None:
        present = [share for share in self._shares if not share.host.lost]
        forgetting = (self._fleet.ask(share.host, "forget", run=share.run) for share in present)
        await asyncio.gather(*forgetting, return_exceptions=True)

    def _put(self, record: Record) -> None:
        self._records.put(record)
        self._fleet.wake()


def _lost_before(host: Host, why: str) -> EngineError:
    error = EngineError(
        f"Load host {host.name} was lost before the load began: {why.rstrip('.')}.",
        hint=host.last_words() or "look at that host, then measure again",
    )
    error.has_run = False
    return error
