"""Load a dataset through the engine: begun, gone on with, or begun anew."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pgdyno.clock import ClockPair
from pgdyno.engine.job import InitWork, Job
from pgdyno.engine.stream import EngineRun, print_sql
from pgdyno.errors import RefusedError, ServerError
from pgdyno.measure.jobs import engine_target, init_job
from pgdyno.measure.run_progress import LoadWatch, Moment, Progress
from pgdyno.server import dataset as datasets
from pgdyno.server.connect import connect
from pgdyno.server.dataset_kinds import kind_of
from pgdyno.server.heap_pages import UnknownPages
from pgdyno.server.page_load import filled
from pgdyno.server.scratch import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import Dataset, PgbenchDataset

GO_ON = (
    "run the same command again to continue; --restart starts again, and pgdyno drop removes "
    "the tables"
)
_GONE = "the tables do not exist: load them again"
# Connections where none were asked for.
_JOBS = 2


@dataclass(frozen=True, slots=True)
class Loading:
    """How a dataset is loaded.

    Args: jobs, connections if they were asked for, else 0; loading, what `init` has for this kind
    of dataset (None: the defaults); resumed_with, options of the engine that an interrupted load
    had and the one that goes on keeps; keep_unfinished, leave what an interruption leaves.
    """

    jobs: int = 0
    loading: Spec | None = None
    resumed_with: Mapping[str, Any] = field(default_factory=dict)
    drop_existing: bool = False
    resume: bool = False
    keep_unfinished: bool = False

    def engine_options(self, dataset: Dataset) -> dict[str, Any]:
        """Return the dataset as the engine's job has it."""
        options = kind_of(dataset).engine_options(dataset, self.loading, self.jobs)
        return {**options, **self.resumed_with}

    def mark_of(self, dataset: Dataset) -> dict[str, str]:
        """Return what the tables' mark says of them."""
        return kind_of(dataset).mark_options(dataset, self.loading)

    def options_of(self, dataset: Dataset) -> dict[str, str]:
        """Return what an interrupted load and the one that goes on must have in common."""
        shared = kind_of(dataset).resume_options(self.engine_options(dataset))
        return {**self.mark_of(dataset), **shared}


def refuse_other_options(asked: dict[str, str], interrupted: dict[str, str]) -> None:
    """Raise RefusedError naming what differs between an interrupted load and the one asked for."""
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
    """Return every statement that loading may send, without connecting."""
    return print_sql(_job(dataset, target, clock=clock, verb="init", how=how))


def load_dataset(
    dataset: Dataset,
    target: Target,
    *,
    clock: ClockPair,
    verb: str,
    progress: Progress,
    how: Loading | None = None,
) -> None:
    """Create and fill the tables of a dataset through the engine.

    Raises: ServerError or EngineError with the server's own words; InterruptedByUser. Tables that
    were not finished are gone then, or wait to be gone on with, as `how` wants.
    """
    how = how or Loading()
    job = _job(dataset, target, clock=clock, verb=verb, how=how)
    kind = kind_of(dataset)
    if how.drop_existing:
        with connect(target, verb=verb) as connection:
            datasets.drop_many_partitions(connection, kind)
    watch = LoadWatch(kind.label(dataset), progress, row_bytes=kind.row_bytes(dataset))
    with EngineRun(job, log=subprocess.DEVNULL) as engine:
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
        error.has_run = True
        raise error


def load_scratch(
    cluster: ScratchCluster,
    dataset: Dataset,
    target: Target,
    *,
    clock: ClockPair,
    verb: str,
    progress: Progress,
) -> None:
    """Create and fill large tables on a scratch server, with settings and ways for loading.

    Accounts of pgbench are written as files where the server's pages are as expected, else copied.
    Raises: as `load_dataset`. Tables of the same names are replaced.
    """
    load = partial(load_dataset, dataset, target, clock=clock, verb=verb, progress=progress)
    with cluster.loading():
        if isinstance(dataset, PgbenchDataset) and not (dataset.partitions or dataset.unlogged):
            with (
                suppress(UnknownPages),
                connect(target, verb=verb, patient=True) as connection,
            ):
                load(how=_steps("dt"))
                label = kind_of(dataset).label(dataset)

                def tell(share: float) -> None:
                    progress.moved(Moment(label, f"loading {share:.0%}"))

                try:
                    with filled(connection, cluster.data_dir, dataset.scale, tell):
                        load(how=_steps("vpf" if dataset.foreign_keys else "vp"))
                except OSError as error:
                    raise ServerError(
                        f"The accounts were not written: {error.strerror}.",
                        hint="make room on the disk of the data directory",
                    ) from error
                return
        load(how=Loading(drop_existing=True))


def _steps(letters: str) -> Loading:
    return Loading(resumed_with={"steps": letters})


def _job(dataset: Dataset, target: Target, *, clock: ClockPair, verb: str, how: Loading) -> Job:
    work = InitWork.model_validate(
        {
            "dataset": how.engine_options(dataset),
            "jobs": how.jobs or _JOBS,
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
        "steps": "init-steps",
        "unlogged": "unlogged-tables",
    }.get(name, name.replace("_", "-"))


def _shown(value: str | None) -> str:
    return "not set" if value in (None, "False") else "given" if value == "True" else str(value)
