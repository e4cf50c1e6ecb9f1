"""Who crashes: scratch servers that pgdyno makes, or the user's own server."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pgdyno.clock import ClockPair
from pgdyno.errors import RefusedError
from pgdyno.features.crash.checks import prepare
from pgdyno.features.crash.controls import Control
from pgdyno.features.crash.failover import scratch_failover
from pgdyno.features.crash.faults import FAULTS, fault_once
from pgdyno.features.crash.moments import (
    FAILOVER_PHASES,
    PHASES,
    Phase,
    PlannedCrash,
    planned_crashes,
)
from pgdyno.features.crash.own_pair import await_roles, clients_of, own_failover
from pgdyno.features.crash.own_server import command_once, refuse_unfit_place
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import CrashRequest, Fault, OwnServer
from pgdyno.features.crash.scratch_crash import ScratchBench, crash_once
from pgdyno.features.crash.work import CrashSetup
from pgdyno.measure.loading import Loading, load_dataset
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server import safety, server_facts
from pgdyno.server.configuration import live_settings
from pgdyno.server.connect import Connection, connect, pinned
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset.kinds import kind_of
from pgdyno.server.find import Binaries
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.spec.dataset import LedgerDataset

# With a small cache pages reach the disk while the load runs, where a loss of power can tear them.
SMALL_CACHE = {"shared_buffers": "1MB", "bgwriter_delay": "10ms", "bgwriter_lru_maxpages": "1000"}
# Balances beyond those of the clients, about 1.5 MB: a table whose pages exist before the load.
ACCOUNTS = 30_000
_FACTS = (
    *("max_wal_size", "wal_writer_delay", "checkpoint_timeout", "data_checksums"),
    *("fsync", "full_page_writes", "synchronous_commit", "shared_buffers"),
)


class Crasher(Protocol):
    """A server that can crash again and again."""

    @property
    def phases(self) -> Sequence[Phase]:
        """Return the phases that its crashes cover."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """Return the line about the server, and the settings that decide what may be lost."""
        ...

    def crash(
        self, bench: CrashSetup, planned: PlannedCrash, control: Control | None
    ) -> CrashRecord:
        """Let it crash once. Args: control, None for the server in question."""
        ...

    def fail(self, bench: CrashSetup, fault: Fault) -> CrashRecord:
        """Let its disk fail once."""
        ...


class ScratchCrasher:
    """A new scratch server for each crash, with a copy of the data of the template."""

    def __init__(self, request: CrashRequest, template: ScratchCluster, binaries: Binaries) -> None:
        """Read the facts of the running template, and stop it."""
        self._request, self._binaries = request, binaries
        self._template = template.data_dir
        self.phases = FAILOVER_PHASES if request.kind == "failover" else PHASES
        line = f"scratch server, PostgreSQL {binaries.version}, crashes of kind {request.kind}"
        with template.connect(verb="crash") as connection:
            self.facts = _facts(connection, line)
        if request.kind == "failover":
            self.facts["standby"] = request.replication
        template.stop()

    @classmethod
    @contextmanager
    def ready(
        cls, request: CrashRequest, clock: ClockPair, progress: RunProgress
    ) -> Iterator[ScratchCrasher]:
        """Make the template for the time of the block."""
        assert request.binaries is not None, "a scratch server has programs"
        with _template(request, request.binaries, clock, progress) as template:
            yield cls(request, template, request.binaries)

    def crash(
        self, bench: CrashSetup, planned: PlannedCrash, control: Control | None
    ) -> CrashRecord:
        """Let a new server crash once."""
        request = self._request
        settings = _settings(request, control.settings if control is not None else {})
        arm = control.name if control is not None else ""
        if request.kind != "failover":
            return crash_once(self._bench(bench), planned, settings, arm=arm)
        return scratch_failover(
            self._bench(bench),
            planned,
            settings,
            arm=arm,
            replication=(control.replication or "asynchronous") if control else request.replication,
            # The controls prove this test, and not the user's tool.
            promote_command="" if control else request.promote_command,
        )

    def fail(self, bench: CrashSetup, fault: Fault) -> CrashRecord:
        """Let the disk of a new server fail once."""
        [planned] = planned_crashes(1, self._request.seed, FAULTS[fault].phases)
        return fault_once(self._bench(bench), planned, _settings(self._request, {}), fault)

    def _bench(self, bench: CrashSetup) -> ScratchBench:
        return ScratchBench(
            bench.request, bench.clock, bench.kept_in, self._binaries, template=self._template
        )


class OwnCrasher:
    """The user's own server, or one of two, which the user's command crashes."""

    # An idle server has nothing in doubt, and nobody sees its recovery from outside.
    phases = FAILOVER_PHASES

    def __init__(self, own: OwnServer, request: CrashRequest, facts: dict[str, Any]) -> None:
        self._own, self._request, self.facts = own, request, facts

    @classmethod
    @contextmanager
    def ready(
        cls, request: CrashRequest, clock: ClockPair, store: Path, progress: RunProgress
    ) -> Iterator[OwnCrasher]:
        """Load the ledger into the user's database if it is not there.

        Raises: RefusedError for a server in use, tables of others, or a journal that would crash.
        """
        own = request.own
        assert own is not None, "the server of a command is the user's"
        dataset = LedgerDataset(accounts=max(ACCOUNTS, request.clients))
        target, replication = own.target, {}
        if request.kind == "failover":
            roles = await_roles(target, request.recovery_timeout_s)
            target = clients_of(target)
            replication = {"standby": "synchronous" if roles.is_synchronous else "asynchronous"}
        with connect(target, verb="crash") as connection:
            target = pinned(target, connection)
            refuse_unfit_place(connection, store)
            seen = server_facts.collect(connection, target)
            present = datasets.inspect(connection, kind_of(dataset))
            safety.refuse_unsafe_init(
                safety.Intent(
                    is_scratch=False,
                    database=seen.database,
                    host=seen.host,
                    is_marked=present.is_marked,
                    others=seen.others,
                    landlords=datasets.landlords(connection),
                    confirmed=request.confirm,
                ),
                tables=present.tables,
            )
            line = server_facts.target_line(seen)
            facts = _facts(connection, line) | replication
        if present.state != "complete":
            how = Loading(drop_existing=present.state != "none")
            load_dataset(dataset, target, clock=clock, verb="crash", progress=progress, how=how)
        yield cls(own, request, facts)

    def crash(
        self, bench: CrashSetup, planned: PlannedCrash, control: Control | None
    ) -> CrashRecord:
        """Let the server crash once; a control changes only the sessions of the load."""
        arm = control.name if control is not None else ""
        asynchronous = control is not None
        if self._request.kind == "command":
            return command_once(bench, planned, self._own, arm=arm, asynchronous=asynchronous)
        return own_failover(
            bench,
            planned,
            self._own,
            arm=arm,
            asynchronous=asynchronous,
        )

    def fail(self, bench: CrashSetup, fault: Fault) -> CrashRecord:  # noqa: ARG002
        """Refuse: the disk is the user's."""
        raise RefusedError(f"--fault {fault} needs a scratch server.", hint="remove the option")


def _settings(request: CrashRequest, control: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a crash: ours, the user's, then the control's."""
    ours = SMALL_CACHE if request.kind == "power" else {}
    return {**ours, **request.settings, **control}


def _facts(connection: Connection, line: str) -> dict[str, Any]:
    settings = {live.rule.name: live.show for live in live_settings(connection, _FACTS).values()}
    version = importlib.metadata.version("pgdyno")
    return {"target_line": line, "settings": settings, "pgdyno": version}


def _template(
    request: CrashRequest, binaries: Binaries, clock: ClockPair, progress: RunProgress
) -> ScratchCluster:
    """Return a running cluster with an empty ledger, the data that every crash begins with."""
    asked = ScratchRequest(
        binaries,
        clients=request.clients,
        settings={"fsync": "off"},
        data_dir=request.data_dir,
        allow_tmpfs=request.allow_tmpfs,
        # Without checksums a torn page is found only if somebody reads what is torn.
        checksums=True,
    )
    with progress.doing("creating a scratch server"):
        cluster = ScratchCluster.create(asked)
    try:
        load_dataset(
            LedgerDataset(accounts=max(ACCOUNTS, request.clients)),
            cluster.target,
            clock=clock,
            verb="crash",
            progress=progress,
            how=Loading(),
        )
        with cluster.connect(verb="crash") as connection:
            prepare(connection)
        cluster.restart(_settings(request, {}))
    except BaseException:
        cluster.close()
        raise
    return cluster
