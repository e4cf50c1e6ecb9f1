"""Work that several hosts share, from their clocks to their last record.

A subclass says which part each host has, when the parts begin, and how their records add up.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.job import ClockPairModel, Job
from pgdyno.engine.records import Failure, Ready, Record, Summary, parse_record
from pgdyno.engine.stream import EngineOutcome, OnRecord
from pgdyno.errors import EngineError, InterruptedByUser, PgdynoError
from pgdyno.features.hosts.clocks import ClockOffset
from pgdyno.features.hosts.facts import LoadHostFacts
from pgdyno.features.hosts.fleet import Fleet
from pgdyno.features.hosts.merge import Merge, MergedLoading
from pgdyno.features.hosts.starting import Host

_RECORDS_EVERY_S = 1.0
SILENCE_S = 5.0
_STOP_GRACE_S = 15.0
_STOP_TRIES = 40


@dataclass(slots=True)
class HostShare:
    """What one host does in one run. `before`, `after`: the offset of its clock."""

    host: Host
    run: str
    place: int
    before: ClockOffset
    after: ClockOffset | None = None
    is_ready: bool = False
    is_over: bool = False
    has_summary: bool = False
    received_count: int = 0
    exit_code: int = 0
    log: str = ""
    facts_before: dict[str, Any] = field(default_factory=dict)
    facts_after: dict[str, Any] = field(default_factory=dict)


class HostsWork(ABC):
    """One work of all hosts; use it as a context manager: no engine outlives the block."""

    pid = None
    hosts: tuple[LoadHostFacts, ...] = ()
    _probe_count: int

    def __init__(
        self,
        fleet: Fleet,
        job: Job,
        clock: ClockPair,
        hosts: list[Host],
        merge: Merge | MergedLoading,
    ) -> None:
        self._fleet, self._job, self._clock, self._hosts = fleet, job, clock, hosts
        self._merge = merge
        self._records: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._shares: list[HostShare] = []
        self._is_stopped = False
        self._is_under_way = False
        self._failures: list[Failure] = []

    def __enter__(self) -> HostsWork:
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.call(self._forget(), SILENCE_S)

    @abstractmethod
    async def _conduct(self) -> None:
        """Do the work: begin with `_begin_shares`, and put the merged summary at the end."""

    @abstractmethod
    def _job_of(self, share: HostShare) -> Job:
        """Return the job of one host; its clock is not yet that of the host."""

    def stop(self) -> None:
        """Ask for an early, clean end on every host."""
        self._is_stopped = True
        self._fleet.start(self._stop_all())

    def run(self, on_record: OnRecord) -> EngineOutcome:
        """Pass every record of the whole work to `on_record` until all engines have ended.

        The first SIGINT or SIGTERM stops the engines, and is in the outcome.
        Raises: EngineError if a host is lost or refuses before the work begins.
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
        summary = self._merge.summary()
        codes = [share.exit_code for share in self._shares if not share.host.lost]
        return EngineOutcome(
            summary,
            tuple(self._failures),
            max(codes, default=2),
            interrupted,
            self._log_text()[-2000:],
        )

    def _log_text(self) -> str:
        lost = [share.host for share in self._shares if share.host.lost]
        words = [f"load host {host.name} was lost: {host.lost}." for host in lost]
        return " ".join([*(share.log for share in self._shares if share.log), *words])

    async def _begin_shares(self) -> None:
        """Look whether all hosts reach the server, and at their clocks. Raises: EngineError."""
        places = range(len(self._hosts))
        reasons = await asyncio.gather(*map(self._why_unreached, self._hosts))
        unreached = [
            f"load host {host.name} cannot reach the server: {why}"
            for host, why in zip(self._hosts, reasons, strict=True)
            if why
        ]
        if unreached:
            words = "; ".join(unreached)
            error = EngineError(
                f"{words[:1].upper()}{words[1:]}.",
                hint="allow it in the firewall, or name the server as every load host knows it",
            )
            error.has_run = False
            raise error
        await asyncio.gather(*map(self._begin_share, places))
        self._shares.sort(key=lambda share: share.place)

    async def _why_unreached(self, host: Host) -> str:
        if host.lost:
            raise lost_before(host, host.lost)
        servers = [[h.host, h.hostaddr, h.port] for h in self._job.target.hosts]
        try:
            answer = await self._fleet.ask(host, "reach", timeout_s=20.0, hosts=servers)
        except (OSError, TimeoutError) as error:
            raise lost_before(host, str(error) or type(error).__name__) from None
        return str(answer["unreached"])

    async def _begin_share(self, place: int) -> None:
        fleet, host = self._fleet, self._hosts[place]
        try:
            before = await fleet.offset(host, self._probe_count)
            facts = await fleet.ask(host, "facts")
        except (OSError, TimeoutError) as error:
            raise lost_before(host, str(error) or type(error).__name__) from None
        run = f"{fleet.experiment}-{secrets.token_hex(4)}-{place}"
        self._shares.append(HostShare(host, run, place, before, facts_before=facts))

    def _follow_all(self, shares: Iterable[HostShare]) -> list[asyncio.Future[None]]:
        """Send hosts their parts, and take the records of each until it has ended."""
        return [asyncio.ensure_future(self._follow(share, self._submit(share))) for share in shares]

    def _submit(self, share: HostShare) -> Any:
        """Send a host its part, with its own clock.

        The pair of clocks contains the offset, so every time in its records is in our time.
        """
        clock = ClockPairModel(
            monotonic_ns=self._clock.monotonic_ns + share.before.offset_ns,
            unix_ns=self._clock.unix_ns,
        )
        job = self._job_of(share).model_copy(update={"clock": clock})
        return self._fleet.submit(share.host, share.run, job.to_line().decode())

    async def _follow(self, share: HostShare, task: Any) -> None:
        """Take a host's records until its engine has ended or the host is lost."""
        try:
            while not share.is_over:
                answer = await self._fleet.ask(
                    share.host,
                    "records",
                    timeout_s=_RECORDS_EVERY_S + SILENCE_S,
                    run=share.run,
                    after=share.received_count,
                    wait_s=_RECORDS_EVERY_S,
                    at_once=not self._is_under_way,
                )
                self._take(share, answer)
                if task.status == "error":
                    raise await task.exception()
        except (OSError, TimeoutError, PgdynoError) as error:
            share.host.lost = await self._why_lost(share.host, error)
            share.is_over = True
            self._lose(share)

    def _lose(self, share: HostShare) -> None:
        """Go on without a host that is lost."""
        self._put_all(self._merge.lose(share.place))

    async def _why_lost(self, host: Host, error: BaseException) -> str:
        """Return why a host is lost, with the end of its worker if we started it."""
        if isinstance(error, PgdynoError):
            return error.message.removeprefix(f"Load host {host.name}: ")
        for _ in range(10):
            if (code := host.exit_code()) is not None:
                return f"its worker ended with code {code}"
            await asyncio.sleep(0.02)
        if isinstance(error, TimeoutError):
            return f"it did not answer for {SILENCE_S:g} s"
        return "the connection to its worker was closed"

    def _take(self, share: HostShare, answer: dict[str, Any]) -> None:
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
            share.has_summary |= isinstance(record, Summary)
            self._put_all(self._merge.add(share.place, record))
            if isinstance(record, Failure) and not self._is_stopped:
                self.stop()
        if answer["code"] is None:
            return
        share.is_over, share.exit_code, share.log = True, answer["code"], answer["log"]
        # An engine that ends with code 1 has said itself why.
        if not share.has_summary and share.exit_code != 1:
            raise EngineError(
                answer["ended_why"] or f"its engine ended with code {share.exit_code}"
            )
        self._put_all(self._merge.lose(share.place))

    async def _wait_until_ready(
        self, shares: list[HostShare], followers: list[asyncio.Future[None]]
    ) -> bool:
        """Wait until these hosts are ready; return False if the work is to end instead.

        Raises: EngineError if a host was lost.
        """
        while not all(share.is_ready for share in shares):
            lost = next((share.host for share in shares if share.host.lost), None)
            if lost is not None:
                await self._stop_all()
                raise lost_before(lost, lost.lost)
            if self._is_stopped or any(share.is_over for share in shares):
                await self._stop_all()
                return False
            await asyncio.wait(followers, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
        return not self._is_stopped

    async def _order(self, share: HostShare, order: str) -> None:
        await self._fleet.ask(share.host, "order", run=share.run, order=order)

    async def _stop_all(self) -> None:
        async def stop(share: HostShare) -> None:
            # An engine that was just sent may not have started.
            for _ in range(_STOP_TRIES):
                if share.is_over or share.host.lost:
                    return
                with contextlib.suppress(EngineError):
                    await self._order(share, "stop")
                    return
                await asyncio.sleep(0.05)

        await asyncio.gather(*map(stop, self._shares), return_exceptions=True)

    async def _forget(self) -> None:
        present = [share for share in self._shares if not share.host.lost]
        forgetting = (self._fleet.ask(share.host, "forget", run=share.run) for share in present)
        await asyncio.gather(*forgetting, return_exceptions=True)

    def _put(self, record: Record) -> None:
        self._records.put(record)
        self._fleet.wake()

    def _put_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self._put(record)


def lost_before(host: Host, why: str) -> EngineError:
    """Return the error for a host that is lost before the work began."""
    error = EngineError(
        f"Load host {host.name} was lost before the load began: {why.rstrip('.')}.",
        hint=host.last_words() or "look at that host, then measure again",
    )
    error.has_run = False
    return error
