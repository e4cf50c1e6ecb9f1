"""Carries out one run of the loop, and finds out how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.clock import monotonic_ns
from pgdyno.engine.stream import engine_error
from pgdyno.errors import EngineError, InterruptedByUser, PgdynoError, ServerError
from pgdyno.measure.execute import Executed, execute
from pgdyno.measure.last_words import with_words_of_log
from pgdyno.measure.stage import Stage
from pgdyno.spec.planned import PlannedRun


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended. `done` is None if it ended before its load; `error` None: it is complete.

    `is_raised`: the error is not about this variant, so it ends the experiment.
    """

    run: PlannedRun
    took_ns: int
    done: Executed | None
    error: PgdynoError | None
    is_raised: bool = False

    def complete(self) -> Executed:
        """Return what a complete run measured."""
        assert self.done is not None
        assert self.done.stored is not None
        return self.done


def carry_out_run(planned: PlannedRun, stage: Stage, position: str) -> RunEnd:
    """Carry the run out; return the error that ended it early, if any."""
    began_ns = monotonic_ns()
    try:
        done = execute(planned, stage, position=position)
    except PgdynoError as error:
        is_of_variant = isinstance(error, ServerError) and planned.cell.variant is not None
        return RunEnd(planned, monotonic_ns() - began_ns, None, error, not is_of_variant)
    return RunEnd(planned, monotonic_ns() - began_ns, done, _why_ended(done))


def _why_ended(done: Executed) -> PgdynoError | None:
    """Return the error or interrupt that ended this run; None if it completed."""
    outcome = done.outcome
    if done.braked:
        return ServerError(
            f"Stopped by --abort-if {done.braked}.",
            hint="the results until then are kept; offer less load, or raise the limit",
        )
    if outcome.interrupted is not None:
        return outcome.interrupted
    if outcome.failures:
        error = engine_error(outcome.failures[0])
        error.message, error.hint = with_words_of_log(error.message, error.hint, done.words_of_log)
        return error
    if done.is_server_lost:
        message, hint = with_words_of_log(
            "The server was lost during the run and does not answer.",
            "see the server's log; the results until then are kept",
            done.words_of_log,
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
