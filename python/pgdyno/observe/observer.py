"""Observes one run with telemetry, from its begin to its end.

The observer has two or three connections to the server, or one if few are free. Its errors never
end the run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.observe.collector import SECOND_NS, Collector, Notice, NoticeKind, Notices, Sink
from pgdyno.observe.collector_thread import CollectorThread
from pgdyno.observe.host.collectors import of_load_host, of_server_host
from pgdyno.observe.host.disk import SpaceCollector, spaces_here, spaces_received
from pgdyno.observe.host.files import HERE
from pgdyno.observe.nodes import ObservedNode
from pgdyno.observe.pooler.console import ConsoleSession, pooler_pids
from pgdyno.observe.pooler.pools import PoolerCollector, PoolerTrafficCollector
from pgdyno.observe.processes.backends import BackendsCollector, LocalProcesses
from pgdyno.observe.processes.programs import ENGINE, POOLER, FootprintCollector, ProgramsCollector
from pgdyno.observe.processes.usage import UsageCollector
from pgdyno.observe.remote.host_session import HostSession
from pgdyno.observe.remote.processes import ReceivedProcesses
from pgdyno.observe.schedule import CollectorSchedule, OwnCost
from pgdyno.observe.session import Connect, ServerSession, Session
from pgdyno.observe.sql.collectors import of_scope
from pgdyno.observe.sql.sql_collector import ServerSource
from pgdyno.observe.sql.waits import OWN_PREFIX, WaitSampler

BEGIN_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class ObservedPooler:
    """The console of a PgBouncer in the load's path, and the port of this PgBouncer.

    `connect` gives an autocommit connection to its database `pgbouncer`. `is_local`: its process
    is on this host.
    """

    connect: Connect
    port: int
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """The server as the observer needs it.

    `database`: the load's database. `connect` makes an autocommit connection directly to the
    server. It may lead to another database, so that frequent queries do not count as the load's
    work; `connect_within` then makes a connection to `database`, for views that only a session
    there sees. `load_application_name`: the application_name of all load sessions begins with it.
    `is_local`: the server's processes are on this host. `is_scratch`: pgdyno started the server, so
    the backend that samples waits may have priority over others. `postmaster_pid`: None if not
    known. `load_sessions`: number of sessions that keep the server busy; the more they are, the
    longer its answers may take. `ask_too` makes additional collectors for the session in
    `database`. `nodes`: the workers, if the server is the coordinator of a distributed server.
    `kinds`: the features that know more about the database. `has_few_connections`: waits are
    sampled over the connection of the other collectors.
    """

    connect: Connect
    database: str
    load_application_name: str
    is_local: bool = False
    is_scratch: bool = False
    postmaster_pid: int | None = None
    load_sessions: int = 0
    connect_within: Connect | None = None
    ask_too: Callable[[ServerSession], Sequence[Collector]] | None = None
    nodes: Sequence[ObservedNode] = ()
    kinds: Collection[str] = ()
    has_few_connections: bool = False


class Observer:
    """Telemetry of one run, from `start` to `stop`."""

    def __init__(
        self,
        *,
        clock: ClockPair,
        sink: Sink,
        run: str,
        server: ObservedServer | None,
        pooler: ObservedPooler | None = None,
        folders: Mapping[str, Path] | None = None,
        seed: int = 0,
        interval_ns: int = SECOND_NS,
        host: Sequence[str] | None = None,
        loads: bool = True,
    ) -> None:
        """Prepare the observer; `start` opens the connections.

        Args: run, for the sessions' application_name `pgdyno/observe/<run>`; folders, name ->
        folder whose free space is sampled; seed, of the random gaps between samples of waits;
        interval_ns, instead of one second: all collectors' intervals are stretched by the same
        factor; host, the command that runs a shell on the server's host, None if this is that host;
        loads, whether this host makes load: if not, it is observed only if the server is on it.
        """
        self._notices = Notices(clock, sink)
        self._programs = ProgramsCollector()
        self.cost = OwnCost()
        self._clock, self._sink = clock, sink
        self._began_ns = monotonic_ns()
        self._interval_ns = interval_ns
        self._sampling: CollectorThread | None = None
        self._share: Callable[[], None] | None = None
        self._threads = [self._here(server, folders or {}, loads=loads)]
        session = None if host is None else HostSession(host, clock)
        if server is not None:
            self._threads += self._server_threads(server, f"{OWN_PREFIX}{run}", seed, session)
        elif session is not None:
            self._threads.append(self._host_thread(session, []))
        self.host = session
        if pooler is not None:
            self._threads.append(self._pooler_thread(pooler))

    def start(self) -> None:
        """Start all threads, and return when every collector was tried once, or after 5 s."""
        deadline_ns = monotonic_ns() + int(BEGIN_TIMEOUT_S * SECOND_NS)
        # The thread that counts transactions starts last: it subtracts those of our own sessions,
        # so these must exist. Nodes come last: they do not repeat what the server does not have.
        places = {"observe-server": 1, "observe-node": 2}
        for place in range(3):
            group = [thread for thread in self._threads if places.get(thread.name, 0) == place]
            for thread in group:
                thread.start()
            for thread in group:
                thread.has_begun.wait(max(0, deadline_ns - monotonic_ns()) / SECOND_NS)

    def keep_one_session(self) -> None:
        """Sample waits over the other connection from now on, and close the sampler's."""
        share, self._share = self._share, None
        if share is not None:
            share()
            self._notices.say(
                "one session",
                NoticeKind.OBSERVER_KEEPS_ONE_SESSION,
                "Few connections are free: pgdyno keeps one, and leaves its second one to others.",
                "",
            )

    def watch_engine(self, pid: int) -> None:
        """Sample the process of the load engine, too, from now on."""
        self._programs.watch(ENGINE, pid)

    def stop(self) -> bool:
        """Stop all threads within a few seconds; return False if a thread hangs."""
        for thread in self._threads:
            thread.stop()
        deadline_ns = monotonic_ns() + int(STOP_TIMEOUT_S * SECOND_NS)
        running = [thread for thread in self._threads if thread.is_alive()]
        for thread in running:
            thread.join(max(0, deadline_ns - monotonic_ns()) / SECOND_NS)
        hanging = [thread for thread in running if thread.is_alive()]
        for thread in hanging:
            thread.cancel()
            thread.join(1.0)
        return not any(thread.is_alive() for thread in hanging)

    @property
    def samples_with_priority(self) -> bool:
        """Return whether the sampler of waits had priority, so that it got a core at once."""
        return self._sampling is not None and self._sampling.has_priority

    @property
    def notices(self) -> Sequence[Notice]:
        """Return the notices so far, in order."""
        return tuple(self._notices.said)

    def _here(
        self, server: ObservedServer | None, folders: Mapping[str, Path], *, loads: bool
    ) -> CollectorThread:
        """Return the thread that observes this host and our own processes."""
        is_servers = server is None or server.is_local
        collectors: list[Collector] = [self._programs, self.cost]
        if loads and not is_servers:
            collectors += of_load_host()
        elif is_servers:
            pids = {"lab": os.getpid()}
            if server is not None and server.postmaster_pid is not None:
                pids["server"] = server.postmaster_pid
            collectors += of_server_host(HERE, lambda: pids)
        if folders:
            collectors.append(SpaceCollector(lambda: spaces_here(folders)))
        return self._thread("here", collectors)

    def _host_thread(self, session: HostSession, more: Sequence[Collector]) -> CollectorThread:
        """Return the thread that observes the server's host, if that is another one."""
        files = session.files
        collectors: list[Collector] = [
            *of_server_host(files, lambda: session.server_pids),
            SpaceCollector(lambda: spaces_received(files)),
            *more,
        ]
        return self._thread("host", collectors, session=session)

    def _server_threads(
        self,
        server: ObservedServer,
        application_name: str,
        seed: int,
        host: HostSession | None,
    ) -> list[CollectorThread]:
        def session(connect: Connect) -> ServerSession:
            return ServerSession(
                connect,
                application_name,
                is_local=server.is_local,
                busy_sessions=server.load_sessions,
            )

        regular = session(server.connect)
        waits = regular if server.has_few_connections else session(server.connect)
        within = None if server.connect_within is None else session(server.connect_within)
        relays = [session(server.connect_within or server.connect) for _ in server.nodes]
        observing = [made for made in dict.fromkeys((regular, waits, within)) if made is not None]
        observing += relays
        source = ServerSource(regular, server.database, observing, server.is_local)
        collectors = of_scope("server", source)
        collectors_within = of_scope(
            "database", replace(source, session=within or regular), server.kinds
        )
        if server.ask_too is not None:
            collectors_within += server.ask_too(within or regular)
        threads = (
            [] if within is None else [self._thread("database", collectors_within, session=within)]
        )
        collectors += collectors_within if within is None else []
        load = server.load_application_name
        if server.is_local:
            here = LocalProcesses()
            backends = BackendsCollector(regular, load, here)
            usage = UsageCollector(backends.processes, here.usage)
            collectors += [backends, usage, FootprintCollector(backends.groups)]
        elif host is not None:
            there = ReceivedProcesses(host)
            backends = BackendsCollector(regular, load, there)
            usage = UsageCollector(backends.processes, there.usage)
            threads.append(self._host_thread(host, [backends, usage]))
        gaps, names = random.Random(seed), (load, server.database)
        main = self._thread("server", collectors, session=regular)
        if waits is regular:
            main.sample_too(self._scheduled([WaitSampler(regular, *names)], gaps))
        else:
            is_urgent, sampler = server.is_scratch and server.is_local, WaitSampler(waits, *names)
            sampling = self._thread(
                "waits", [sampler], session=waits, gaps=gaps, is_urgent=is_urgent
            )
            self._sampling = sampling
            threads.append(sampling)

            def share() -> None:
                sampling.stop()
                main.sample_too(self._scheduled([WaitSampler(regular, *names)], gaps))

            self._share = share
            # Whichever is refused, the sampler's connection is the one to do without.
            sampling.refused = main.refused = self.keep_one_session
        threads += [
            self._node_thread(server, observed, relay, application_name)
            for observed, relay in zip(server.nodes, relays, strict=True)
        ]
        return [main, *threads]

    def _node_thread(
        self,
        server: ObservedServer,
        observed: ObservedNode,
        relay: ServerSession,
        application_name: str,
    ) -> CollectorThread:
        session = observed.session(relay, application_name, busy=server.load_sessions)
        collectors = observed.collectors(
            session,
            load_application_name=server.load_application_name,
            database=server.database,
        )
        return self._thread("node", collectors, session=session)

    def _pooler_thread(self, pooler: ObservedPooler) -> CollectorThread:
        if pooler.is_local:
            for place, pid in enumerate(pooler_pids(pooler.port)):
                self._programs.watch(POOLER if not place else f"{POOLER} {place + 1}", pid)
        session = ConsoleSession(pooler.connect)
        collectors: list[Collector] = [PoolerCollector(session), PoolerTrafficCollector(session)]
        return self._thread("pooler", collectors, session=session)

    def _thread(
        self,
        name: str,
        collectors: Sequence[Collector],
        *,
        session: Session | None = None,
        gaps: random.Random | None = None,
        is_urgent: bool = False,
    ) -> CollectorThread:
        return CollectorThread(
            name,
            self._scheduled(collectors, gaps),
            clock=self._clock,
            sink=self._sink,
            notices=self._notices,
            cost=self.cost,
            session=session,
            is_urgent=is_urgent,
        )

    def _scheduled(
        self, collectors: Sequence[Collector], gaps: random.Random | None
    ) -> list[CollectorSchedule]:
        # All threads sample at the same multiples of the interval, so rows of a second match.
        return [
            CollectorSchedule(
                collector,
                collector.interval_ns * self._interval_ns // SECOND_NS,
                self._began_ns,
                gaps,
            )
            for collector in collectors
        ]
