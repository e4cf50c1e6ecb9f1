"""All errors of pgdyno. The message has the request, the value and the rule; the hint, what to do.

PgdynoError
├── SpecError        the request is unknown, impossible or contradicts itself (exit 1)
├── RefusedError     the request is possible, but unsafe without a permission (exit 1)
├── ServerError      PostgreSQL could not be reached, started, changed or kept (exit 2)
├── ProcessError     a child process could not be started, or did not end in time (exit 2)
├── EngineError      the load engine failed, or its answer breaks the contract (exit 2)
├── StoreError       a results folder is not writable, or is not a results folder (exit 1)
├── AnalysisError    the numbers allow no estimate (exit 2)
└── InterruptedByUser  SIGINT; all measurements until then are kept (exit 130)
    ├── TerminatedByUser  SIGTERM or SIGHUP; likewise (exit 143)
    └── TimeUsedUp  the time that the user gave is over; likewise (exit 5)
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.redaction import redacted


class PgdynoError(Exception):
    """An error in one paragraph: the message says what is wrong, the hint what to do."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2
    has_run: bool = False
    """Whether the command had started its work on a server before this error."""

    def __init__(self, message: str, *, hint: str = "", sqlstate: str | None = None) -> None:
        # A message often quotes the request, which may contain a password.
        message, hint = redacted(message), redacted(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.sqlstate = sqlstate


class SpecError(PgdynoError):
    """The request is unknown, impossible or contradicts itself; nothing was started."""

    kind = "spec"
    exit_code = 1


class RefusedError(PgdynoError):
    """The request is possible but unsafe; the hint names the option that permits it."""

    kind = "refused"
    exit_code = 1


class ServerError(PgdynoError):
    """PostgreSQL could not be found, reached, started, changed or kept."""

    kind = "server"


class ProcessError(PgdynoError):
    """A child process could not be started, or did not end in time."""

    kind = "process"


class EngineError(PgdynoError):
    """The load engine failed or was lost, or its answer breaks the contract."""

    kind = "engine"
    has_run = True


class StoreError(PgdynoError):
    """A results folder is not writable, or is not a results folder."""

    kind = "store"
    exit_code = 1


class StoreLostError(StoreError):
    """The results folder was removed while an experiment ran."""

    exit_code = 2


class AnalysisError(PgdynoError):
    """The numbers allow no estimate."""

    kind = "analysis"


class InterruptedByUser(PgdynoError):
    """SIGINT arrived; all measurements until then are kept."""

    kind = "interrupted"
    exit_code = 130


class TerminatedByUser(InterruptedByUser):
    """SIGTERM or SIGHUP arrived; all measurements until then are kept."""

    exit_code = 143


class TimeUsedUp(InterruptedByUser):
    """The time that the user gave is over; all measurements until then are kept."""

    exit_code = 5
