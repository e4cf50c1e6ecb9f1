"""Open the servers that the variants of an experiment need, and give them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pgdyno.measure.beds import Beds, OneBed
from pgdyno.measure.foreign_beds import ForeignBeds
from pgdyno.measure.progress import Progress
from pgdyno.measure.scratch_beds import ScratchBeds
from pgdyno.measure.under_test import (
    Conditions,
    opened,
)
from pgdyno.spec.experiment import Experiment


@contextmanager
def opened_beds(
    experiment: Experiment, conditions: Conditions, progress: Progress
) -> Iterator[Beds]:
    """Yield the servers of the experiment, loaded; give all of them back on every way out.

    Raises: as `opened`; a variant that cannot start is no error, it is in `excluded`.
    """
    scratch = experiment.server.scratch
    if not experiment.all_variants():
        with opened(experiment, conditions, progress) as under_test:
            yield OneBed(under_test)
    elif scratch is not None:
        with ExitStack() as stack:
            beds = ScratchBeds(experiment, scratch, conditions, progress)
            beds.open(stack)
            yield beds
    else:
        with opened(experiment, conditions, progress) as under_test:
            beds_there = ForeignBeds(experiment, conditions, under_test, progress)
            try:
                yield beds_there
            finally:
                beds_there.close()
