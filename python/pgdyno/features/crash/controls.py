"""The truth table: crashes whose outcome is known show that this test sees losses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgdyno.features.crash.moments import Phase
from pgdyno.features.crash.record import CrashRecord
from pgdyno.quantities import counted

Kind = Literal["kill", "power", "failover", "command"]
Expected = Literal["nothing lost", "only a suffix", "lost or corrupt", "corruption found"]

_ON = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
# More tries do not help: a control that shows nothing in six crashes shows that the test is blind.
_TRIES_MAX = 6
# A crash without an acknowledged commit before it shows nothing. It is repeated at most twice, as
# every run that something outside disturbed.
REPEATS_MAX = 2


@dataclass(frozen=True, slots=True)
class Control:
    """Settings whose outcome is known. It must show it within `tries` crashes.

    `replication`: the state of the standby that a failover needs for it. `tears_pages`: it needs a
    disk that tears pages; a real file system on the disk writes and syncs them whole.
    """

    name: str
    expected: Expected
    settings: Mapping[str, str] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ("load",)
    tries: int = _TRIES_MAX
    replication: Literal["", "synchronous", "asynchronous", "cut off"] = ""
    tears_pages: bool = False


@dataclass(frozen=True, slots=True)
class ControlSeen:
    """What the crashes of a control showed, and whether that is what it must show.

    `crashes`: how many show something; `repeated_count`: how many do not, because no commit was
    acknowledged before them.
    """

    name: str
    expected: str
    seen: str
    holds: bool
    crashes: int
    repeated_count: int = 0


_ALL_ON = Control("all on", "nothing lost", _ON, ("load", "checkpoint"), tries=2)
_ASYNCHRONOUS = Control(
    "synchronous_commit = off", "only a suffix", {**_ON, "synchronous_commit": "off"}
)
CONTROLS: Mapping[Kind, tuple[Control, ...]] = {
    "kill": (_ALL_ON, _ASYNCHRONOUS),
    "power": (
        _ALL_ON,
        Control("fsync = off", "lost or corrupt", {**_ON, "fsync": "off"}),
        _ASYNCHRONOUS,
        Control(
            "full_page_writes = off",
            "corruption found",
            {**_ON, "full_page_writes": "off"},
            ("UPDATE",),
            tears_pages=True,
        ),
    ),
    "failover": (
        Control("synchronous standby", "nothing lost", _ON, tries=2, replication="synchronous"),
        Control("standby cut off", "only a suffix", _ON, replication="cut off"),
    ),
    "command": (_ASYNCHRONOUS,),
}


def controls_of(kind: Kind, *, is_own: bool) -> Sequence[Control]:
    """Return the controls of a kind; on the user's own servers only the sessions can change."""
    return CONTROLS["command" if is_own else kind]


def is_settled(control: Control, records: Sequence[CrashRecord]) -> bool:
    """Return whether a control needs no further crash."""
    telling = _telling(records)
    is_over = len(records) - min(len(records) - len(telling), REPEATS_MAX) >= control.tries
    if is_over or _contradicts(control, records):
        return True
    return control.expected != "nothing lost" and _shows(control, records)


def judged(control: Control, records: Sequence[CrashRecord]) -> ControlSeen:
    """Return what the crashes of a control showed."""
    holds = not _contradicts(control, records) and _shows(control, records)
    count = len(_telling(records))
    seen, repeated = _seen(records), len(records) - count
    if repeated:
        seen += f"; {counted(repeated, 'crash')} repeated: no commit was acknowledged"
    return ControlSeen(control.name, control.expected, seen, holds, count, repeated)


def _telling(records: Sequence[CrashRecord]) -> list[CrashRecord]:
    """Return the crashes that show something: some commit was acknowledged, or damage was seen."""
    return [record for record in records if record.acknowledged or record.is_corrupt]


def _shows(control: Control, records: Sequence[CrashRecord]) -> bool:
    """Return whether one of the crashes shows what must be seen; a loss need not be in each."""
    if control.expected == "nothing lost":
        return bool(_telling(records))
    if control.expected == "only a suffix":
        return any(record.lost for record in records)
    if control.expected == "corruption found":
        return any(record.is_corrupt for record in records)
    return any(record.lost or record.is_corrupt for record in records)


def _contradicts(control: Control, records: Sequence[CrashRecord]) -> bool:
    if control.expected == "nothing lost":
        return any(record.lost or record.is_corrupt for record in records)
    if control.expected == "only a suffix":
        return any(record.is_corrupt or not record.is_suffix for record in records)
    return False


def _seen(records: Sequence[CrashRecord]) -> str:
    lost = sum(record.lost for record in records)
    corrupt = [record for record in records if record.is_corrupt]
    parts = []
    if lost:
        word = "commit" if lost == 1 else "commits"
        is_suffix = all(record.is_suffix for record in records)
        parts.append(f"{lost:,} {word} lost" + (", a suffix" if is_suffix and not corrupt else ""))
    if corrupt:
        parts.append(_corruption(corrupt))
    return "; ".join(parts) or "nothing lost"


def _corruption(corrupt: Sequence[CrashRecord]) -> str:
    refused = [record for record in corrupt if record.recovery_error]
    if refused:
        return f"no recovery: {refused[0].recovery_error}"
    bad = next(check for check in corrupt[0].checks if check.verdict == "bad")
    return f"{bad.name}: {bad.seen}"
