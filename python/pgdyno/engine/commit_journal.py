"""Reads the journal of commits that a load writes (`LoadWork.journal`).

The engine records what became of each commit, in `crates/engine/src/commit_journal.rs`: 40 bytes a
commit. The file may be read while the engine writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.errors import EngineError

_HEAD = b"pgdyno commits 1"
_HEAD_BYTES = 40
_RECORD = np.dtype(
    [
        ("client", "<u4"),
        ("fate", "<u4"),
        ("sequence", "<u8"),
        ("xid", "<u8"),
        ("sent_ns", "<u8"),
        ("ended_ns", "<u8"),
    ]
)
_THREAD_ENDED = 4

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Fate(IntEnum):
    """What became of a commit."""

    ACKNOWLEDGED = 1
    """CommandComplete of COMMIT arrived."""
    IN_DOUBT = 2
    """COMMIT was sent, and no answer that counts arrived.

    `pg_xact_status(xid)` knows, if it is asked before another transaction begins: recovery gives a
    number again that was not on disk. Otherwise the entry knows: it has client, sequence and xid.
    """
    ABORTED = 3
    """The server answered that the transaction was rolled back."""


@dataclass(frozen=True, slots=True, eq=False)
class CommitJournal:
    """The commits of a load as arrays of equal length, in the order in which they were recorded.

    A client numbers its commits 1, 2, 3 and so on, from the number after the last one that the
    table had before the load. Times are Unix nanoseconds.
    """

    client: Int64Array
    fate: Int64Array
    sequence: Int64Array
    xid: Int64Array
    sent_ns: Int64Array
    ended_ns: Int64Array
    """When the answer came. In doubt: when the connection was lost, or the load gave up."""
    is_complete: bool
    """The engine ended by itself. If not, one commit of each client may be missing, and the records
    of the engine's last turns."""

    def __len__(self) -> int:
        return len(self.client)

    def having(self, fate: Fate) -> BoolArray:
        """Return which commits have this fate."""
        is_same: BoolArray = self.fate == fate
        return is_same

    def longest_gaps(self, *, began_ns: int, ended_ns: int) -> dict[int, CommitGap]:
        """Return for each client its longest time without an acknowledged commit.

        Args: the bounds of the time that is looked at, which end a gap, too.
        """
        gaps = {}
        acknowledged = self.having(Fate.ACKNOWLEDGED)
        for client in np.unique(self.client):
            mine = self.ended_ns[acknowledged & (self.client == client)]
            within = mine[(began_ns < mine) & (mine < ended_ns)]
            instants = np.concatenate(([began_ns], np.sort(within), [ended_ns]))
            longest = int(np.argmax(np.diff(instants)))
            gaps[int(client)] = CommitGap(int(instants[longest]), int(instants[longest + 1]))
        return gaps


@dataclass(frozen=True, slots=True)
class CommitGap:
    """A time without an acknowledged commit."""

    began_ns: int
    ended_ns: int

    @property
    def length_ns(self) -> int:
        """Return how long it lasted."""
        return self.ended_ns - self.began_ns


def read_commit_journal(path: Path) -> CommitJournal:
    """Return the commits in the journal at `path`; a record that is only partly written is left.

    Raises: EngineError if the file is missing or is not a journal.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EngineError(f"The journal {path} cannot be read: {error.strerror}.") from error
    if len(content) < _HEAD_BYTES or not content.startswith(_HEAD):
        raise EngineError(
            f"{path} is not a journal of commits.",
            hint="name the file that the job named as its journal",
        )
    thread_count = int.from_bytes(content[len(_HEAD) : len(_HEAD) + 4], "little")
    record_count = (len(content) - _HEAD_BYTES) // _RECORD.itemsize
    records = np.frombuffer(content, _RECORD, count=record_count, offset=_HEAD_BYTES)
    is_end = records["fate"] == _THREAD_ENDED
    commits = records[~is_end]
    columns: dict[str, Any] = {name: commits[name].astype(np.int64) for name in _RECORD.names or ()}
    return CommitJournal(**columns, is_complete=int(is_end.sum()) == thread_count)
