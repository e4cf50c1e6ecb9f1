"""Runs of the ledger, with and without the journal of its commits."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from bench import loads
from bench.loads import SECOND_NS, Measured
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
from pgdyno.server.target import Target

_LOAD_TIMEOUT_S = 60


def load(target: Target, clients: int) -> None:
    """Make the tables for a load with this number of clients."""
    mark = f"pgdyno dataset ledger accounts={clients}"
    work = InitWork(dataset=LedgerOptions(accounts=clients), mark=mark, drop_existing=True)
    loads.run_engine(target, work, _LOAD_TIMEOUT_S)


def run(target: Target, clients: int, seconds: float, *, has_journal: bool) -> Measured:
    """Run the ledger on new tables.

    Raises: RuntimeError if the journal does not have every commit that the engine counted.
    """
    load(target, clients)
    with tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-") as folder:
        journal = Path(folder) / "commits"
        work = LoadWork(
            threads=1,
            seed=1,
            protocol="prepared",
            scripts=(ScriptSource(name="ledger", source=BuiltinScript(builtin="ledger")),),
            arrivals=ClosedLoop(clients=clients),
            connect=Connect(timeout_ns=60 * SECOND_NS),
            warm_ns=0,
            measure=MeasureDuration(duration_ns=int(seconds * SECOND_NS)),
            journal=str(journal) if has_journal else None,
        )
        measured, summary, _ = loads.run_engine(target, work, seconds)
        committed = summary.transactions_committed_all_phases
        if has_journal:
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
