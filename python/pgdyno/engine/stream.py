"""Runs one engine process: sends the job, reads the records, and ends the process in every case."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel

from pgdyno.clock import monotonic_ns
from pgdyno.engine.executable import NEEDED, engine_for_jobs, engine_path, remember_known
from pgdyno.engine.job import Job
from pgdyno.engine.records import Failure, Hello, Record, ScriptShape, Summary, parse_record
from pgdyno.errors import EngineError, InterruptedByUser, SpecError
from pgdyno.process import child, signals

OnRecord = Callable[[bytes, Record], None]
_READ_BYTES = 1 << 16
# After a stop the engine may drain (5 s by default) and cancel statements; then it is ended.
_STOP_GRACE_S = 15.0
# After a signal the user waits: an engine that the server keeps waiting is ended.
_SIGNAL_GRACE_S = 2.3
_SESSIONS_MAY_STAY = (
    " The server did not answer in time, so the engine was ended: sessions of the load may still be"
    " on the server until it notices."
)


@dataclass(frozen=True, slots=True)
class EngineOutcome:
    """How one engine process ended. `summary` is None if the engine was lost before it wrote it."""

    summary: Summary | None
    failures: tuple[Failure, ...]
    exit_code: int
    interrupted: InterruptedByUser | None
    log_tail: str

    def raise_if_nothing_was_measured(self) -> Summary:
        """Return the summary, or raise the reason why it is missing.

        Raises: EngineError with the engine's own error, or with the last lines of its log.
        """
        if self.summary is not None:
            return self.summary
        if self.interrupted is not None:
            raise self.interrupted
        if self.failures:
            raise engine_error(self.failures[0])
        raise EngineError(
            f"The engine ended without a summary (exit code {self.exit_code}). Its last "
            f"messages: {self.log_tail or 'none'}.",
            hint="the results until then are kept and listed as incomplete",
        )


class EngineRun:
    """A started engine; use it as a context manager: the process never outlives the block."""

    hosts: tuple[BaseModel, ...] = ()
    """Facts of each load host; empty for one engine on this host."""

    def __init__(self, job: Job, *, log: IO[bytes] | int = subprocess.DEVNULL) -> None:
        self._log = log
        self._pending = b""
        self._child = _start_engine(engine_for_jobs(), "run", stderr=log)
        self.pid: int | None = self._child.pid
        self._write(job.to_line())

    def __enter__(self) -> EngineRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close_pipes()
        self._child.terminate(grace_s=_STOP_GRACE_S)

    def end(self) -> None:
        """End the engine and leave its records to the thread that reads them."""
        self._child.terminate(grace_s=_STOP_GRACE_S)

    def stop(self) -> None:
        """Ask for an early, clean end: the engine drains, cancels statements, and reports."""
        self._write(b"stop\n")

    def run(self, on_record: OnRecord) -> EngineOutcome:
        """Pass every record to `on_record` until the engine ends; an interrupt becomes a stop.

        The first SIGINT or SIGTERM stops the engine. It is returned in the outcome and not raised,
        so that the caller can store the results before the signal ends it.
        """
        summary: Summary | None = None
        failures: list[Failure] = []
        interrupted: InterruptedByUser | None = None
        lines = self._lines()
        while True:
            try:
                line = next(lines, None)
            except InterruptedByUser as signal_seen:
                interrupted = signal_seen
                self.stop()
                # A generator that raised an exception is finished: go on reading with a new one.
                lines = self._lines(until_ns=monotonic_ns() + int(_SIGNAL_GRACE_S * 1e9))
                continue
            if line is None:
                break
            record = parse_record(line)
            if isinstance(record, Summary):
                summary = record
            elif isinstance(record, Failure):
                failures.append(record)
            on_record(line, record)
        if interrupted is None or self._child.ends_within(0.2):
            exit_code = self._child.terminate(grace_s=_STOP_GRACE_S)
        else:
            exit_code = self._child.terminate(grace_s=0.1)
            interrupted.message += _SESSIONS_MAY_STAY
        return EngineOutcome(summary, tuple(failures), exit_code, interrupted, self._log_tail())

    def _lines(self, until_ns: int | None = None) -> Iterator[bytes]:
        """Yield the records as they arrive, until `until_ns` at most, even if more would follow."""
        stdout = self._child.stdout
        assert stdout is not None
        while until_ns is None or monotonic_ns() < until_ns:
            rest_s = None if until_ns is None else (until_ns - monotonic_ns()) / 1e9
            if not signals.wait_readable([stdout.fileno()], rest_s):
                return
            chunk = os.read(stdout.fileno(), _READ_BYTES)
            if not chunk:
                return
            *complete, self._pending = (self._pending + chunk).split(b"\n")
            yield from complete

    def _write(self, line: bytes) -> None:
        try:
            assert self._child.stdin is not None
            self._child.stdin.write(line)
            self._child.stdin.flush()
        except BrokenPipeError:
            # The engine is already gone; its records and its exit code give the reason.
            return

    def _log_tail(self) -> str:
        if isinstance(self._log, int):
            return ""
        path = Path(str(self._log.name))
        text = path.read_text(errors="replace") if path.exists() else ""
        return " ".join(text.split()[-60:])


def _start_engine(
    *arguments: str | Path, stderr: IO[bytes] | int = subprocess.DEVNULL
) -> child.Child:
    """Start the engine, which reads its job; the end of its input ends it, too."""
    return child.start(
        [*arguments],
        name="pgdyno-engine",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        death_signal=None,
    )


def check_job(job: Job) -> tuple[ScriptShape, ...]:
    """Let the engine check the job without connecting; return the parsed scripts.

    The engine also gets the version that this pgdyno needs (`NEEDED`). One of another version
    answers nothing that can be read, and `engine_for_jobs` then raises the error.

    Raises: SpecError with file, line, column and caret of the mistake; EngineError with both
    versions if the engine is older, or of another release.
    """
    path = engine_path()
    with _start_engine(path, "check-job", NEEDED) as checker:
        assert checker.stdin is not None
        assert checker.stdout is not None
        with suppress(BrokenPipeError):
            checker.stdin.write(job.to_line())
            checker.stdin.close()
        lines = checker.stdout.read().splitlines()
    try:
        records = [parse_record(line) for line in lines]
    except EngineError:
        engine_for_jobs()
        raise
    if records:
        remember_known(path)
    else:
        engine_for_jobs()
    for record in records:
        if isinstance(record, Failure):
            raise SpecError(record.message, hint=record.hint or "correct that line of the script")
    for record in records:
        if isinstance(record, Hello):
            return record.scripts
    raise EngineError("The engine did not answer when the job was checked.", hint="run make build")


def print_sql(job: Job) -> str:
    """Return the statements that a loading job may send, one a line; nothing connects.

    Raises: SpecError that says what is wrong with the job.
    """
    with _start_engine(engine_for_jobs(), "print-sql") as printer:
        assert printer.stdin is not None
        assert printer.stdout is not None
        printer.stdin.write(job.to_line())
        printer.stdin.close()
        said = printer.stdout.read()
    if said.startswith(b'{"record"'):
        record = parse_record(said.splitlines()[0])
        if isinstance(record, Failure):
            raise SpecError(_sentence(record.message), hint=record.hint)
    return said.decode().rstrip()


# Kinds of errors that end a job before its first transaction.
_BEFORE_THE_LOAD = frozenset(
    {"job", "script", "connect", "authentication", "too_many_connections", "prepare"}
)


def engine_error(failure: Failure) -> EngineError:
    """Return the engine's own error as one of ours, with the same SQLSTATE and hint."""
    hint = failure.hint
    if not hint and (failure.sqlstate or "").startswith("42"):  # Syntax, names, privileges.
        hint = "correct the script, or name the server and database that the script was written for"
    error = EngineError(_sentence(failure.message), hint=hint, sqlstate=failure.sqlstate)
    error.has_run = failure.kind not in _BEFORE_THE_LOAD
    return error


def _sentence(text: str) -> str:
    """Return Rust's lower-case error text as a sentence; a name at its start stays unchanged."""
    if text.split(" ", 1)[0].isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "^")) else text + "."
