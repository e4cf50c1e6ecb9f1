"""Carries out one planned run, from the reset to the stored result, and says how it ended.

The order of the steps is: reset, totals, begin of observing, engine (connect, prepare, warm up,
measure, drain), totals, end of observing, store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pgdyno.clock import monotonic_ns
from pgdyno.engine.stream import EngineOutcome, engine_error
from pgdyno.errors import EngineError, InterruptedByUser, PgdynoError, ServerError
from pgdyno.measure.after_load import write_after
from pgdyno.measure.before_load import PreparedRun, prepare_run
from pgdyno.measure.observed_load import load_observed, observer_of
from pgdyno.measure.run_progress import Brake, Moment, RunWatch
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import UnderTest
from pgdyno.process import signals
from pgdyno.programs.registry import part_of
from pgdyno.server.scratch.postmaster import last_words, read_log
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.system_settings import is_there
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class CompleteRun:
    """What a run gave. `spent_ns`: its time by `measure.servers.Part`."""

    planned: PlannedRun
    took_ns: int
    stored: StoredRun
    facts: ServerFacts
    spent_ns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that an error or an interrupt ended; what it measured until then is in the store.

    `ends_experiment`: the error is not about the run's variant alone. `is_server_lost`: the server
    answered before the run and not after it.
    """

    planned: PlannedRun
    took_ns: int
    error: PgdynoError
    ends_experiment: bool
    is_server_lost: bool = False


def carry_out_run(
    planned: PlannedRun,
    setup: Setup,
    servers: Servers,
    folder: ExperimentFolder,
    *,
    position: str,
    began_ns: int,
) -> CompleteRun | FailedRun:
    """Carry out one run and store it.

    Args: position, for the progress, such as "run 4 of 20"; began_ns, the end of the run before:
    judging that run and planning are a part of the time of this one.
    """
    setup.progress.moved(Moment(setup.label_of(planned), "preparing", position=position))
    servers.begin_run()
    try:
        under_test = servers.ready(planned.cell.variant, planned.round, restarts=planned.restarts)
        with quoting_the_log(under_test):
            if (part := part_of(setup.experiment.program, "probe")) is not None:
                with servers.spent.on("reset"):
                    setup = part.probed(setup, planned, under_test, folder)
            ready = prepare_run(planned, setup, servers, under_test, folder)
            signals.insist()
            return _loaded(ready, folder, began_ns=began_ns, position=position)
    except PgdynoError as error:
        is_of_variant = isinstance(error, ServerError) and planned.cell.variant is not None
        return FailedRun(planned, monotonic_ns() - began_ns, error, not is_of_variant)


def _loaded(
    ready: PreparedRun, folder: ExperimentFolder, *, began_ns: int, position: str
) -> CompleteRun | FailedRun:
    """Make the load of a prepared run, and store everything that was measured."""
    planned, setup, under_test = ready.planned, ready.setup, ready.under_test
    label, shapes = setup.label_of(planned), setup.shapes_of(planned)
    watch = RunWatch(planned, label, setup.progress, position=position, shapes=shapes)
    brake = Brake(setup.abort_if)
    with folder.begin_run(planned.number, label, ready.job.without_secrets()) as writer:
        observer = observer_of(ready, writer)
        outcome, after = load_observed(ready, writer, observer, watch, brake)
        with setup.progress.doing("reading and storing what the run left"):
            write_after(ready, writer, observer, outcome, after)
            stored = writer.finish() if outcome.summary is not None else None
    log_words = words_of_log(under_test) if after is None else ""
    is_lost = ready.totals is not None and after is None
    is_lost = is_lost and not is_there(under_test.observe, under_test.verb)
    error = _why_ended(outcome, brake, log_words, is_server_lost=is_lost)
    took_ns = monotonic_ns() - began_ns
    if error is not None:
        is_stopped = bool(brake.why) or isinstance(error, InterruptedByUser)
        ends_all = is_stopped or planned.cell.variant is None
        return FailedRun(planned, took_ns, error, ends_all, is_server_lost=is_lost)
    assert stored is not None, "a run without a summary has failed"
    spent_ns = dict(ready.servers.spent.by_part_ns)
    return CompleteRun(planned, took_ns, stored, under_test.facts, spent_ns)


def _why_ended(
    outcome: EngineOutcome, brake: Brake, log_words: str, *, is_server_lost: bool
) -> PgdynoError | None:
    """Return the error or interrupt that ended a run; None if it completed.

    Args: log_words, the last lines in the log of a scratch server that no longer answers;
    is_server_lost, the server answered before the run and does not after it.
    """
    if brake.why:
        return ServerError(
            f"Stopped by --abort-if {brake.why}.",
            hint="the results until then are kept; offer less load, or raise the limit",
        )
    if outcome.interrupted is not None:
        return outcome.interrupted
    if outcome.failures:
        error = engine_error(outcome.failures[0])
        error.message, error.hint = with_words_of_log(error.message, error.hint, log_words)
        return error
    if is_server_lost:
        message, hint = with_words_of_log(
            "The server was lost during the run and does not answer.",
            "see the server's log; the results until then are kept",
            log_words,
        )
        return ServerError(message, hint=hint)
    if outcome.summary is None:
        return EngineError(
            f"The load engine was lost during the run (exit code {outcome.exit_code}). Its last "
            f"messages: {outcome.log_tail or 'none'}.",
            hint="the results until then are kept and listed as incomplete",
        )
    if outcome.summary.ending == "stopped":
        return InterruptedByUser("The load engine was stopped.")
    return None


_HINT = (
    "the results until then are kept; correct the problem that the log names, or use another disk"
)
_SILENT = "The server's log does not say why, so something outside ended it."
_SILENT_HINT = (
    "the results until then are kept; dmesg shows whether the kernel ended it for lack of memory"
)


def words_of_log(under_test: UnderTest) -> str:
    """Return what a scratch server's log says last; "" for a server of the user's own."""
    path = under_test.log_path()
    if path is None:
        return ""
    said = "; ".join(words.rstrip(".") for words in last_words(read_log(path)))
    return f"The last lines of the server's log: {said}." if said else _SILENT


def with_words_of_log(message: str, hint: str, words: str) -> tuple[str, str]:
    """Return an error's message and hint with what the log says, "" if it cannot be read."""
    if not words:
        return message, hint
    return f"{message} {words}", _SILENT_HINT if words == _SILENT else _HINT


@contextmanager
def quoting_the_log(under_test: UnderTest) -> Iterator[None]:
    """Add the last lines of the log to an error, if a scratch server has ended.

    Raises: ServerError instead of the error in the block.
    """
    try:
        yield
    except ServerError as error:
        if under_test.cluster is None or under_test.cluster.pid is not None:
            raise
        message, hint = with_words_of_log(error.message, error.hint, words_of_log(under_test))
        raise ServerError(message, hint=hint, sqlstate=error.sqlstate) from error
