"""Confounds in words: causes that an experiment cannot separate."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

from pgdyno.analysis.compare_findings import PlanChange
from pgdyno.loop.journal import Visit
from pgdyno.quantities import format_bytes
from pgdyno.spec.dataset import DatasetChange
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import Variant

# Changes to the place or the layout of the data.
_LAYOUT = (
    *DatasetChange.model_fields,
    *("sql", "version", "bin", "data_dir", "wal_dir", "checksums", "wal_segment", "dsn"),
)


def confounds(
    experiment: Experiment,
    runs: Mapping[PlannedVariant, Sequence[Visit]],
    *,
    resumed_count: int,
    disks: Mapping[PlannedVariant, tuple[str, ...]],
    steps: Sequence[Variant] = (),
) -> Iterator[str]:
    """Yield possible causes of a difference other than the change itself.

    Args: runs, by variant; resumed_count, how often the experiment continued after an interruption;
    disks, of the data of each variant; steps, the changes that each pass adds to the previous pass.
    """
    folders = {own.spec.changes().get("data_dir"): disks.get(own, ()) for own in runs}
    if len(folders) > 1 and len({*folders.values()}) == 1 and (shared := folders.popitem()[1]):
        yield f"the folders of data_dir are on one disk, {', '.join(shared)}: no disks are compared"
    layouts = {tuple(own.spec.changes().get(name) for name in _LAYOUT) for own in runs}
    if len(layouts) > 1 and experiment.reload == "once":
        yield "each variant has one layout of the data: the interval does not cover other layouts"
    if resumed_count and experiment.server.scratch is not None:
        times = "once" if resumed_count == 1 else f"{resumed_count} times"
        yield f"interrupted {times}: the rounds after it use data that was loaded again"
    for step in steps:
        if len(step.changes()) > 1:
            names = ", ".join(step.changes())
            yield f"{step.name} changes {names} at once: their effects cannot be separated"
    changed: dict[tuple[str, int], list[PlanChange]] = defaultdict(list)
    for variant, visits in runs.items():
        for change in between_rounds(visits, name=variant.name):
            changed[change.script, change.line].append(change)
    for (script, line), changes in changed.items():
        first, names = changes[0], ", ".join(change.between for change in changes)
        words = shorten(first.text, _STATEMENT_WIDTH, placeholder="…")
        yield (
            f"{script}:{line} {words} changed its plan between rounds of {names}:"
            f" {first.was} -> {first.became}"
        )


_STATEMENT_WIDTH = 40
Plans = dict[tuple[str, int], str]


def between_variants(
    reference: Sequence[Visit], variant: Sequence[Visit], *, names: tuple[str, str]
) -> tuple[PlanChange, ...]:
    """Return statements whose plans differ in the last runs of the two variants."""
    if not reference or not variant:
        return ()
    was, became = plans_of_run(reference[-1]), plans_of_run(variant[-1])
    texts = _texts(variant[-1])
    between = f"{names[0]} and {names[1]}"
    return tuple(_changes(was, became, texts, between))


def between_rounds(runs: Sequence[Visit], *, name: str) -> tuple[PlanChange, ...]:
    """Return statements whose plan changed between runs of one variant, each statement once."""
    first_by_place: dict[tuple[str, int], PlanChange] = {}
    for before, after in itertools.pairwise(runs):
        for change in _changes(plans_of_run(before), plans_of_run(after), _texts(after), name):
            first_by_place.setdefault((change.script, change.line), change)
    return tuple(first_by_place.values())


def plans_of_run(visit: Visit) -> Plans:
    """Return the plans before the run, by (script, line)."""
    stored = visit.stored.server_json.get("plans") or {}
    return {
        (script, int(line)): str(plan)
        for script, plans in stored.items()
        for line, plan in plans.items()
    }


def _changes(
    was: Plans, became: Plans, texts: dict[tuple[str, int], str], between: str
) -> Iterator[PlanChange]:
    for (script, line), plan in became.items():
        before = was.get((script, line))
        if before is not None and before != plan:
            yield PlanChange(script, line, texts.get((script, line), ""), before, plan, between)


def _texts(visit: Visit) -> dict[tuple[str, int], str]:
    return {
        (script["name"], int(statement["line"])): str(statement["text"])
        for script in visit.stored.hello.get("scripts", ())
        for statement in script["statements"]
    }


_GROWN_RATIO = 0.02


def state_words(name: str, runs: Sequence[Visit]) -> str:
    """Return in words the growth of a variant's data, and the rows removed before its runs.

    Returns: "" if neither is known.
    """
    resets: list[dict[str, Any]] = [
        reset for visit in runs if (reset := visit.stored.server_json.get("reset")) is not None
    ]
    sizes = [
        reset["database_bytes_before"] for reset in resets if reset.get("database_bytes_before")
    ]
    if len(sizes) < 2:
        return ""
    growth_ratio = sizes[-1] / sizes[0] - 1
    words = (
        f"{name}: {format_bytes(sizes[0])} of data before its first run, "
        f"{format_bytes(sizes[-1])} before its last ({growth_ratio * 100:+.1f} "
        f"%{': the measurement includes bloat' if growth_ratio > _GROWN_RATIO else ''})"
    )
    dead = [
        reset["dead_rows_before"] for reset in resets if reset.get("dead_rows_before") is not None
    ]
    history = [
        reset["history_rows_removed"]
        for reset in resets
        if reset.get("history_rows_removed") is not None
    ]
    if dead:
        words += f"; at most {max(dead):,} dead rows"
    if history:
        words += f", at most {max(history):,} rows of history, cleared before each run"
    return words
