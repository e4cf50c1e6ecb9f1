"""What the server counts: pg_stat_statements, pg_stat_database, and polls of pg_stat_activity."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import psycopg

from pgdyno.features.capture.observed import Counters
from pgdyno.features.capture.reading.schema import Fetch

# In the order of `Counters` after the keys. {block_time} and {plan} differ between versions.
_SUMS = (
    "calls, rows, {exec}, {plan}, shared_blks_hit, shared_blks_read, shared_blks_dirtied,"
    " shared_blks_written, temp_blks_read, temp_blks_written, {wal}"
)
_SINCE_13 = {
    "exec": "total_exec_time",
    "plan": "total_plan_time",
    "wal": "wal_records, wal_fpi, wal_bytes::float8::int8",
}
_BEFORE_13 = {
    "exec": "total_time",
    "plan": "0::float8",
    "wal": "0::int8, 0::int8, 0::int8",
}
_NAMES = tuple(Counters.model_fields)
# A new session is a transaction, too, and a parallel worker begins with two. The server counts
# sessions since 14, and workers since 18.
DATABASE_SQL = (
    "SELECT xact_commit - 2 * coalesce((to_jsonb(d) ->> 'parallel_workers_launched')::int8, 0),"
    " xact_rollback, coalesce((to_jsonb(d) ->> 'sessions')::int8, 0)"
    " FROM pg_catalog.pg_stat_database d WHERE datname = current_database()"
)
TABLES_SQL = (
    "SELECT coalesce(sum(n_tup_upd), 0)::int8, coalesce(sum(n_tup_hot_upd), 0)::int8"
    " FROM pg_catalog.pg_stat_user_tables"
)
# {query_id}: since 14. The function, because its view joins two catalogs: that costs three times as
# much.
_ACTIVITY = (
    "SELECT pid, coalesce(pg_catalog.pg_get_userbyid(usesysid)::text, ''), coalesce(state, ''),"
    " extract(epoch FROM xact_start)::float8, {query_id},"
    " coalesce(wait_event_type || ':' || wait_event, ''),"
    " extract(epoch FROM clock_timestamp() - state_change)::float8,"
    " extract(epoch FROM state_change)::float8,"
    " extract(epoch FROM query_start - xact_start)::float8"
    " FROM pg_catalog.pg_stat_get_activity(NULL) WHERE datid = {database_oid}"
    " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    # Our sessions that observe and control. Those of our loads are a load as every other.
    " AND coalesce(application_name, '') !~ '^pgdyno/(capture|observe|[a-z]+/control)'"
)
# BEGIN takes a round trip. Between the messages of one statement there is less time.
_INSIDE_S = 60e-6
_TIMES_MAX = 1_000


def activity_sql(version: int, database_oid: int | str) -> str:
    """Return the statement that looks at the sessions; before 14 they have no query id."""
    query_id = "query_id" if version >= 14 else "NULL::int8"
    return _ACTIVITY.format(query_id=query_id, database_oid=database_oid)


def counters_sql(version: int, schema: str) -> str:
    """Return the statement that reads all counters of this database, without texts."""
    sums = _SUMS.format(**(_SINCE_13 if version >= 13 else _BEFORE_13))
    nested = " AND toplevel" if version >= 14 else ""
    return (
        # A transaction has a number if it writes. Numbers are known at once, commits late.
        "SELECT txid_snapshot_xmax(txid_current_snapshot()),"
        f" coalesce(queryid, {HIDDEN}), userid::int8, {sums}"
        f" FROM {schema}.pg_stat_statements(false)"
        " WHERE dbid = (SELECT oid FROM pg_catalog.pg_database"
        f" WHERE datname = current_database()){nested}"
    )


def texts_sql(version: int, schema: str) -> str:
    """Return the statement that reads the texts of the statements, once."""
    nested = " AND toplevel" if version >= 14 else ""
    return (
        "SELECT s.queryid, s.userid::int8,"
        # NULL: as a text that the server has lost.
        " CASE WHEN octet_length(s.query) < 1000000 THEN s.query END, r.rolname::text"
        f" FROM {schema}.pg_stat_statements s"
        " LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.userid"
        " WHERE s.dbid = (SELECT oid FROM pg_catalog.pg_database"
        f" WHERE datname = current_database()) AND s.queryid IS NOT NULL{nested}"
    )


def info_sql(version: int, schema: str) -> str | None:
    """Return the statement that tells evictions and the last reset; none before 14."""
    if version < 14:
        return None
    return f"SELECT dealloc, stats_reset::text FROM {schema}.pg_stat_statements_info"


Key = tuple[int, int]
# The server hides the ids of other roles' statements. Together they have this one.
HIDDEN = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All counters at one moment, by query id and role; and what tells whether they go on.

    `writing_count`: how many transactions of the server have written until now, in all databases.
    `ended_count`: how many of this database have ended, as far as their sessions have reported it.
    """

    counters: Mapping[Key, Counters]
    dealloc_count: int
    reset_at: str
    writing_count: int = 0
    ended_count: int = 0


def read_snapshot(fetch: Fetch, version: int, schema: str) -> Snapshot:
    """Return the counters of pg_stat_statements now."""
    rows = fetch(counters_sql(version, schema))
    counters: dict[Key, Counters] = {}
    for _, query_id, role, *numbers in rows:
        own = Counters(**dict(zip(_NAMES, numbers, strict=True)))
        others = counters.get((query_id, role))
        counters[query_id, role] = Counters.total([others, own]) if others else own
    info = info_sql(version, schema)
    dealloc, reset_at = fetch(info)[0] if info else (0, "")
    return Snapshot(counters, dealloc, reset_at or "", rows[0][0] if rows else 0)


def increase(before: Counters | None, after: Counters) -> Counters:
    """Return what was counted between two readings; after a reset, all that is counted since."""
    if before is None or after.calls < before.calls:
        return after
    return Counters(**{name: getattr(after, name) - getattr(before, name) for name in _NAMES})


@dataclass(slots=True)
class Sessions:
    """What polls of pg_stat_activity show.

    `together`: how often two query ids were seen in one transaction. `in_order`: how often the
    first of two was seen before the second. `inside`: how often a statement began after the first
    round trip of its transaction, so it was inside BEGIN and COMMIT; `after_s`: these times, at
    most 1,000 of a statement. `alone`: how often a statement was a transaction by itself.
    `repeated`: how often a statement was seen again in one transaction. `processes`: in which ones
    a statement was seen, at most 1,000.
    """

    polls: int = 0
    together: Counter[frozenset[int]] = field(default_factory=Counter)
    in_order: Counter[tuple[int, int]] = field(default_factory=Counter)
    inside: Counter[int] = field(default_factory=Counter)
    after_s: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    alone: Counter[int] = field(default_factory=Counter)
    repeated: Counter[int] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    by_role: Counter[str] = field(default_factory=Counter)
    active_counts: list[int] = field(default_factory=list)
    idle_s: list[float] = field(default_factory=list)
    _open: dict[int, tuple[float, list[int]]] = field(default_factory=dict)
    _latest: dict[int, tuple[float, int, float | None]] = field(default_factory=dict)
    _idle: dict[int, tuple[float, float]] = field(default_factory=dict)

    def add(self, rows: list[tuple]) -> None:  # type: ignore[type-arg]
        """Take one poll into account."""
        self.polls += 1
        active = 0
        for pid, role, state, began, query_id, wait, in_state_s, changed, after_s in rows:
            self.by_role[role] += 1
            if state == "active":
                active += 1
                self.waits[wait or "CPU"] += 1
            is_new = self._note_idle(pid, state, in_state_s, changed)
            if query_id is None:
                continue
            if state == "idle":
                # The last statement of an idle session ended its transaction: it was alone, or it
                # was COMMIT.
                self.alone[query_id] += is_new
            if began is None:
                continue
            if after_s is not None and after_s >= _INSIDE_S:
                self.inside[query_id] += 1
                if len(self.after_s[query_id]) < _TIMES_MAX:
                    self.after_s[query_id].append(after_s)
            elif after_s is not None and after_s < _INSIDE_S / 2 and state == "active":
                self.alone[query_id] += 1
            self._note_statement(pid, began, query_id, after_s)
        self.active_counts.append(active)

    def follow(self, rows: list[tuple]) -> None:  # type: ignore[type-arg]
        """Take the next statements of transactions into account: a look at once after a poll."""
        for pid, _, _, began, query_id, *_, after_s in rows:
            if began is not None and query_id is not None:
                self._note_statement(pid, began, query_id, after_s)

    def usual_after_s(self, query_id: int) -> float | None:
        """Return the time from the start of its transaction to a statement, if it was seen.

        The lower quartile: few transactions wait long for a lock, and they would decide the mean.
        """
        times = sorted(self.after_s[query_id])
        return times[len(times) // 4] if times else None

    def _note_statement(self, pid: int, began: float, query_id: int, after_s: float | None) -> None:
        latest, self._latest[pid] = self._latest.get(pid), (began, query_id, after_s)
        if latest is not None and latest[:2] == (began, query_id):
            # The same statement, but it began later.
            self.repeated[query_id] += latest[2] != after_s
        opened, ids = self._open.get(pid, (0.0, []))
        if opened != began:
            ids = []
            self._open[pid] = (began, ids)
        if ids and ids[-1] == query_id:
            return
        self.repeated[query_id] += query_id in ids
        for earlier in set(ids) - {query_id}:
            self.together[frozenset((earlier, query_id))] += 1
            self.in_order[earlier, query_id] += 1
        ids.append(query_id)

    def _note_idle(self, pid: int, state: str, in_state_s: float | None, changed: float) -> bool:
        """Keep the longest time that was seen of each pause; return whether a pause is new."""
        before = self._idle.pop(pid, None)
        if before is not None and (state != "idle" or before[0] != changed):
            self.idle_s.append(before[1])
        if state == "idle" and in_state_s is not None:
            self._idle[pid] = (changed, in_state_s)
        return state == "idle" and (before is None or before[0] != changed)


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters of the whole database: its transactions, and the rows that were updated."""

    commits: int = 0
    rollbacks: int = 0
    updates: int = 0
    hot_updates: int = 0

    @property
    def ended(self) -> int:
        """Return how many transactions ended."""
        return self.commits + self.rollbacks

    def since(self, before: Totals) -> Totals:
        """Return what was counted after another reading; after a reset, nothing."""
        return Totals(
            commits=max(0, self.commits - before.commits),
            rollbacks=max(0, self.rollbacks - before.rollbacks),
            updates=max(0, self.updates - before.updates),
            hot_updates=max(0, self.hot_updates - before.hot_updates),
        )


@dataclass(slots=True)
class Counted:
    """Everything that was counted from the start of a capture on."""

    first: Snapshot | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    sessions: Sessions = field(default_factory=Sessions)
    transactions: list[float] = field(default_factory=list)
    active_sessions: list[float] = field(default_factory=list)
    totals: Totals = Totals()
    seconds: float = 0
    losses: list[str] = field(default_factory=list)
    resets: int = 0

    def increases(self) -> dict[Key, Counters]:
        """Return what each statement was counted for, resets in between included."""
        totals: dict[Key, list[Counters]] = defaultdict(list)
        before = self.first
        for after in self.snapshots:
            for key, counters in after.counters.items():
                earlier = before.counters.get(key) if before is not None else None
                is_less = earlier is not None and counters.calls < earlier.calls
                if key[0] == HIDDEN and is_less and before and before.reset_at == after.reset_at:
                    # Some of the hidden statements were evicted.
                    continue
                grown = increase(earlier, counters)
                if grown.calls > 0:
                    totals[key].append(grown)
            before = after
        return {key: Counters.total(parts) for key, parts in totals.items()}

    def series(self) -> dict[Key, list[int]]:
        """Return the calls of each statement in every interval between two snapshots."""
        keys = self.increases().keys()
        series: dict[Key, list[int]] = {key: [] for key in keys}
        before = self.first
        for after in self.snapshots:
            for key in keys:
                counters = after.counters.get(key)
                earlier = before.counters.get(key) if before is not None else None
                series[key].append(increase(earlier, counters).calls if counters else 0)
            before = after
        return series

    def writing(self) -> list[int]:
        """Return how many transactions of the server wrote in every interval."""
        readings = [s.writing_count for s in (self.first, *self.snapshots) if s is not None]
        return [after - before for before, after in pairwise(readings)]

    def ended(self) -> float:
        """Return how many transactions ended.

        Sessions report them up to a second late. If the load begins during the capture, the last
        ones are missing and none of before are there instead. So the transactions a call are those
        from the first snapshot on before which the load was as busy as at the end, if it has most
        calls after it. If the load ends before the capture, all are reported.
        """
        seen = float(self.totals.ended)
        calls: list[int] = [sum(interval) for interval in zip(*self.series().values(), strict=True)]
        busy = max(calls[-2:], default=0)
        begins = (n for n, count in enumerate(calls[:-2]) if busy <= 2 * count <= 4 * busy)
        begin = next(begins, len(calls))
        after = sum(calls[begin + 1 :])
        if 2 * after < sum(calls) or not after or not self.snapshots[-1].ended_count:
            return seen
        ended = self.snapshots[-1].ended_count - self.snapshots[begin].ended_count
        return float(ended) / after * sum(calls)

    @property
    def dealloc_count(self) -> int:
        """Return how many entries were evicted during the capture."""
        if self.first is None or not self.snapshots:
            return 0
        return max(0, self.snapshots[-1].dealloc_count - self.first.dealloc_count)


def right_sql(schema: str) -> str:
    """Return the statement that fails if pg_stat_statements cannot be read."""
    return f"SELECT 1 FROM {schema}.pg_stat_statements(false) LIMIT 1"


def has_statements(fetch: Fetch, schema: str) -> str:
    """Return why pg_stat_statements cannot be read, "" if it can."""
    try:
        fetch(right_sql(schema))
    except psycopg.errors.ObjectNotInPrerequisiteState:
        return "its library is not in shared_preload_libraries"
    except psycopg.errors.InsufficientPrivilege:
        return "this role may not read it"
    return ""
