"""Who had which core when, as the kernel's scheduler says: recorded by `perf`, read into slices."""

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
# Pages of 4 KiB for each core: they hold the events until perf gets a core itself.
_BUFFER_PAGES = 4096
_SWITCH = re.compile(
    r"\[(\d+)\]\s+(\d+)\.(\d{9}): .*? prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> .*"
)
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Slice:
    """A thread on a core from one instant to another, ns; `slept`: then it waited for something.

    `thread` is 0 while nobody wanted the core.
    """

    core: int
    begin_ns: int
    end_ns: int
    thread: int
    slept: bool


def record(seconds: float) -> list[Slice]:
    """Return who had the cores for this time from now, by their ends.

    Raises: RuntimeError without `perf`, or without the right to record what the kernel does.
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
    """Run it, its output going to `out`, and return what it wrote to standard error."""
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
    """Read what `perf script` prints of switches; the first of each core only tells a beginning."""
    began_ns: dict[int, int] = {}
    for line in lines:
        match = _SWITCH.search(line)
        if match is None:
            continue
        core, seconds, nanoseconds, thread, state = match.groups()
        now_ns = int(seconds + nanoseconds)
        if int(core) in began_ns:
            # R: it would have gone on.
            slept = not state.startswith("R")
            yield Slice(int(core), began_ns[int(core)], now_ns, int(thread), slept)
        began_ns[int(core)] = now_ns
