"""A load that continues while stretches of it are measured, one after another.

A loss of 1 % is visible between neighbouring stretches of one load. It is not visible between runs,
which differ by 5 % anyway.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from dataclasses import replace
from types import TracebackType
from typing import IO

from bench.loads import Load, Measured, job_of
from bench.processes import cpu_ns_of
from pgdyno.clock import read_pair
from pgdyno.engine.executable import engine_path
from pgdyno.engine.job import Job
from pgdyno.engine.records import Failure, Interval, parse_record
from pgdyno.process import child, signals

SECOND_NS = 1_000_000_000
# Longer than any measurement: the load is stopped earlier.
AT_MOST_S = 24 * 3600.0
_GRACE_S = 15.0


class SteadyLoad:
    """The load engine, which generates load from the start to the end of the `with` block."""

    def __init__(self, load: Load | Job) -> None:
        """Take a load of any length, or a job that lasts `AT_MOST_S`."""
        self._job = load if isinstance(load, Job) else job_of(replace(load, seconds=AT_MOST_S))
        self._intervals: list[Interval] = []
        self._failure = ""
        self._began = threading.Event()

    def __enter__(self) -> SteadyLoad:
        self._engine = child.start(
            [engine_path(), "run"],
            name="pgdyno-engine",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._engine.stdin is not None
        assert self._engine.stdout is not None
        self._engine.stdin.write(self._job.to_line())
        self._engine.stdin.flush()
        self._reader = threading.Thread(target=self._read, args=(self._engine.stdout,))
        self._reader.start()
        try:
            while not self._began.is_set():
                signals.sleep(0.1)
            self.raise_if_over()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._end()

    @property
    def cpu_ns(self) -> int:
        """Return the CPU time of the engine so far."""
        return cpu_ns_of(self._engine.pid)

    def pause(self) -> None:
        """Stop the engine where it is; its connections stay."""
        self._engine.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the engine go on after a pause."""
        self._engine.send_signal(signal.SIGCONT)

    def _end(self) -> None:
        self.resume()
        self._engine.terminate(grace_s=_GRACE_S)
        self._reader.join()
        self._engine.close_pipes()

    def stretch(self, seconds: float) -> Measured:
        """Return the work that the load does in this time from now.

        Raises: RuntimeError if the load has ended.
        """
        begin_ns = read_pair().unix_ns
        signals.sleep(seconds)
        end_ns = read_pair().unix_ns
        while not self._intervals or self._intervals[-1].time_ns < end_ns:
            self.raise_if_over()
            signals.sleep(0.05)
        inside = [
            interval
            for interval in list(self._intervals)
            if interval.time_ns - interval.interval_ns >= begin_ns and interval.time_ns <= end_ns
        ]
        if len(inside) < 2:
            raise RuntimeError(
                f"{seconds:g} s are too short: they have fewer than two intervals of the engine"
            )
        done = sum(interval.counts.completed for interval in inside)
        took_ns = sum(interval.interval_ns for interval in inside)
        # A running total at the end of each interval, so that of the first interval is unknown.
        cpu_ns = inside[-1].cpu_ns - inside[0].cpu_ns
        return Measured("engine", done, done * SECOND_NS / took_ns, cpu_ns, took_ns, 0)

    def _read(self, records: IO[bytes]) -> None:
        for line in records:
            record = parse_record(line)
            if isinstance(record, Interval) and record.phase == "measure":
                self._intervals.append(record)
                self._began.set()
            elif isinstance(record, Failure):
                self._failure = record.message
        self._began.set()

    def raise_if_over(self) -> None:
        """Raise RuntimeError with the engine's error if the load has ended."""
        if not self._reader.is_alive():
            raise RuntimeError(f"engine: {self._failure or 'it ended too early'}")
