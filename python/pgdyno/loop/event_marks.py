"""What happened during a run, of telemetry: vacuums under way, what the server's log told."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.analysis.findings import Mark
from pgdyno.store.stored_run import StoredRun

_MARKED = {"crash": "error", "started": "error", "stopping": "error", "deadlock": "error"}
_WORDS = {
    "crash": "a server process crashed",
    "started": "the server started",
    "stopping": "the server was told to stop",
    "deadlock": "deadlock",
}


def event_marks(run: StoredRun, origin_ns: int) -> Iterator[Mark]:
    """Yield vacuums when they were first seen, and what the log told that a chart should show."""
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
