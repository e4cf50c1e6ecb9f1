"""The hosts of one experiment: a Dask scheduler, a worker on each host, an agent in each worker.

Everything of Dask lives in one event loop in its own thread. The other methods wait for it, and a
signal ends their wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import platform
import secrets
import socket
import tempfile
import threading
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import cloudpickle
import dask
import distributed
from distributed import scheduler as dask_scheduler
from distributed.versions import VersionMismatchWarning

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.executable import engine_for_jobs
from pgdyno.engine.job import Job
from pgdyno.errors import EngineError
from pgdyno.features.hosts.certificates import Identities, identities
from pgdyno.features.hosts.clocks import ClockOffset, Probe, offset_from
from pgdyno.features.hosts.starting import PYTHON, Host, end_workers, python_version, send_orders
from pgdyno.features.hosts.there import agent, worker
from pgdyno.process import cleanup, signals
from pgdyno.spec.hosts import Hosts

if TYPE_CHECKING:
    from pgdyno.features.hosts.loading import HostsLoading
    from pgdyno.features.hosts.run import HostsRun

T = TypeVar("T")
OPEN_S, ANSWER_S = 40.0, 5.0
_HEARTBEAT_S = 5.0
_EXTRA = "pip install 'pgdyno[hosts]' on that host"


class Fleet:
    """Connected hosts. Use it as a context manager: no worker and no engine outlives the block."""

    def __init__(self, asked: Hosts, hosts: list[Host]) -> None:
        self.asked, self.hosts = asked, hosts
        self._ours, self._theirs = socket.socketpair()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hosts", daemon=True)
        self._scheduler: Any = None
        self._client: Any = None
        self._token = 0
        # Run ids begin with it.
        self.experiment = secrets.token_hex(8)

    def __enter__(self) -> Fleet:
        self._thread.start()
        self._token = cleanup.register("load hosts", self.close)
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, job: Job, clock: ClockPair, *, log: IO[bytes]) -> HostsRun:
        """Return the load of one run on all hosts, which share the threads of the job."""
        from pgdyno.features.hosts.run import HostsRun

        return HostsRun(self, job, clock, log=log)

    def loading(self, job: Job, clock: ClockPair) -> HostsLoading:
        """Return the loading of a dataset from all hosts."""
        from pgdyno.features.hosts.loading import HostsLoading

        return HostsLoading(self, job, clock)

    def threads_for(self, connections: int, asked: int | None) -> int:
        """Return the number of threads of a whole load, at most one for each connection.

        By default each host has as many as it would have alone; workers on this host share its
        cores.
        """
        count = len(self.hosts)
        if asked is None:
            cores = min(host.core_count for host in self.hosts)
            if self.asked.local_count:
                cores //= count
            asked = count * min(8, max(1, cores // 2))
        return min(connections, max(asked, count))

    @property
    def present(self) -> list[Host]:
        """Return the hosts that are not lost."""
        return [host for host in self.hosts if not host.lost]

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Return the result of `work`, which runs in the loop of the fleet.

        Raises: InterruptedByUser, EngineError after `timeout_s`, or what `work` raises.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _: self.wake())
        deadline_ns = monotonic_ns() + int(timeout_s * 1e9)
        try:
            while not future.done():
                if (rest_s := (deadline_ns - monotonic_ns()) / 1e9) <= 0:
                    raise EngineError(
                        f"The load hosts did not answer within {timeout_s:g} s.",
                        hint="look whether the hosts and the network are overloaded",
                    )
                self.wait(rest_s)
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def start(self, work: Coroutine[Any, Any, None]) -> Any:
        """Begin `work` in the loop of the fleet, and return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, or the time is over. Raises: InterruptedByUser."""
        if signals.wait_readable([self._ours.fileno()], seconds):
            self._ours.recv(4096)

    def wake(self) -> None:
        """End a `wait`; called by the loop."""
        with contextlib.suppress(OSError):
            self._theirs.send(b"\0")

    async def ask(
        self, host: Host, ask: str, *, timeout_s: float = ANSWER_S, **given: Any
    ) -> dict[str, Any]:
        """Return the agent's answer. Raises: EngineError with its reason, OSError, TimeoutError."""
        answering = self._client.rpc(host.address).pgdyno(ask=ask, **given)
        answer: dict[str, Any] = await asyncio.wait_for(answering, timeout_s)
        if why := answer.get("why"):
            raise EngineError(f"Load host {host.name}: {why}.")
        return answer

    async def offset(self, host: Host, count: int) -> ClockOffset:
        """Return the offset of a host's clock by `count` probes."""
        probes = []
        for _ in range(count):
            sent_ns = monotonic_ns()
            answer = await self.ask(host, "clock")
            probes.append(Probe(sent_ns, answer["received_ns"], answer["sent_ns"], monotonic_ns()))
        return offset_from(probes)

    def submit(self, host: Host, run: str, job: str) -> Any:
        """Give a host its part of a load: a task that only this host does, and only once."""
        return self._client.submit(
            agent.work,
            run,
            job,
            key=f"pgdyno-{run}",
            workers=[host.address],
            allow_other_workers=False,
            resources={"PGDYNO": 1} if "PGDYNO" in host.resources else None,
            pure=False,
            retries=0,
        )

    def _open(self) -> None:
        dask.config.set(worker.SETTINGS)
        for name in logging.root.manager.loggerDict:
            if name.startswith("distributed"):
                # What Dask logs about lost workers, our own messages say.
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        # Who may use the module by value needs no pgdyno.
        cloudpickle.register_pickle_by_value(agent)
        if self.asked.scheduler:
            program = _engine()
            self.call(self._join(), OPEN_S)
        else:
            made = identities(tuple(host.name for host in self.hosts))
            with tempfile.TemporaryDirectory(prefix="pgdyno-") as folder:
                # The scheduler would leave an empty folder in that of the system.
                dask.config.set({"temporary-directory": folder})
                port = self.call(self._begin(made), OPEN_S)
            send_orders(self.hosts, made, port)
            # The workers load their packages meanwhile.
            program = _engine()
            self.call(self._gather(), OPEN_S)
        self.call(self._equip(program), OPEN_S)

    async def _begin(self, made: Identities) -> int:
        security = distributed.Security(
            require_encryption=True,
            tls_ca_file=made.authority,
            tls_scheduler_cert=made.own.certificate,
            tls_scheduler_key=made.own.key,
            tls_client_cert=made.own.certificate,
            tls_client_key=made.own.key,
        )
        dask_scheduler.heartbeat_interval = lambda _count: _HEARTBEAT_S
        self._scheduler = await dask_scheduler.Scheduler(
            host="127.0.0.1" if self.asked.local_count else "",
            port=0,
            protocol="tls",
            security=security,
            dashboard=False,
            dashboard_address="127.0.0.1:0",
        )
        port = int(self._scheduler.address.rpartition(":")[2])
        self._client = await distributed.Client(
            f"tls://127.0.0.1:{port}",
            security=security,
            asynchronous=True,
            set_as_default=False,
        )
        return port

    async def _gather(self) -> None:
        """Wait until every worker has come. Raises: EngineError that names one that does not."""
        while True:
            came = {str(state.name): state for state in self._scheduler.workers.values()}
            for host in self.hosts:
                if host.name in came:
                    host.address = came[host.name].address
                    host.resources = dict(came[host.name].resources)
                elif host.exit_code() is not None:
                    raise _did_not_come(host)
            if all(host.address for host in self.hosts):
                return
            await asyncio.sleep(0.02)

    async def _join(self) -> None:
        """Take a worker on each host of a cluster that is there."""
        address = self.asked.scheduler
        # Dask warns of packages that do not matter here; of those that do, our own message tells.
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            self._client = distributed.Client(
                address, asynchronous=True, set_as_default=False, timeout=10
            )
            await asyncio.wait_for(self._client, 15)
            identity = await self._client.scheduler.identity(n_workers=-1)
        except (OSError, TimeoutError, TypeError) as error:
            raise EngineError(
                f"The Dask scheduler {address} cannot be used: {error}.",
                hint="name its certificates with DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
                "..._TLS__CLIENT__CERT and ..._TLS__CLIENT__KEY",
            ) from None
        chosen: dict[str, Host] = {}
        for place, known in sorted(identity["workers"].items()):
            resources = known.get("resources") or {}
            name = str(known["name"]) if "PGDYNO" in resources else known["host"]
            chosen.setdefault(name, Host(name, place, resources=resources))
        if not chosen:
            raise EngineError(
                f"The Dask scheduler {address} has no worker.",
                hint="start one on each load host: dask worker --nthreads 1 --no-nanny",
            )
        self.hosts = sorted(chosen.values(), key=lambda host: host.name)
        seen = (await self._client.get_versions())["workers"]
        for host in self.hosts:
            of_worker = seen[host.address]
            python = ".".join(of_worker["host"]["python"].split(".")[:2])
            there = (of_worker["packages"]["distributed"], python)
            if there != (here := (distributed.__version__, python_version())):
                names = [
                    f"distributed {dask} with Python {python}" for dask, python in (there, here)
                ]
                raise EngineError(
                    f"Load host {host.name} has {names[0]}, and this host has {names[1]}.",
                    hint="install the same versions on all hosts",
                )

    async def _equip(self, program: bytes) -> None:
        """Install the agents, and give each the engine; workers on this host share one file."""
        await self._client.run(agent.install, workers=[host.address for host in self.hosts])
        await asyncio.gather(*map(self._look_at, self.hosts))
        sha256 = hashlib.sha256(program).hexdigest()

        async def equip(host: Host, **engine: Any) -> str:
            try:
                return str((await self.ask(host, "engine", timeout_s=OPEN_S, **engine))["path"])
            except EngineError as error:
                error.hint = "free some space there, or set TMPDIR on that host"
                raise

        sent = self.hosts[:1] if self.asked.local_count else self.hosts
        paths = await asyncio.gather(
            *(equip(host, sha256=sha256, program=program) for host in sent)
        )
        await asyncio.gather(*(equip(host, path=paths[0]) for host in self.hosts[len(sent) :]))

    async def _look_at(self, host: Host) -> None:
        """Keep the number of its cores. Raises: EngineError if the engine cannot run there."""
        facts = await self.ask(host, "facts")
        host.core_count = facts["core_count"]
        if (there := (facts["system"], facts["machine"])) != _platform():
            raise EngineError(
                f"Load host {host.name} is {' '.join(there)}, but this engine is for "
                f"{' '.join(_platform())}.",
                hint="use hosts of the same kind as this one",
            )

    def close(self) -> None:
        """End the engines, the workers and the scheduler."""
        cleanup.forget(self._token)
        if not self._thread.is_alive():
            return
        with signals.shielded():
            with contextlib.suppress(Exception):
                self.call(self._leave(), ANSWER_S)
            end_workers(self.hosts)
            with contextlib.suppress(Exception):
                self.call(self._end(), ANSWER_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)

    async def _leave(self) -> None:
        leaving = (self.ask(host, "leave") for host in self.present if host.address)
        await asyncio.gather(*leaving, return_exceptions=True)

    async def _end(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._scheduler is not None:
            await self._scheduler.close()


def _engine() -> bytes:
    """Return the engine; only the main thread may start the child that asks for its version."""
    return Path(engine_for_jobs()).read_bytes()


def _platform() -> tuple[str, str]:
    return platform.system(), platform.machine()


def _did_not_come(host: Host) -> EngineError:
    said = host.last_words()
    hint = f"try: ssh -o BatchMode=yes {host.name} true"
    if host.is_local:
        hint = "free memory and processes on this host, then repeat"
    if "distributed" in said and "and this host has" in said:
        hint = f"install the same versions there, or name another Python with {PYTHON}"
    elif "No module named" in said:
        hint = f"{_EXTRA}, or name its Python with {PYTHON}"
    return EngineError(f"Load host {host.name} did not start a worker: {said}", hint=hint)
