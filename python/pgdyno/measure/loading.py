"""Loads a dataset through the engine: begins a load, continues it, or begins it again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from psycopg import sql

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.job import InitWork, Job
from pgdyno.engine.stream import EngineRun, print_sql
from pgdyno.errors import RefusedError, ServerError
from pgdyno.measure.consistency import require_consistent
from pgdyno.measure.jobs import engine_target, init_job
from pgdyno.measure.run_progress import LoadWatch, Moment, RunProgress
from pgdyno.measure.servers import HostFleet
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import LOAD_DATABASE
from pgdyno.quantities import percent
from pgdyno.server.connect import connect
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset import removal as dataset_removal
from pgdyno.server.dataset.heap_pages import UnknownPages
from pgdyno.server.dataset.kinds import kind_of
from pgdyno.server.dataset.page_load import filled
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.space import refuse_too_few_locks
from pgdyno.server.target import Target
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import Dataset, PgbenchDataset

GO_ON = (
    "run the same command again to continue; --restart starts again, and pgdyno drop removes "
    "the tables"
)
_GONE = "the tables do not exist: load them again"
# Number of connections, of each load host, if the user gave none.
_JOBS = 2


@dataclass(frozen=True, slots=True)
class Loading:
    """How a dataset is loaded.

    `jobs`: number of connections, 0 for the default. `loading`: options of `init` for this kind of
    dataset, None for the defaults. `resumed_with`: engine options of an interrupted load, which the
    continued load keeps. `drop_existing`: replace tables of the same names. `resume`: continue an
    interrupted load. `keep_unfinished`: keep the tables if this load is interrupted. `hosts`: the
    number of load hosts.
    """

    jobs: int = 0
    loading: Spec | None = None
    resumed_with: Mapping[str, Any] = field(default_factory=dict)
    drop_existing: bool = False
    resume: bool = False
    keep_unfinished: bool = False
    hosts: int = 1

    @property
    def connections(self) -> int:
        """Return the number of connections of all load hosts."""
        return self.jobs or _JOBS * self.hosts

    def engine_options(self, dataset: Dataset) -> dict[str, Any]:
        """Return the dataset in the terms of the engine's job."""
        kind, jobs = kind_of(dataset), self.jobs
        if self.hosts > 1:
            jobs = self.connections
        options = kind.engine_options(dataset, self.loading, jobs)
        if self.hosts > 1:
            options |= kind.spread_options(dataset, jobs)
        return {**options, **self.resumed_with}

    def mark_of(self, dataset: Dataset) -> dict[str, str]:
        """Return the options in the mark on the tables."""
        return kind_of(dataset).mark_options(dataset, self.loading)

    def options_of(self, dataset: Dataset) -> dict[str, str]:
        """Return the options that an interrupted and a continued load must share."""
        shared = kind_of(dataset).resume_options(self.engine_options(dataset))
        return {**self.mark_of(dataset), **shared}


def refuse_other_options(asked: dict[str, str], interrupted: dict[str, str]) -> None:
    """Raise RefusedError if the options of an interrupted load differ from those asked for."""
    differing = [
        f"{_option(name)} was {_shown(interrupted.get(name))}, now {_shown(asked.get(name))}"
        for name in sorted({*asked, *interrupted})
        if asked.get(name) != interrupted.get(name)
    ]
    if differing:
        raise RefusedError(
            f"A load with other options was interrupted here: {'; '.join(differing)}.",
            hint="use the same options to continue, or --restart to start again",
        )


def statements(dataset: Dataset, target: Target, *, clock: ClockPair, how: Loading) -> str:
    """Return every statement that a load may send, as text. It connects to no server."""
    return print_sql(_job(dataset, target, clock=clock, verb="init", how=how))


def load_dataset(
    dataset: Dataset,
    target: Target,
    *,
    clock: ClockPair,
    verb: str,
    progress: RunProgress,
    how: Loading | None = None,
    fleet: HostFleet | None = None,
) -> None:
    """Create and fill the tables of a dataset through the engine, or the engines of `fleet`.

    Raises: ServerError or EngineError with the server's own words; InterruptedByUser. Then
    unfinished tables are removed, or kept if `how` says so.
    """
    how = how or Loading()
    kind = kind_of(dataset)
    if how.drop_existing and kind.is_found_by_mark:
        # Only what has the mark is dropped: other objects may have the same names.
        with connect(target, verb=verb) as connection:
            dataset_removal.drop(connection, kind)
        how = replace(how, drop_existing=False)
    job = _job(dataset, target, clock=clock, verb=verb, how=how)
    if how.drop_existing:
        with connect(target, verb=verb) as connection:
            dataset_removal.drop_many_partitions(connection, kind)
    watch = LoadWatch(kind.label(dataset), progress, row_bytes=kind.row_bytes(dataset))
    with _engine_of(job, clock, fleet) as engine:
        outcome = engine.run(lambda _line, record: watch.see(record))
    progress.ended()
    if outcome.interrupted is not None:
        is_kept = how.keep_unfinished and watch.is_unfinished
        gone = _GONE if verb == "init" else "no run was finished"
        outcome.interrupted.hint = GO_ON if is_kept else gone
        raise outcome.interrupted
    summary = outcome.raise_if_nothing_was_measured()
    if outcome.failures or summary.ending != "completed":
        failure = outcome.failures[0] if outcome.failures else None
        hint = failure.hint if failure else "load it again"
        error = ServerError(
            f"The dataset was not loaded: {failure.message if failure else 'it was stopped'}.",
            hint=f"{hint}; then {GO_ON}" if watch.is_unfinished else hint,
            sqlstate=failure.sqlstate if failure else None,
        )
        error.has_run = watch.has_begun
        raise error


def load_scratch(
    cluster: ScratchCluster,
    dataset: Dataset,
    target: Target,
    *,
    clock: ClockPair,
    verb: str,
    progress: RunProgress,
) -> None:
    """Create and fill large tables on a scratch server, with settings for a fast load.

    Accounts of pgbench are written as files if the server's pages are as expected, and else copied.
    Tables of the same names are replaced.
    Raises: as `load_dataset`.
    """
    load = partial(load_dataset, dataset, target, clock=clock, verb=verb, progress=progress)
    with cluster.loading():
        if isinstance(dataset, PgbenchDataset) and not (dataset.partitions or dataset.unlogged):
            with (
                suppress(UnknownPages),
                connect(target, verb=verb, patient=True) as connection,
            ):
                # The server is ours, and has nothing but these tables.
                connection.use_load_path()
                load(how=_steps("dt"))
                label = kind_of(dataset).label(dataset)

                began_ns = monotonic_ns()

                def tell(share: float) -> None:
                    took_ns = monotonic_ns() - began_ns
                    left_ns = round(took_ns * (1 - share) / share) if share else 0
                    progress.moved(Moment(label, f"loading {percent(share)}", eta_ns=left_ns))

                try:
                    with filled(connection, cluster.data_dir, dataset.scale, tell):
                        load(how=_steps("vpf" if dataset.foreign_keys else "vp"))
                except OSError as error:
                    raise ServerError(
                        f"The accounts were not written: {error.strerror}.",
                        hint="free some space on the disk of the data directory",
                    ) from error
                return
        load(how=Loading(drop_existing=True))


def _engine_of(job: Job, clock: ClockPair, fleet: HostFleet | None) -> Any:
    if fleet is None:
        return EngineRun(job, log=subprocess.DEVNULL)
    return fleet.loading(job, clock)


def _steps(letters: str) -> Loading:
    return Loading(resumed_with={"steps": letters})


def _job(dataset: Dataset, target: Target, *, clock: ClockPair, verb: str, how: Loading) -> Job:
    work = InitWork.model_validate(
        {
            "dataset": how.engine_options(dataset),
            "jobs": how.connections,
            "mark": datasets.mark_text(dataset.kind, how.mark_of(dataset)),
            "drop_existing": how.drop_existing,
            "resume": how.resume,
            "keep_unfinished": how.keep_unfinished,
        }
    )
    return init_job(work, target=engine_target(target, f"pgdyno/{verb}/init"), clock=clock)


def _option(name: str) -> str:
    return "--" + {
        "range_rows": "load-jobs",
        "range_warehouses": "hosts",
        "steps": "init-steps",
        "unlogged": "unlogged-tables",
    }.get(name, name.replace("_", "-"))


def _shown(value: str | None) -> str:
    return "not set" if value in (None, "False") else "given" if value == "True" else str(value)


# From this size on, settings for loading save more time than their two restarts take.
_LARGE_BYTES = 300_000_000


def ensure_dataset(
    cluster: ScratchCluster,
    database: str,
    dataset: Dataset,
    setup: Setup,
) -> Target:
    """Return the target of a database of a scratch cluster that has the dataset.

    A missing database is created. Tables are loaded unless they are complete and as asked.
    """
    verb, clock, progress = setup.verb, setup.clock, setup.progress
    target = cluster.target.with_database(database)
    with cluster.connect() as connection:
        known = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [database]
        ).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
    if dataset.kind == "existing":
        return target
    kind = kind_of(dataset)
    with connect(target, verb=verb) as connection:
        present = datasets.inspect(connection, kind)
        refuse_too_few_locks(connection, dataset)
    if not _fits(present, dataset):
        place = f", database {database}" if database != LOAD_DATABASE else ""
        progress.said(
            f"loading {kind.label(dataset)} into PostgreSQL {cluster.binaries.version}{place}"
        )
        is_large = kind.tables_bytes(dataset) >= _LARGE_BYTES
        if is_large:
            progress.said("until the tables are loaded, fsync is off and wal_level is minimal")
            load_scratch(cluster, dataset, target, clock=clock, verb=verb, progress=progress)
        else:
            how = Loading(drop_existing=present.state != "none")
            load_dataset(dataset, target, clock=clock, verb=verb, progress=progress, how=how)
        if setup.experiment.check:
            require_consistent(dataset, target, verb=verb, progress=progress)
    return target


def _fits(present: datasets.Dataset, wanted: Dataset) -> bool:
    """Return whether the tables are complete and have the options of the wanted dataset."""
    wanted_options = kind_of(wanted).mark_options(wanted, None)
    return present.state == "complete" and present.options == wanted_options
