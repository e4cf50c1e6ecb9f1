"""What the rules judge: the sums of a watch's samples, in bounded memory.

The observer's threads call `take`, and so does code that reads stored samples.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.features.watch.incident.queues import LockQueues
from pgdyno.features.watch.tally import Tally
from pgdyno.observe.sql.objects import TablesCollector
from pgdyno.observe.sql.statements import StatementsCollector
from pgdyno.quantities import counted, percent, seconds

Row = Mapping[str, Any]
Session = tuple[str, str, int]
DEADLOCK = "40P01"
# Keys of each collector that has several rows in a sample.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "database": ("scope",),
    "wal": (),
    "checkpointer": (),
    "archiver": (),
    "ages": (),
    "limits": (),
    "slots": ("slot",),
    "replication": ("sender_pid", "standby"),
    "tables": ("schema", "table"),
    "indexes": ("schema", "table", "index"),
    "statements": ("database", "query_id"),
    "objects": ("kind", "object"),
    "slru": ("cache",),
    "senders": ("query_id", "application", "role"),
    "applications": ("application", "role", "address", "database"),
    "holds": ("kind", "pid", "name", "transaction_us"),
    "conflicts": ("reason",),
    "pooler": ("database", "user"),
    "cpu": ("core",),
}
TAKEN = (*_KEYS, "lock_queues", "log")
# If a sample has fewer rows, none was left out: what the next one adds was counted from zero.
_ROWS_MAX = {"statements": StatementsCollector.rows_max, "tables": TablesCollector.rows_max}
_KEYS_MAX = 2_000
_UNFINISHED_NS = 2_000_000_000
_LOST_MIN_S = 0.05


@dataclass(slots=True)
class SeenRows:
    """One key of a collector: its first row, its last one, and the one before it."""

    first: Row
    last: Row
    before: Row

    def grown(self, column: str, *, lately: bool = False) -> float:
        """Return the growth of a counter, `lately` between the last two samples; 0 if unknown."""
        begin = self.before if lately else self.first
        return max(0.0, number(self.last, column) - number(begin, column))


def number(row: Row, column: str) -> float:
    """Return a value; 0 for null, which stored samples have as NaN."""
    value = row.get(column)
    return 0.0 if value is None or value != value else float(value)


class IncidentEvidence:
    """Sums for the rules. `tally` has the sessions at work; it is taken care of elsewhere."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.queues = LockQueues()
        # A rule sees all sums at one moment.
        self.lock = threading.RLock()
        self._by_collector: dict[str, dict[tuple[Any, ...], SeenRows]] = {
            name: {} for name in _KEYS
        }
        self._last_ns: Counter[str] = Counter()
        self._last_count: Counter[str] = Counter()
        self._samples: Counter[str] = Counter()
        self._busy_workers_count = 0
        # Errors in the server's log; "" if the log does not have the SQLSTATE.
        self.errors_by_sqlstate: Counter[str] = Counter()
        self.first_error_ns: dict[str, int] = {}
        # By SQLSTATE, the errors of each user, application and pid; "" and 0 are not known.
        self.failed_sessions: defaultdict[str, Counter[Session]] = defaultdict(Counter)
        # How often the server recovered from WAL, and what ended a process, such as "signal 9".
        self.recovery_count = 0
        # When each finding was seen first, by its subject.
        self._noted_ns: dict[tuple[str, ...], int] = {}
        self._began_ns = 0
        self.crash_cause = ""

    def take(self, collector: str, rows: Sequence[Row]) -> None:
        """Add the rows of one sample. Rows of collectors outside `TAKEN` are ignored."""
        if collector not in TAKEN or not rows:
            return
        with self.lock:
            before_ns, before_count = self._last_ns[collector], self._last_count[collector]
            self._last_ns[collector] = int(rows[0]["time_ns"])
            self._last_count[collector] = len(rows)
            self._began_ns = self._began_ns or int(rows[0]["time_ns"])
            self._samples[collector] += 1
            if collector == "lock_queues":
                self.queues.take(rows)
                return
            if collector == "log":
                self._take_log(rows)
                return
            kept, names = self._by_collector[collector], _KEYS[collector]
            for row in rows:
                place = tuple(row[name] for name in names)
                seen = kept.get(place)
                if seen is None:
                    is_new = 0 < before_count < _ROWS_MAX.get(collector, 0)
                    base = {**dict.fromkeys(row, 0), "time_ns": before_ns} if is_new else row
                    if len(kept) < _KEYS_MAX:
                        kept[place] = SeenRows(base, row, base)
                    continue
                if _was_reset(seen.last, row):
                    seen.first = seen.last = row
                seen.before, seen.last = seen.last, row
            if collector == "limits":
                row = rows[0]
                full = row["vacuum_workers"] >= row["vacuum_workers_max"]
                self._busy_workers_count += bool(full)

    def _take_log(self, events: Sequence[Row]) -> None:
        for event in events:
            kind = str(event["kind"])
            if kind == "crash":
                self.crash_cause = str(event["what"])
            elif kind == "checkpoint_began" and "end-of-recovery" in str(event["what"]):
                self.recovery_count += 1
            elif kind == "deadlock":  # The server counts them.
                self._take_session(DEADLOCK, event)
            elif kind == "error":
                code = str(event["sqlstate"])
                self._take_session(code, event)
                self.errors_by_sqlstate[code] += 1
                self.first_error_ns.setdefault(
                    code, int(event.get("happened_ns", event["time_ns"]))
                )

    def _take_session(self, sqlstate: str, event: Row) -> None:
        sessions = self.failed_sessions[sqlstate]
        # Results of older versions do not have these columns.
        user, application = str(event.get("user") or ""), str(event.get("application") or "")
        session = (user, application, int(number(event, "pid")))
        if session in sessions or len(sessions) < _KEYS_MAX:
            sessions[session] += 1

    def seen(self, collector: str) -> dict[tuple[Any, ...], SeenRows]:
        """Return what was seen of a collector, by key."""
        with self.lock:
            return dict(self._by_collector[collector])

    def noted_after_s(self, subject: tuple[str, ...]) -> float:
        """Return after which time of the watch a finding was seen first; note a new one."""
        with self.lock:
            return (self._noted_ns.setdefault(subject, self.ended_ns) - self._began_ns) / 1e9

    def one(self, collector: str) -> SeenRows | None:
        """Return what was seen of a collector that has one row a sample; None before the first."""
        return next(iter(self.seen(collector).values()), None)

    def row(self, collector: str) -> Row:
        """Return the last row of a collector that has one row a sample; empty before the first."""
        seen = self.one(collector)
        return {} if seen is None else seen.last

    def now(self, collector: str) -> Iterator[SeenRows]:
        """Yield what the last sample of a collector has."""
        for seen in self.seen(collector).values():
            if seen.last["time_ns"] == self._last_ns[collector]:
                yield seen

    def grown(self, collector: str, *columns: str) -> float:
        """Return the sum of the growth of counters, over all keys."""
        seen = self.seen(collector).values()
        return sum(rows.grown(column) for rows in seen for column in columns)

    def unfinished_calls(self) -> Counter[int]:
        """Return query id -> calls that wait for a lock, or have run for 2 s, and have not ended.

        The server counts a call when it ends.
        """
        with self.lock:
            waiting = {
                int(wait.row["pid"]): int(wait.row["query_id"] or 0)
                for queue in self.queues.all()
                if self.ended_ns - queue.last_ns <= _UNFINISHED_NS
                for wait in queue.present
            }
            running = {
                int(seen.last["pid"] or 0): int(seen.last["query_id"] or 0)
                for seen in self.now("holds")
                if seen.last["state"] == "active" and seen.last["state_age_ns"] >= _UNFINISHED_NS
            }
        return Counter((running | waiting).values())

    def session_texts(self) -> dict[int, str]:
        """Return query id -> text, without values, of statements that waited or lasted long.

        A statement is counted when it ends. While it waits for the lock of a table before it is
        planned, it does not even have a query id: 0 has the text of most of these sessions.
        """
        with self.lock:
            waits = [wait.row for queue in self.queues.all() for wait in queue.waits.values()]
            rows = [queue.holder for queue in self.queues.all()]
            rows += [seen.last for seen in self._by_collector["holds"].values()]
        texts = {int(row["query_id"]): str(row["statement"]) for row in rows if row["query_id"]}
        texts |= {int(row["query_id"]): str(row["statement"]) for row in waits if row["query_id"]}
        early = Counter(str(row["statement"]) for row in waits if not row["query_id"])
        for text, _ in early.most_common(1):
            more = f" (and {counted(len(early) - 1, 'other statement')})" if len(early) > 1 else ""
            texts[0] = text + more
        return texts

    @property
    def ended_ns(self) -> int:
        """Return the time of the last sample."""
        return max(self._last_ns.values(), default=0)

    @property
    def seconds(self) -> float:
        """Return the watched time without gaps."""
        return max(self.tally.seen_ns / 1e9, 1e-9)

    @property
    def workers_busy_ratio(self) -> float:
        """Return in which share of samples all workers of autovacuum ran."""
        taken = self._samples["limits"]
        return self._busy_workers_count / taken if taken else 0.0

    @property
    def db_time_s(self) -> float:
        """Return the session-seconds of sessions at work; 0 if they are not visible."""
        at_work = self.tally.at_work()
        return at_work.mean.value * self.seconds if at_work is not None else 0.0

    def in_events(self, belongs: Callable[[str], bool]) -> float:
        """Return the session-seconds at work in the wait events for which `belongs` is true."""
        total = self.tally.total
        with self.lock:
            by_event = dict(total.by_event)
        seen = sum(count for event, count in by_event.items() if belongs(event))
        everything = sum(by_event.values())
        return self.db_time_s * seen / everything if everything else 0.0

    def events_of(self, names: tuple[str, ...]) -> list[str]:
        """Return the wait events seen whose names begin so."""
        with self.lock:
            return sorted(event for event in self.tally.total.by_event if event.startswith(names))

    def share(self, lost_s: float) -> float | None:
        """Return a lost time as a share of DB time; None if nothing was at work."""
        whole = self.db_time_s
        return min(1.0, lost_s / whole) if whole else None

    def cost_words(self, lost_s: float) -> str:
        """Return "178 session-seconds lost in 30 s, 62 % of DB time"."""
        share = self.share(lost_s)
        if lost_s < _LOST_MIN_S:
            return "hardly any DB time lost so far"
        amount = f"{lost_s:,.0f}" if lost_s >= 10 else f"{lost_s:.1f}"
        words = f"{amount} session-seconds lost in {seconds(round(self.seconds))}"
        return words if share is None else f"{words}, {percent(share)} of DB time"


_COUNTERS = ("calls", "seq_rows", "stats_reset_ns", "checkpoints_requested", "xact_commit")


def _was_reset(before: Row, row: Row) -> bool:
    """Return whether counters began again between two samples."""
    return any(number(row, name) < number(before, name) for name in _COUNTERS if name in row) or (
        number(row, "stats_reset_ns") > number(before, "stats_reset_ns")
    )
