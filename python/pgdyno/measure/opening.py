"""Open the servers that the variants of an experiment need, and give them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pgdyno.measure.foreign_servers import ForeignServers
from pgdyno.measure.run_progress import Progress
from pgdyno.measure.scratch_servers import ScratchServers
from pgdyno.measure.servers import OneServer, Servers
from pgdyno.measure.under_test import (
    Conditions,
    opened,
)
from pgdyno.spec.experiment import Experiment


@contextmanager
def opened_servers(
    experiment: Experiment, conditions: Conditions, progress: Progress
) -> Iterator[Servers]:
    """Yield the servers of the experiment, loaded; give all of them back on every way out.

    Raises: as `opened`; a variant that cannot start is no error, it is in `excluded`.
    """
    scratch = experiment.server.scratch
    if not experiment.has_variants():
        with opened(experiment, conditions, progress) as under_test:
            yield OneServer(under_test)
    elif scratch is not None:
        with ExitStack() as stack:
            servers = ScratchServers(experiment, scratch, conditions, progress)
            servers.open(stack)
            yield servers
    else:
        with opened(experiment, conditions, progress) as under_test:
            beds_there = ForeignServers(experiment, conditions, under_test, progress)
            try:
                yield beds_there
            finally:
                beds_there.close()
