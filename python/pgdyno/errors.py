"""The error tree of pgdyno: what was asked, what was seen, the rule; the next step is the hint.

PgdynoError
├── SpecError        what was asked cannot be (exit 1)
├── RefusedError     asked for, possible, but unsafe without another word (exit 1)
├── ServerError      PostgreSQL could not be reached, started, changed or kept (exit 2)
├── ProcessError     a child process could not be started, or did not end in time (exit 2)
├── EngineError      the load engine failed or answered what the contract forbids (exit 2)
├── StoreError       a results folder cannot be written, or is not one (exit 1)
├── AnalysisError    numbers that no estimate can be made of (exit 2)
└── InterruptedByUser  SIGINT; what was measured is kept (exit 130)
    └── TerminatedByUser  SIGTERM or SIGHUP; likewise (exit 143)
"""

from __future__ import annotations

from typing import ClassVar


class PgdynoError(Exception):
    """One paragraph for a person: a message saying what is wrong, a hint with the next step."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "", sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.sqlstate = sqlstate


class SpecError(PgdynoError):
    """What was asked is unknown, impossible or contradicts itself; nothing was started."""

    kind = "spec"
    exit_code = 1


class RefusedError(PgdynoError):
    """What was asked is possible but unsafe; the hint names the option that allows it."""

    kind = "refused"
    exit_code = 1


class ServerError(PgdynoError):
    """PostgreSQL could not be found, reached, started, changed or kept."""

    kind = "server"


class ProcessError(PgdynoError):
    """A child process could not be started, or did not end in time."""

    kind = "process"


class EngineError(PgdynoError):
    """The load engine failed, was lost, or answered what the contract forbids."""

    kind = "engine"


class StoreError(PgdynoError):
    """A results folder cannot be written, or is not one."""

    kind = "store"
    exit_code = 1


class AnalysisError(PgdynoError):
    """The numbers given allow no estimate."""

    kind = "analysis"


class InterruptedByUser(PgdynoError):
    """SIGINT arrived; what was measured until then is kept."""

    kind = "interrupted"
    exit_code = 130


class TerminatedByUser(InterruptedByUser):
    """SIGTERM or SIGHUP arrived; what was measured until then is kept."""

    exit_code = 143
