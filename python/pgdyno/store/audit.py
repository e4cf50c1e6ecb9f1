"""The journal of changes of servers, `audit.jsonl`: what was changed, restored, or given up.

A line that cannot be read may name a change. Therefore damage is reported, never skipped. Each line
has a seal: only a journal that this user wrote on this host is undone without a question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.redaction import without_secrets
from pgdyno.store import files
from pgdyno.store.seal import is_ours, seal_of

AUDIT = "audit.jsonl"
_CHANGES = ("settings", "applied")
_ENDS = ("undone", "dismissed")
# An entry that closes lines that cannot be read: the user has looked at them.
_FOREIGN = "is_foreign"
_GIVEN_UP = "lines dismissed"


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of a journal in order, and the numbers of the lines that cannot be read."""

    entries: tuple[dict[str, Any], ...]
    damaged: tuple[str, ...]

    def outstanding(self) -> list[dict[str, Any]]:
        """Return the changes that were neither undone nor dismissed, newest first."""
        changes: list[dict[str, Any]] = []
        for entry in self.entries:
            if entry["change"] in _CHANGES:
                changes.append(entry)
            elif entry["change"] in _ENDS:
                # Servers are restored in any order. Older journals do not name the server.
                admin = entry.get("admin")
                of_server = [change for change in changes if admin in (None, change["admin"])]
                if of_server:
                    changes.remove(of_server[-1])
        return changes[::-1]


def read_journal(path: Path) -> Journal:
    """Return a journal. A missing file is an empty journal.

    Raises: StoreError if the file cannot be read.
    """
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return Journal((), ())
    except OSError as error:
        raise files.refused(path, error) from error
    entries, damaged = [], []
    for number, line in enumerate(content.split(b"\n"), 1):
        entry = _entry(line)
        if entry is None:
            damaged += [str(number)] * (bool(line) and not _is_half(line))
        elif entry["change"] == _GIVEN_UP:
            damaged = [line for line in damaged if line not in entry.get("lines", ())]
        else:
            entries.append(entry)
    return Journal(tuple(entries), tuple(damaged))


def sealed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry as it is kept: without secrets, with its seal."""
    kept: dict[str, Any] = without_secrets(dict(entry))
    return {**kept, "seal": seal_of(_canonical(kept))}


def is_foreign(entry: Mapping[str, Any]) -> bool:
    """Return whether another user or host wrote an entry that was read, or somebody changed it."""
    return bool(entry.get(_FOREIGN))


def _canonical(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, ensure_ascii=True).encode()


def lines_given_up(damaged: tuple[str, ...]) -> dict[str, Any]:
    """Return the entry that closes these lines."""
    return {"change": _GIVEN_UP, "lines": list(damaged)}


def damage_of(path: Path, damaged: tuple[str, ...], number: int) -> StoreError:
    """Return the error for the lines of a journal that cannot be read.

    Args: number, of the result.
    """
    many = len(damaged) > 1
    lines = f"lines {', '.join(damaged)}" if many else f"line {damaged[0]}"
    return StoreError(
        f"{path}: {lines} cannot be read. {'They' if many else 'It'} may name settings that are "
        "still changed.",
        hint=(
            "compare the settings of the server with the journal; "
            f"then pgdyno undo --dismiss {number} closes the journal"
        ),
    )


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line; None if a program cannot restore or close a change from it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    seal = entry.pop("seal", "")
    entry.pop(_FOREIGN, None)
    if not is_ours(_canonical(entry), seal):
        entry[_FOREIGN] = True
    change = entry.get("change")
    if change in _CHANGES:
        is_whole = _is_place(entry.get("admin")) and isinstance(entry.get("previous"), dict)
        return entry if is_whole else None
    return entry if change in (*_ENDS, _GIVEN_UP) else None


def _is_place(admin: Any) -> bool:
    return isinstance(admin, Mapping) and isinstance(admin.get("host"), str)


def _is_half(line: bytes) -> bool:
    """Return whether a crash cut this line: its change was not made, because it comes later."""
    return line.startswith(b'{"change": "') and not line.endswith(b"}")
