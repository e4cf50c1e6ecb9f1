"""The journal of changes of servers, `audit.jsonl`: what was changed, restored, or given up.

A line that cannot be read may name a change. Therefore damage is reported, never skipped. Each line
has a seal of its content, of its result and of the line of this user before it. So a line that was
copied into another result, or to another place, counts as somebody else's. Only a change that this
user wrote on this host is undone without a question, and only a line of this user closes it.
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
from pgdyno.store.seal import is_last_kept, is_ours, seal_of

AUDIT = "audit.jsonl"
_CHANGES = ("settings", "applied")
_ENDS = ("undone", "dismissed")
# An entry that closes lines that cannot be read: the user has looked at them.
_FOREIGN = "is_foreign"
_GIVEN_UP = "lines dismissed"


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of a journal in order, and the numbers of the lines that cannot be read.

    `last_seal`: of the last line that this user wrote; "" if this user wrote no line.
    """

    entries: tuple[dict[str, Any], ...]
    damaged: tuple[str, ...]
    last_seal: str = ""

    def outstanding(self) -> list[dict[str, Any]]:
        """Return the changes that were neither undone nor dismissed, newest first."""
        changes: list[dict[str, Any]] = []
        for entry in self.entries:
            if entry["change"] in _CHANGES:
                changes.append(entry)
            elif entry["change"] in _ENDS:
                # Servers are restored in any order. Older journals do not name the server.
                admin = entry.get("admin")
                of_server = [
                    change
                    for change in changes
                    if admin in (None, change["admin"])
                    and (is_foreign(change) or not is_foreign(entry))
                ]
                if of_server:
                    changes.remove(of_server[-1])
        return changes[::-1]


def read_journal(path: Path, result: str) -> Journal:
    """Return a journal. A missing file is an empty journal.

    Args: result, to whose folder the journal belongs.
    Raises: StoreError if the file cannot be read.
    """
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return Journal((), ())
    except OSError as error:
        raise files.refused(path, error) from error
    lines = content.split(b"\n")
    read, seals = [], [""]
    for line in lines:
        entry, seal = _entry(line, result, seals[-1])
        read.append(entry)
        seals += [seal] * bool(seal)
    # A user who can write into the store can cut off the end of a journal, too.
    is_cut = not is_last_kept(result, seals)
    entries, damaged = [], []
    for number, (line, entry) in enumerate(zip(lines, read, strict=True), 1):
        if entry is None:
            damaged += [str(number)] * (bool(line) and not _is_half(line))
            continue
        if is_cut:
            entry[_FOREIGN] = True
        if entry["change"] != _GIVEN_UP:
            entries.append(entry)
        elif not is_foreign(entry):
            damaged = [line for line in damaged if line not in entry.get("lines", ())]
    return Journal(tuple(entries), tuple(damaged), seals[-1])


def sealed(entry: Mapping[str, Any], result: str, last_seal: str) -> dict[str, Any]:
    """Return the entry as it is kept: without secrets, with its seal.

    Args: result, to whose folder the journal belongs; last_seal, of the journal before this entry.
    """
    kept: dict[str, Any] = without_secrets(dict(entry))
    return {**kept, "seal": seal_of(_canonical(kept, result, last_seal))}


def is_foreign(entry: Mapping[str, Any]) -> bool:
    """Return whether another user or host wrote an entry that was read, or somebody changed it."""
    return bool(entry.get(_FOREIGN))


def _canonical(entry: Mapping[str, Any], result: str, last_seal: str) -> bytes:
    return json.dumps([result, last_seal, entry], sort_keys=True, ensure_ascii=True).encode()


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


def _entry(line: bytes, result: str, last_seal: str) -> tuple[dict[str, Any] | None, str]:
    """Return the entry of a line, and its seal; "" if this user did not write it here.

    The entry is None if a program cannot restore or close a change from it.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(entry, dict):
        return None, ""
    seal = entry.pop("seal", "")
    entry.pop(_FOREIGN, None)
    if not is_ours(_canonical(entry, result, last_seal), seal):
        entry[_FOREIGN], seal = True, ""
    change = entry.get("change")
    is_whole = change in (*_ENDS, _GIVEN_UP)
    if change in _CHANGES:
        is_whole = _is_place(entry.get("admin")) and isinstance(entry.get("previous"), dict)
    return (entry if is_whole else None), seal


def _is_place(admin: Any) -> bool:
    return isinstance(admin, Mapping) and isinstance(admin.get("host"), str)


def _is_half(line: bytes) -> bool:
    """Return whether a crash cut this line: its change was not made, because it comes later."""
    return line.startswith(b'{"change": "') and not line.endswith(b"}")
