"""What happened during a run, of telemetry: checkpoints, vacuums, what the server's log told."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.analysis.findings import Mark
from pgdyno.loop.spans import counters_of
from pgdyno.store.stored_run import StoredRun

_CHECKPOINTS = {
    "checkpoints_timed": "checkpoint_timeout",
    "checkpoints_requested": "max_wal_size or a command",
}
_MARKED = {"crash": "error", "started": "error", "stopping": "error", "deadlock": "error"}
_WORDS = {
    "crash": "a server process crashed",
    "started": "the server started",
    "stopping": "the server was told to stop",
    "deadlock": "deadlock",
}


def event_marks(run: StoredRun, origin_ns: int) -> Iterator[Mark]:
    """Yield checkpoints begun, vacuums first seen, and what the log told that a chart should show.

    Seconds count from `origin_ns`.
    """
    for one in counters_of(run, "checkpointer"):
        for counter, why in _CHECKPOINTS.items():
            for time_ns in one.time_ns[one.by_column[counter] > 0].tolist():
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
