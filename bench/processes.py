"""Runs one program from start to end: its output, its CPU time, its peak memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.clock import monotonic_ns
from pgdyno.process import signals

_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """The cost of a program. `cpu_ns`: user and system time, from its first instruction on.

    `looks`: pairs of CLOCK_MONOTONIC and the CPU time so far of its living threads, both in ns, in
    time order.
    """

    stdout: str
    stderr: str
    cpu_ns: int
    wall_ns: int
    resident_bytes_max: int
    looks: tuple[tuple[int, int], ...]

    def cpu_ratio_between(self, from_s: float, to_s: float) -> float:
        """Return the share of a core that it used between two times, in seconds before its end."""
        end_ns = self.looks[-1][0]
        inside = [look for look in self.looks if from_s * 1e9 >= end_ns - look[0] >= to_s * 1e9]
        if len(inside) < 2:
            raise RuntimeError(f"it ran for less than {from_s:g} s")
        (begun_ns, before_ns), (ended_ns, after_ns) = inside[0], inside[-1]
        return (after_ns - before_ns) / (ended_ns - begun_ns)


class Failed(RuntimeError):
    """A program ended with an error; `stdout` has its output until then."""

    def __init__(self, message: str, stdout: str) -> None:
        super().__init__(message)
        self.stdout = stdout


def run(argv: Sequence[str | Path], *, timeout_s: float, given: bytes | None = None) -> Ended:
    """Run a program to its end; its standard input stays open until then.

    Raises: Failed with its last message if it fails; RuntimeError if it does not end in time;
    InterruptedByUser. In every case the program has ended when this function ends.
    """
    begun_ns = monotonic_ns()
    with (
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A separate session: Ctrl-C reaches only us, and we end the program.
            start_new_session=True,
        ) as process,
        _Collected(process) as collected,
    ):
        assert process.stdin
        if given is not None:
            process.stdin.write(given)
            process.stdin.flush()
        resident_bytes, looks = 0, []
        while True:
            # Subtle: VmHWM is the program's own; ru_maxrss would begin with that of Python.
            resident_bytes = max(resident_bytes, _resident_bytes_max(process.pid))
            looks.append((monotonic_ns(), cpu_ns_of(process.pid)))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if monotonic_ns() - begun_ns > timeout_s * 1e9:
                raise RuntimeError(f"{argv[0]} did not end within {timeout_s:g} s")
            signals.sleep(_LOOK_S)
        wall_ns = monotonic_ns() - begun_ns
        process.returncode = os.waitstatus_to_exitcode(status)
    out, err = collected.texts()
    if process.returncode != 0:
        words = " ".join((err or out).split()[-60:])
        raise Failed(f"{Path(argv[0]).name} ended with {process.returncode}: {words}", out)
    cpu_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
    return Ended(out, err, cpu_ns, wall_ns, resident_bytes, tuple(looks))


class _Collected:
    """Reads both outputs of a process, so that it never waits for us; an error here kills it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._chunks: dict[str, bytes] = {}
        streams = {"out": process.stdout, "err": process.stderr}
        self._threads = [
            threading.Thread(target=lambda n=name, s=stream: self._chunks.update({n: s.read()}))
            for name, stream in streams.items()
        ]

    def __enter__(self) -> _Collected:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # Also kill its own children: they would keep the outputs open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join()

    def texts(self) -> tuple[str, str]:
        return self._chunks["out"].decode(), self._chunks["err"].decode(errors="replace")


def cpu_ns_of(pid: int) -> int:
    """Return the CPU time so far of the living threads of a process."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total_ns += int(task.read_text().split()[0])
    return total_ns


def _resident_bytes_max(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in text.splitlines() if line.startswith("VmHWM:")]
    return int(sizes[0]) * 1024 if sizes else 0
