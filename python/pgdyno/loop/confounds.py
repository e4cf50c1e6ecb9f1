"""What an experiment cannot tell apart, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.loop.journal import Visit
from pgdyno.loop.plan_changes import between_rounds
from pgdyno.spec.designs import PassesDesign
from pgdyno.spec.experiment import Experiment

# Changes that put the data elsewhere, or otherwise.
_LAYOUT = (
    *("scale", "fillfactor", "unlogged", "foreign_keys", "partitions", "partition_method"),
    *("sql", "version", "bin", "data_dir", "wal_dir", "checksums", "wal_segment", "dsn"),
)


def confounds(
    experiment: Experiment, runs: Mapping[int, Sequence[Visit]], *, resumed_count: int
) -> Iterator[str]:
    """Yield what beside the change itself may be in a difference.

    Args: runs, by variant; resumed_count, how often the experiment went on after an interruption.
    """
    variants = experiment.all_variants()
    layouts = {tuple(one.changes().get(name) for name in _LAYOUT) for one in variants}
    if len(layouts) > 1 and experiment.reload == "once":
        yield "one layout of the data each: the interval excludes layout"
    if resumed_count and experiment.server.scratch is not None:
        times = "once" if resumed_count == 1 else f"{resumed_count} times"
        yield f"interrupted {times}: the rounds after it are on data loaded anew"
    if isinstance(experiment.design, PassesDesign):
        for own in experiment.variants:
            if len(own.changes()) > 1:
                names = ", ".join(own.changes())
                yield f"{own.name} changes {names} at once: which of them did it?"
    for variant, visits in runs.items():
        for change in between_rounds(visits, name=variants[variant].name):
            place = f"{change.script}:{change.line}"
            yield f"{place} changed its plan between rounds of {change.between}"
