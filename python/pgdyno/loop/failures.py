"""Decides what follows from a run that failed.

The run is repeated, or its variant is left out, or the experiment ends. `drive.py` asks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pgdyno.errors import InterruptedByUser, PgdynoError, ServerError
from pgdyno.loop.one_run import RunEnd
from pgdyno.measure.stage import Stage
from pgdyno.plan.design import Design
from pgdyno.plan.history import History
from pgdyno.spec.planned import PlannedRun, PlannedVariant

# A variant that ran before is left out if this many runs of it fail in a row.
_FAILURES_MAX = 3


class Failures:
    """Counts the failures in a row of each variant, and decides what follows."""

    def __init__(self, stage: Stage, design: type[Design[Any]]) -> None:
        """Begin. Args: stage, what all runs share; design, the kind of plan that chooses runs."""
        self._stage = stage
        self._are_repeated = design.repeats_failures
        self._in_a_row: Counter[str] = Counter()

    def passed(self, run: PlannedRun) -> None:
        """Note that a run is complete."""
        self._in_a_row.pop(_place_of(run), None)

    def failed(self, run: PlannedRun) -> None:
        """Note that a run failed."""
        self._in_a_row[_place_of(run)] += 1

    def is_repeated(self, run: PlannedRun, history: History) -> bool:
        """Return whether a failed run says too little to leave its variant out.

        A variant that ran before has proved that it can run; one failure may be an accident of the
        server. Three in a row are not.
        """
        if not self._are_repeated or not _ran_before(run, history):
            return False
        return self._in_a_row[_place_of(run)] < _FAILURES_MAX

    @staticmethod
    def blamed(run: PlannedRun) -> PlannedVariant:
        """Return the variant that a failed run excludes from the plan."""
        assert run.cell.variant is not None, "only a variant can be left out"
        return run.cell.variant

    def last_error(self, end: RunEnd, error: PgdynoError) -> PgdynoError | None:
        """Return the error with which the experiment ends; None if it goes on.

        Raises: an error that is not about this variant.
        """
        if end.is_raised:
            raise error
        is_braked = end.done is not None and bool(end.done.braked)
        if end.run.cell.variant is None or is_braked or isinstance(error, InterruptedByUser):
            return error
        return _lost(error) if self._stage.servers.are_lost() else None


def _place_of(run: PlannedRun) -> str:
    """Return the id of the variant of a run."""
    variant = run.cell.variant
    return "" if variant is None else variant.id


def _ran_before(run: PlannedRun, history: History) -> bool:
    return any(measured.run.cell.variant == run.cell.variant for measured in history)


def _lost(ended: PgdynoError) -> ServerError:
    """Return the error of an experiment whose server is gone; it can go on when it is back."""
    return ServerError(
        f"The server was lost: {ended.message}",
        hint="continue with pgdyno run --resume last once the server answers",
    )
