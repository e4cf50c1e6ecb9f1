"""What became of each commit: the journal of the load against the rows after recovery. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SentCommit:
    """One COMMIT that a client sent.

    `acknowledged_ns` is None if no answer arrived (in doubt), and if the answer was that the
    transaction was rolled back (`is_aborted`).
    """

    client: int
    sequence: int
    xid: int
    sent_ns: int
    acknowledged_ns: int | None
    is_aborted: bool = False

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the client does not know what became of it."""
        return self.acknowledged_ns is None and not self.is_aborted

    @property
    def key(self) -> Key:
        """Return the primary key of its row."""
        return (self.client, self.sequence)


def acknowledged_count(commits: Sequence[SentCommit]) -> int:
    """Return how many commits were acknowledged."""
    return sum(commit.acknowledged_ns is not None for commit in commits)


@dataclass(frozen=True, slots=True)
class Losses:
    """What one crash took.

    `lost_ns`: from the first acknowledgement that was lost until the crash, or until the last one
    that was lost: processes of a killed server answer until it is their turn. `is_suffix`: no
    commit survived that was sent after a lost one had been acknowledged. `in_doubt_wrong`: commits
    in doubt whose status in the server contradicts their row, and rolled back ones that have a row.
    `unsent`: rows that no client sent.
    """

    acknowledged: int
    lost: int
    lost_ns: int
    is_suffix: bool
    in_doubt: int
    in_doubt_committed: int
    in_doubt_wrong: int
    unsent: int


def losses_of(
    commits: Sequence[SentCommit],
    present: Mapping[Key, int],
    status: Mapping[int, str | None],
    *,
    crashed_ns: int,
) -> Losses:
    """Compare the journal with the rows after recovery.

    Args: present, the transaction of each row by its key; status, what pg_xact_status says of each
    transaction in doubt, None where the server no longer knows; crashed_ns, the moment of the crash
    by the journal's clock.
    """
    acknowledged = [commit for commit in commits if commit.acknowledged_ns is not None]
    lost = [commit for commit in acknowledged if present.get(commit.key) != commit.xid]
    lost_acknowledged_ns = [commit.acknowledged_ns or 0 for commit in lost]
    first_lost_ns = min(lost_acknowledged_ns, default=crashed_ns)
    survived = {commit.key for commit in commits if present.get(commit.key) == commit.xid}
    later = [commit for commit in commits if first_lost_ns < commit.sent_ns < crashed_ns]
    given_again = set(present.values())
    in_doubt = [commit for commit in commits if commit.is_in_doubt]
    committed = [commit for commit in in_doubt if commit.key in survived]
    # A rolled back transaction has no row. One in doubt has a row if the server says "committed".
    wrong = [commit for commit in commits if commit.is_aborted and commit.key in survived]
    wrong += [
        commit
        for commit in in_doubt
        # A later commit may still wait for a standby: it has happened, and its row is not visible.
        if commit.sent_ns < crashed_ns
        # A promoted standby may have given the number to another transaction.
        and status.get(commit.xid) is not None
        and (commit.key in survived or commit.xid not in given_again)
        and (status[commit.xid] == "committed") != (commit.key in survived)
    ]
    return Losses(
        acknowledged=len(acknowledged),
        lost=len(lost),
        lost_ns=max(crashed_ns, *lost_acknowledged_ns) - first_lost_ns if lost else 0,
        is_suffix=not (lost and any(commit.key in survived for commit in later)),
        in_doubt=len(in_doubt),
        in_doubt_committed=len(committed),
        in_doubt_wrong=len(wrong),
        unsent=len(_of_this_load(present, commits) - {commit.key for commit in commits}),
    )


def _of_this_load(present: Mapping[Key, int], commits: Sequence[SentCommit]) -> set[Key]:
    """Return the rows that are not older than the load: it continues the numbers of each client."""
    first: dict[int, int] = {}
    for commit in commits:
        first[commit.client] = min(commit.sequence, first.get(commit.client, commit.sequence))
    return {key for key in present if key[1] >= first.get(key[0], 1)}
