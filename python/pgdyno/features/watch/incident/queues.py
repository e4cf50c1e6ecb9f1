"""Lock queues over a watch: each holder at the head of a queue, and the sessions behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
_QUEUES_MAX = 200
_WAITS_MAX = 2_000
# The longest chain of waits that is followed.
_LEVELS_MAX = 20
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Key:
    """A transaction of a session. `pid` is 0 for a prepared transaction, which has a name."""

    pid: int
    transaction_us: int
    prepared: str = ""


@dataclass(slots=True)
class Wait:
    """A session behind a holder: its last row, and how long its present statement has waited."""

    row: Row
    behind: tuple[Key, ...]
    began_us: int
    ended_count: int = 0
    seen_ns: int = 0

    @property
    def waits_for_ns(self) -> int:
        """Return how long it waited when it was last seen."""
        return int(self.row["waited_ns"])


@dataclass(slots=True)
class Queue:
    """The holder at the head of a queue, as last seen, and everybody behind it.

    `before_ns`: for how long it may have held up others when it was first seen.
    """

    key: Key
    holder: Row
    before_ns: int
    first_ns: int
    last_ns: int
    lost_ns: float = 0.0
    waiters_max: int = 0
    longest_ns: int = 0
    waits: dict[Key, Wait] = field(default_factory=dict)

    @property
    def present(self) -> list[Wait]:
        """Return the waits of the last sample of this queue."""
        return [wait for wait in self.waits.values() if wait.seen_ns == self.last_ns]

    @property
    def held_ns(self) -> int:
        """Return for how long the holder held up others."""
        return self.before_ns + self.last_ns - self.first_ns

    @property
    def ended_count(self) -> int:
        """Return how many statements behind it were seen to end their wait."""
        gone = sum(wait.seen_ns < self.last_ns for wait in self.waits.values())
        return gone + sum(wait.ended_count for wait in self.waits.values())


class LockQueues:
    """All queues of a watch, those with the most lost time if there are too many."""

    def __init__(self) -> None:
        self._queues: dict[Key, Queue] = {}
        # Sessions that waited in the sample before, and when that was.
        self._waited_ns: dict[int, int] = {}
        self.last_ns = 0

    def take(self, rows: Sequence[Row]) -> None:
        """Add one sample of lock queues."""
        time_ns = int(rows[0]["time_ns"])
        interval_ns = int(rows[0]["interval_ns"])
        self.last_ns = time_ns
        sessions = {_key(row): row for row in rows if not _is_follower(row)}
        by_pid = {key.pid: key for key in sessions if key.pid}
        prepared = {key.prepared: key for key in sessions if key.prepared and not key.pid}
        behind = {
            key: tuple(_behind(rows_of, by_pid, prepared))
            for key, rows_of in _with_followers(rows, sessions).items()
        }
        waiting = [key for key, others in behind.items() if others]
        examined = len(waiting)
        # Sessions that were not examined stand in the same queues as those that were.
        scale = max(1.0, int(rows[0]["all_waiting"]) / examined) if examined else 1.0
        for head, waiters in _by_head(behind).items():
            queue = self._queues.get(head)
            if queue is None:
                self._make_room()
                # One that waited until now holds only since then.
                state_age_ns = int(sessions[head]["state_age_ns"])
                before_ns = time_ns - self._waited_ns.get(head.pid, time_ns - state_age_ns)
                queue = Queue(head, sessions[head], before_ns, time_ns, time_ns)
                self._queues[head] = queue
            queue.holder, queue.last_ns = sessions[head], time_ns
            queue.waiters_max = max(queue.waiters_max, round(scale * len(waiters)))
            for key in waiters:
                row = sessions[key]
                waited_ns = int(row["waited_ns"])
                queue.longest_ns = max(queue.longest_ns, waited_ns)
                # Before the first sample, the server tells how long it had waited.
                queue.lost_ns += scale * min(waited_ns, interval_ns or _SECOND_NS)
                self._note(queue, key, row, behind[key], time_ns)
        self._waited_ns = {key.pid: time_ns for key in waiting}

    def all(self) -> list[Queue]:
        """Return the queues with the most lost time first."""
        return sorted(self._queues.values(), key=lambda queue: -queue.lost_ns)

    def _note(
        self, queue: Queue, key: Key, row: Row, behind: tuple[Key, ...], time_ns: int
    ) -> None:
        place = Key(key.pid, 0)  # A session may wait in several transactions, one after another.
        statement_us = int(row["statement_us"])
        wait = queue.waits.get(place)
        if wait is None:
            if len(queue.waits) < _WAITS_MAX:
                queue.waits[place] = Wait(row, behind, statement_us, 0, time_ns)
            return
        if wait.began_us != statement_us:
            wait.ended_count += 1
        wait.row, wait.behind, wait.began_us, wait.seen_ns = row, behind, statement_us, time_ns

    def _make_room(self) -> None:
        if len(self._queues) >= _QUEUES_MAX:
            least = min(self._queues.values(), key=lambda queue: queue.lost_ns)
            del self._queues[least.key]


def _key(row: Row) -> Key:
    pid = int(row["pid"])
    return Key(pid, int(row["transaction_us"]), "" if pid else str(row["prepared"]))


def _is_follower(row: Row) -> bool:
    return row["backend_type"] == "parallel worker" and int(row["leader_pid"] or 0) > 0


def _with_followers(rows: Sequence[Row], sessions: Mapping[Key, Row]) -> dict[Key, list[Row]]:
    """Return the rows of each session: its own and those of its parallel workers."""
    by_pid = {key.pid: key for key in sessions if key.pid}
    rows_of: dict[Key, list[Row]] = {key: [row] for key, row in sessions.items()}
    for row in rows:
        if _is_follower(row) and (leader := by_pid.get(int(row["leader_pid"]))) is not None:
            rows_of[leader].append(row)
    return rows_of


def _behind(
    rows: Iterable[Row], by_pid: Mapping[int, Key], prepared: Mapping[str, Key]
) -> Iterator[Key]:
    for row in rows:
        for text in str(row["blocked_by"]).split(","):
            pid = int(text or -1)
            if pid == 0 and str(row["prepared"]) in prepared:
                yield prepared[str(row["prepared"])]
            elif pid in by_pid and pid != int(row["pid"]):
                yield by_pid[pid]


def _by_head(behind: Mapping[Key, Sequence[Key]]) -> dict[Key, list[Key]]:
    """Return the sessions behind each session that waits for nobody.

    A session behind several heads counts for the first one only, so that lost time is counted once.
    Sessions that wait for each other in a circle have no head until the server breaks the circle.
    """
    queues: dict[Key, list[Key]] = {}
    for waiter, others in behind.items():
        level, reached = list(others), {waiter}
        for _ in range(_LEVELS_MAX):
            heads = [key for key in level if not behind.get(key)]
            if heads:
                # The oldest transaction is the cause: others took their locks after it.
                head = min(heads, key=lambda key: (key.transaction_us or 2**62, key.pid))
                queues.setdefault(head, []).append(waiter)
                break
            reached |= set(level)
            level = [key for at in level for key in behind[at] if key not in reached]
            if not level:
                break
    return queues
