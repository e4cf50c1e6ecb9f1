"""Records with `perf` which thread had which core, and when, as slices of time."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pgdyno.process import child

_EVENT = "sched:sched_switch"
# Pages of 4 KiB for each core; they keep the events until perf itself gets a core.
_BUFFER_PAGES = 4096
_SWITCH = re.compile(
    r"\[(\d+)\]\s+(\d+)\.(\d{9}): .*? prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> .*"
)
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Slice:
    """A thread on a core from one instant to another, ns.

    `thread` is 0 if the core was idle. `slept`: the thread then waited, and was not interrupted.
    """

    core: int
    begin_ns: int
    end_ns: int
    thread: int
    slept: bool


def record(seconds: float) -> list[Slice]:
    """Record for this time from now; return the slices in the order of their ends.

    Raises: RuntimeError without `perf`, or without the privilege to record the kernel's events.
    """
    if shutil.which("perf") is None:
        raise RuntimeError("perf is not installed: apt-get install linux-perf")
    with tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-") as folder:
        data, lines = Path(folder) / "switches", Path(folder) / "lines"
        what = ["--all-cpus", "--event", _EVENT, "--mmap-pages", str(_BUFFER_PAGES)]
        argv = ["perf", "record", *what, "--output", str(data), "--", "sleep", f"{seconds:g}"]
        said = _run(argv, timeout_s=seconds + _GRACE_S)
        if "lost" in said.lower():
            raise RuntimeError(f"perf could not keep up: {said[-300:]}")
        argv = ["perf", "script", "--ns", "--fields", "cpu,time,trace", "--input", str(data)]
        with lines.open("wb") as out:
            _run(argv, timeout_s=seconds + _GRACE_S, out=out)
        with lines.open() as text:
            return list(slices_of(text))


def _run(argv: list[str], *, timeout_s: float, out: int | IO[bytes] = subprocess.DEVNULL) -> str:
    """Run the program with its output to `out`; return its standard error."""
    with (
        tempfile.TemporaryFile() as errors,
        child.start(argv, stdout=out, stderr=errors) as perf,
    ):
        ended = perf.wait(timeout_s)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    if ended != 0:
        raise RuntimeError(f"{' '.join(argv[:2])} ended with {ended}: {said[-300:]}")
    return said


def slices_of(lines: Iterable[str]) -> Iterator[Slice]:
    """Parse the output of `perf script`; the first switch of a core only begins a slice."""
    began_ns: dict[int, int] = {}
    for line in lines:
        match = _SWITCH.search(line)
        if match is None:
            continue
        core, seconds, nanoseconds, thread, state = match.groups()
        now_ns = int(seconds + nanoseconds)
        if int(core) in began_ns:
            # R: the thread was still runnable.
            slept = not state.startswith("R")
            yield Slice(int(core), began_ns[int(core)], now_ns, int(thread), slept)
        began_ns[int(core)] = now_ns
