"""The ledger, with and without the journal of its commits."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from bench import loads
from bench.loads import SECOND_NS, Measured
from bench.processes import cpu_ns_of_family
from bench.steady import AT_MOST_S, SteadyLoad
from pgdyno.clock import monotonic_ns
from pgdyno.engine.commit_journal import Fate, read_commit_journal
from pgdyno.engine.job import (
    BuiltinScript,
    ClosedLoop,
    Connect,
    InitWork,
    LedgerOptions,
    LoadWork,
    MeasureDuration,
    ScriptSource,
)
from pgdyno.process import signals
from pgdyno.server.connect import connect
from pgdyno.server.find import Binaries
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
from pgdyno.server.target import Target

_LOAD_TIMEOUT_S = 60
_SETTLE_S = 0.05
# With fewer, PostgreSQL scans the table of balances instead of its index.
_ACCOUNTS = 10_000
# Nothing works in the background of one stretch only.
_SETTINGS = {
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
    "shared_buffers": "512MB",
    "synchronous_commit": "off",
}


def load(target: Target, clients: int) -> None:
    """Make the tables for a load with this number of clients."""
    mark = f"pgdyno dataset ledger accounts={clients}"
    work = InitWork(dataset=LedgerOptions(accounts=clients), mark=mark, drop_existing=True)
    loads.run_engine(target, work, _LOAD_TIMEOUT_S)


class LedgerInTurn:
    """The ledger on a separate server: always connected, at work only in its stretches.

    Two of these work in turn, so what disturbs one stretch disturbs its neighbour. A paused engine
    keeps its transactions open: on a common server they would keep old rows of the other one. No
    commit waits for the disk, so the engine's own time is as large a share as it can be.
    """

    def __init__(self, binaries: Binaries, clients: int, *, has_journal: bool) -> None:
        self._request = ScratchRequest(binaries, clients=clients, settings=_SETTINGS)
        self._clients, self._has_journal = clients, has_journal

    def __enter__(self) -> Self:
        with ExitStack() as to_close:
            self._server = to_close.enter_context(ScratchCluster.create(self._request))
            target = self._server.target
            load(target, _ACCOUNTS)
            self._control = to_close.enter_context(connect(target, verb="bench"))
            self._control.use_load_path()
            self._control.execute("VACUUM ANALYZE")
            folder = tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-")
            self._journal = Path(to_close.enter_context(folder)) / "commits"
            work = _work(self._clients, AT_MOST_S, self._journal if self._has_journal else None)
            self._load = SteadyLoad(loads.job_with(target, work))
            # The load ends first, so its journal is complete.
            if self._has_journal:
                to_close.callback(self._raise_unless_complete)
            to_close.enter_context(self._load)
            self._load.pause()
            self._to_close = to_close.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        self._to_close.close()

    def stretch(self, seconds: float) -> Measured:
        """Return the work of this time, with the CPU time of engine and server together.

        Raises: RuntimeError if the load has ended.
        """
        self._load.raise_if_over()
        self._load.resume()
        # Answers that came during the pause are read first.
        signals.sleep(_SETTLE_S)
        begun_ns, entries, cpu_ns = monotonic_ns(), self.entries(), self._cpu_ns()
        signals.sleep(seconds)
        took_ns = monotonic_ns() - begun_ns
        entries, cpu_ns = self.entries() - entries, self._cpu_ns() - cpu_ns
        self._load.pause()
        return Measured("engine", entries, entries * SECOND_NS / took_ns, cpu_ns, took_ns, 0)

    def entries(self) -> int:
        """Return how many entries clients have begun to add."""
        row = self._control.execute("SELECT last_value FROM pgdyno_ledger_id_seq").fetchone()
        assert row is not None
        return int(row[0])

    def _cpu_ns(self) -> int:
        postmaster = self._server.pid
        assert postmaster is not None, "the server runs"
        return self._load.cpu_ns + cpu_ns_of_family(postmaster)

    def _raise_unless_complete(self) -> None:
        commits = read_commit_journal(self._journal)
        row = self._control.execute("SELECT count(*) FROM pgdyno_ledger").fetchone()
        recorded = int(commits.having(Fate.ACKNOWLEDGED).sum())
        if row is None or recorded != row[0] or not commits.is_complete:
            raise RuntimeError(f"the journal has {recorded} commits, the ledger has {row}")


def run(target: Target, clients: int, seconds: float) -> Measured:
    """Run the ledger with its journal on new tables.

    Raises: RuntimeError if the journal does not have every commit that the engine counted.
    """
    load(target, clients)
    with tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-") as folder:
        journal = Path(folder) / "commits"
        measured, summary, _ = loads.run_engine(target, _work(clients, seconds, journal), seconds)
        committed = summary.transactions_committed_all_phases
        commits = read_commit_journal(journal)
        recorded = int(commits.having(Fate.ACKNOWLEDGED).sum())
        if recorded != committed or not commits.is_complete:
            raise RuntimeError(f"the journal has {recorded} of {committed} commits")
    span = summary.span("measure")
    assert span is not None, "the engine measured nothing"
    return replace(
        measured,
        transactions=committed,
        tps=summary.counts.completed / ((span.ended_ns - span.began_ns) / 1e9),
    )


def _work(clients: int, seconds: float, journal: Path | None) -> LoadWork:
    return LoadWork(
        threads=1,
        seed=1,
        protocol="prepared",
        scripts=(ScriptSource(name="ledger", source=BuiltinScript(builtin="ledger")),),
        arrivals=ClosedLoop(clients=clients),
        connect=Connect(timeout_ns=60 * SECOND_NS),
        warm_ns=0,
        measure=MeasureDuration(duration_ns=int(seconds * SECOND_NS)),
        journal=str(journal) if journal is not None else None,
    )
