"""Load the pgbench tables through the engine: begun, gone on with, or begun anew."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from pgdyno.clock import ClockPair
from pgdyno.engine.job import Distribute, Job
from pgdyno.engine.stream import EngineRun, print_sql
from pgdyno.errors import RefusedError, ServerError
from pgdyno.measure.jobs import engine_target, init_job
from pgdyno.measure.run_progress import LoadWatch, Progress
from pgdyno.server import dataset as datasets
from pgdyno.server.target import Target
from pgdyno.spec.experiment import Dataset

GO_ON = (
    "run the same command again to go on where it stopped; --restart begins anew, and pgdyno drop"
    " removes what is there"
)
_GONE = "the tables are not there: load them again"
_ACCOUNTS_PER_SCALE = 100_000


@dataclass(frozen=True, slots=True)
class Loading:
    """How a dataset is loaded.

    Args: range_rows, accounts a range that all `jobs` load at once without FREEZE (None: one COPY
    with FREEZE a table or partition); steps, pgbench's letters (None: what the dataset needs);
    resume, go on with what was interrupted; keep_unfinished, leave what an interruption leaves.
    """

    jobs: int = 2
    range_rows: int | None = None
    steps: str | None = None
    distribute: Distribute | None = None
    drop_existing: bool = False
    resume: bool = False
    keep_unfinished: bool = False

    def mark_of(self, dataset: Dataset) -> dict[str, str]:
        """Return what the tables' mark says of them."""
        fields = dataset.model_dump(exclude={"kind"}, exclude_none=True)
        if self.distribute is not None:
            fields["distribute"] = str(self.distribute)
        return {name: str(value) for name, value in fields.items()}

    def options_of(self, dataset: Dataset) -> dict[str, str]:
        """Return what an interrupted load and the one that goes on must have in common."""
        options = self.mark_of(dataset)
        if self.range_rows is not None:
            options["range_rows"] = str(self.range_rows)
        if self.steps is not None:
            options["steps"] = self.steps
        return options


def range_rows_for(scale: int, jobs: int) -> int:
    """Return how many accounts a range has: one branch, or ten where ranges are many anyway.

    What a kill costs is at most one range a job; what a range costs is its transaction.
    """
    return (10 if scale >= 40 * jobs else 1) * _ACCOUNTS_PER_SCALE


def refuse_other_options(asked: dict[str, str], interrupted: dict[str, str]) -> None:
    """Raise RefusedError naming what differs between an interrupted load and the one asked for."""
    differing = [
        f"{_option(name)} was {_shown(interrupted.get(name))}, now {_shown(asked.get(name))}"
        for name in sorted({*asked, *interrupted})
        if asked.get(name) != interrupted.get(name)
    ]
    if differing:
        raise RefusedError(
            f"A load of other options was interrupted here: {'; '.join(differing)}.",
            hint="give the same options to go on, or --restart to begin anew",
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
    """Create and fill the pgbench tables through the engine.

    Raises: ServerError or EngineError with the server's own words; InterruptedByUser. Tables that
    were not finished are gone then, or wait to be gone on with, as `how` wants.
    """
    how = how or Loading()
    job = _job(dataset, target, clock=clock, verb=verb, how=how)
    watch = LoadWatch(f"scale {dataset.scale}", progress, fillfactor=dataset.fillfactor or 100)
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
        raise ServerError(
            f"The dataset was not loaded: {failure.message if failure else 'it was stopped'}.",
            hint=f"{hint}; then {GO_ON}" if watch.is_unfinished else hint,
            sqlstate=failure.sqlstate if failure else None,
        )


def _job(dataset: Dataset, target: Target, *, clock: ClockPair, verb: str, how: Loading) -> Job:
    return init_job(
        dataset,
        target=engine_target(target, f"pgdyno/{verb}/init"),
        clock=clock,
        mark=datasets.mark_text(how.mark_of(dataset)),
        jobs=how.jobs,
        drop_existing=how.drop_existing,
        range_rows=how.range_rows,
        steps=how.steps,
        distribute=how.distribute,
        resume=how.resume,
        keep_unfinished=how.keep_unfinished,
    )


def _option(name: str) -> str:
    return "--" + {
        "range_rows": "load-jobs",
        "steps": "init-steps",
        "unlogged": "unlogged-tables",
    }.get(name, name.replace("_", "-"))


def _shown(value: str | None) -> str:
    return "not given" if value in (None, "False") else "given" if value == "True" else str(value)
