"""Decides what follows from a run that failed.

The run is repeated, or its variant is left out, or the experiment ends. `drive.py` asks.
"""

from __future__ import annotations

from collections import Counter

from pgdyno.errors import PgdynoError, ServerError
from pgdyno.measure.execute import FailedRun
from pgdyno.measure.servers import Servers
from pgdyno.plan.history import History
from pgdyno.spec.planned import PlannedRun, PlannedVariant

# A variant that ran before is left out if this many runs of it fail in a row.
_FAILURES_MAX = 3


class Failures:
    """Counts the failures in a row of each variant, and decides what follows."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._in_a_row: Counter[str] = Counter()

    def passed(self, run: PlannedRun) -> None:
        """Note that a run is complete."""
        self._in_a_row.pop(_place_of(run), None)

    def failed(self, run: PlannedRun) -> None:
        """Note that a run failed."""
        self._in_a_row[_place_of(run)] += 1

    def is_repeated(self, failed: FailedRun, history: History) -> bool:
        """Return whether a failed run says too little to leave its variant out.

        A variant that ran before has proved that it can run, and a server may be lost for a reason
        outside: one failure may be an accident. Three in a row are not.
        """
        run = failed.planned
        if not failed.is_server_lost and not _ran_before(run, history):
            return False
        return self._in_a_row[_place_of(run)] < _FAILURES_MAX

    @staticmethod
    def blamed(run: PlannedRun) -> PlannedVariant:
        """Return the variant that a failed run excludes from the plan."""
        assert run.cell.variant is not None, "only a variant can be left out"
        return run.cell.variant

    def last_error(self, failed: FailedRun) -> PgdynoError | None:
        """Return the error with which the experiment ends; None if it goes on."""
        if failed.ends_experiment:
            return failed.error
        return _lost(failed.error) if self._servers.are_lost() else None


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
