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

import re
from typing import ClassVar

MASK = "***"
_MASKED: tuple[tuple[re.Pattern[str], str], ...] = (
    # postgres://user:secret@host. A password may hold "/" or "@": mask up to the last "@" of the
    # word, rather than leave half of one.
    (re.compile(r"(?i)\b(postgres(?:ql)?://[^\s:/@\"']*):[^\s\"']*@"), rf"\1:{MASK}@"),
    # password=secret and password='a secret', in a conninfo string, a URI query or a setting;
    # a space around "=" is allowed, as libpq allows it.
    (
        re.compile(
            r"(?i)\b((?:ssl|pg)?password[\"']?\s*=\s*)"
            r"('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|(?:\\.|[^\s&;\"'\\])+)"
        ),
        rf"\1{MASK}",
    ),
    # CREATE ROLE r PASSWORD 'secret'
    (re.compile(r"(?i)\b(password\s+)E?'(?:''|[^'])*'"), rf"\1'{MASK}'"),
    # A document: "password": "secret".
    (
        re.compile(r"(?i)([\"'](?:ssl|pg)?password[\"']\s*:\s*)([\"'])[^\"']*[\"']"),
        rf"\1\2{MASK}\2",
    ),
)


def masked_text(text: str) -> str:
    """Return `text` with the passwords of connection strings and role statements masked."""
    if "password" not in text.lower() and "://" not in text:
        return text
    for pattern, replacement in _MASKED:
        text = pattern.sub(replacement, text)
    return text


class PgdynoError(Exception):
    """One paragraph for a person: a message saying what is wrong, a hint with the next step."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2
    has_run: bool = False
    """True if the command had begun its work on a server when this ended it."""

    def __init__(self, message: str, *, hint: str = "", sqlstate: str | None = None) -> None:
        # What was asked is often quoted, and with it a password.
        message, hint = masked_text(message), masked_text(hint)
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
    has_run = True


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
