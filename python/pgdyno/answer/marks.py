"""Events during a run from telemetry: checkpoints, vacuums, events in the server's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pgdyno.analysis.findings import Mark
from pgdyno.loop.counter_growth import counters_of
from pgdyno.store.stored_run import StoredRun

_CHECKPOINTS = {
    "checkpoints_timed": "checkpoint_timeout",
    "checkpoints_requested": "max_wal_size or a command",
}
_MARKED = {"crash": "error", "started": "error", "stopping": "error", "deadlock": "error"}
_WORDS = {
    "crash": "a server process crashed",
    "started": "the server started",
    "stopping": "the server was stopped",
    "deadlock": "deadlock",
}


def event_marks(run: StoredRun, origin_ns: int) -> Iterator[Mark]:
    """Yield the start of each checkpoint, the first sight of each vacuum, and events of the log.

    Seconds count from `origin_ns`.
    """
    for growth in counters_of(run, "checkpointer"):
        for counter, why in _CHECKPOINTS.items():
            for time_ns in growth.time_ns[growth.by_column[counter] > 0].tolist():
                yield Mark((time_ns - origin_ns) / 1e9, "checkpoint", f"checkpoint ({why})")
    progress = run.telemetry("progress")
    if progress is not None:
        known: set[tuple[int, str]] = set()
        rows = zip(progress["time_ns"], progress["pid"], progress["command"], strict=True)
        for time_ns, pid, command in rows:
            if (int(pid), str(command)) not in known:
                known.add((int(pid), str(command)))
                yield Mark((int(time_ns) - origin_ns) / 1e9, "vacuum", f"{command} under way")
    log = run.telemetry("log")
    if log is not None:
        for happened_ns, kind, what in zip(
            log["happened_ns"], log["kind"], log["what"], strict=True
        ):
            second = (int(happened_ns) - origin_ns) / 1e9
            if kind == "autovacuum":
                yield Mark(second, "vacuum", f"autovacuum of {what} ended")
            elif kind in _MARKED:
                said = f"{_WORDS[str(kind)]} {what}".strip()
                yield Mark(second, "error", f"log: {said}")


MARKS_MAX = 100
_WIDER = 1.25


def nearest_merged(marks: Iterable[Mark], at_most: int = MARKS_MAX) -> tuple[Mark, ...]:
    """Return marks in order of time; if there are more than `at_most`, join near marks of one kind.

    A joined mark is at the time of its first mark, and names their number and the time between the
    first and the last. The joining distance is the shortest that leaves `at_most` marks, so distant
    events stay single.
    Args: at_most, at least one for each kind.
    """
    ordered = sorted(marks, key=lambda mark: mark.time_s)
    shown = ordered
    within_s = (ordered[-1].time_s - ordered[0].time_s) / (8 * at_most) if ordered else 0.0
    while len(shown) > at_most:
        shown = _merged(ordered, within_s)
        within_s *= _WIDER
    return tuple(shown)


def _merged(ordered: Sequence[Mark], within_s: float) -> list[Mark]:
    """Return the marks; marks of one kind within `within_s` of their first mark are joined."""
    groups: list[list[Mark]] = []
    latest: dict[str, list[Mark]] = {}
    for mark in ordered:
        group = latest.get(mark.kind)
        if group is None or mark.time_s - group[0].time_s > within_s:
            group = latest[mark.kind] = []
            groups.append(group)
        group.append(mark)
    return [_as_one(group) for group in groups]


def _as_one(group: Sequence[Mark]) -> Mark:
    first, count = group[0], sum(mark.count for mark in group)
    if len(group) == 1:
        return first
    within = f"{count:,} within {group[-1].time_s - first.time_s:.3g} s"
    texts = {mark.text for mark in group}
    said = f"each {first.text}" if len(texts) == 1 else f"the first: {first.text}"
    return Mark(first.time_s, first.kind, f"{within}, {said}", count)
