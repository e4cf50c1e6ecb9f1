"""What is stored of one crash: one JSON line, from which the whole answer is made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Verdict = Literal["good", "bad", "note", "skipped"]


@dataclass(frozen=True, slots=True)
class CheckSeen:
    """One check after a crash: what was seen, or why it was not possible."""

    name: str
    verdict: Verdict
    seen: str


@dataclass(frozen=True, slots=True)
class CrashRecord:
    """One crash. Times are ns; the moments count from the crash.

    `arm`: "" for the server in question, else the name of a control. `hit`: whether the work of the
    phase was running at the crash. `longest_gap_ns`: longest time without a commit of any client,
    from its last acknowledgement before the crash (failover: RTO). `recovery_error`: the server's
    words if it did not come back. `disk_warnings`: requests that the disk of the test did not know.
    """

    number: int
    arm: str
    phase: str
    seed: int
    hit: bool
    acknowledged: int = 0
    lost: int = 0
    lost_ns: int = 0
    is_suffix: bool = True
    in_doubt: int = 0
    in_doubt_committed: int = 0
    load_ns: int = 0
    restart_ns: int = 0
    redo_began_ns: int | None = None
    redo_ended_ns: int | None = None
    answered_ns: int | None = None
    wal_bytes: int | None = None
    longest_gap_ns: int | None = None
    survivors: dict[str, int] = field(default_factory=dict)
    checks: tuple[CheckSeen, ...] = ()
    recovery_error: str = ""
    fault: str = ""
    disk_warnings: tuple[str, ...] = ()

    @property
    def is_corrupt(self) -> bool:
        """Return whether the server did not recover, or a check failed."""
        return bool(self.recovery_error) or any(check.verdict == "bad" for check in self.checks)

    @property
    def recovery_ns(self) -> int | None:
        """Return the time from the restart to the first answer."""
        return None if self.answered_ns is None else self.answered_ns - self.restart_ns

    def as_document(self) -> dict[str, Any]:
        """Return it as a JSON object, with what follows from it."""
        return {**asdict(self), "is_corrupt": self.is_corrupt}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CrashRecord:
        """Read it back; keys of newer versions are ignored."""
        known = {
            entry.name: document[entry.name] for entry in fields(cls) if entry.name in document
        }
        checks = tuple(CheckSeen(**check) for check in document.get("checks", ()))
        warnings = tuple(document.get("disk_warnings", ()))
        return cls(**{**known, "checks": checks, "disk_warnings": warnings})
