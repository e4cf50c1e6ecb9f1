"""Collectors for incidents: sessions in lock queues, what holds old rows back, and limits.

They use a session that the watch already has. Texts of statements are read only of the few sessions
that wait or hold others up, and leave this module without values.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Collector, Column, Row, gauge, key
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.sql_collector import SqlCollector, pick

# Sessions whose place in the queue is examined in one sample: each takes the locks of the server's
# lock table for a moment.
EXAMINED_MAX = 60
# The server may cut a text at track_activity_query_size.
# What the server writes for a worker of autovacuum, which has no values.
_OF_WORKER = re.compile(
    r"autovacuum: (VACUUM|ANALYZE|VACUUM ANALYZE) [\w.]+( \(to prevent wraparound\))?"
)
_TEXT = "coalesce(left(a.query, 4000), '')"
_DATABASE = "coalesce(d.datname::text, '')"
_EVENT_SQL = "coalesce(a.wait_event_type || ':' || a.wait_event, '')"
_ROLE = "coalesce(r.rolname::text, '')"
# A session without a name has its address, "" on a Unix socket.
_NAME = "coalesce(nullif(a.application_name, ''), host(a.client_addr) || ':' || a.client_port, '')"
_JOINS = (
    " LEFT JOIN pg_catalog.pg_database d ON d.oid = a.datid"
    " LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid"
)
HIDDEN = "text hidden from this role"
_HIDDEN_BY_SERVER = "<insufficient privilege>"
_WAITING = "FROM pg_catalog.pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock'"
WAITING_SQL = f"SELECT count(*) {_WAITING}"
_IS_OTHERS = "a.pid <> pg_backend_pid() AND a.datid IS NOT NULL AND a.datid <> 0"


# PreCommit_Notify locks object 0 of the class pg_database (1262).
_LOCKED = (
    "CASE WHEN wanted.locktype = 'object' AND wanted.classid = 1262 AND wanted.objid = 0"
    " THEN 'notify' ELSE coalesce(wanted.locktype, '') END"
)
# The keys of advisory locks are signed numbers: one of 64 bits, or two of 32 (pg_locks.objsubid 2).
_ADVISORY = (
    "CASE WHEN wanted.locktype <> 'advisory' OR wanted.locktype IS NULL THEN ''"
    " WHEN wanted.objsubid = 1"
    " THEN ((wanted.classid::int8 << 32) | wanted.objid::int8)::text"
    " ELSE wanted.classid::int8::bit(32)::int4 || ', ' || wanted.objid::int8::bit(32)::int4 END"
)
# Of a session that holds others up: its locks on the tables that they want, and then on those that
# it changed.
_HELD = (
    "CASE WHEN w.pid IS NOT NULL THEN '' ELSE array_to_string(ARRAY("
    "SELECT string_agg(DISTINCT replace(h.mode, 'Lock', ''), ', ') || ' of ' || n.nspname || '.'"
    " || c.relname FROM l h JOIN pg_catalog.pg_class c ON c.oid = h.relation"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE h.pid = a.pid AND h.granted AND h.locktype = 'relation' AND c.relkind <> 'i'"
    " AND h.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"
    " AND (h.mode = 'RowExclusiveLock' OR h.relation IN (SELECT relation FROM contested))"
    " GROUP BY n.nspname, c.relname, h.relation"
    " ORDER BY h.relation IN (SELECT relation FROM contested) DESC, 1 LIMIT 2), '; ') END"
)


def _age_ns(moment: str) -> str:
    """Return SQL for the age of a moment; 0 if there is none."""
    return f"coalesce((extract(epoch FROM clock_timestamp() - {moment}) * 1000000)::int8 * 1000, 0)"


def _began_us(moment: str) -> str:
    return f"coalesce((extract(epoch FROM {moment}) * 1000000)::int8, 0)"


def _queues(*, leader: str, query_id: str, waited: str) -> str:
    """Return the statement for all sessions that wait for a lock or hold one that others want.

    0 in the list of pg_blocking_pids is a prepared transaction. A member of a parallel query waits
    and holds for its leader.
    """
    leaders = (
        " UNION SELECT p.leader_pid FROM pg_catalog.pg_stat_get_activity(NULL) p"
        " JOIN waiting ON waiting.pid = p.pid WHERE p.leader_pid IS NOT NULL"
    ) * (leader != "0")
    prepared = (
        "SELECT w.pid AS waiter, x.gid::text AS gid, x.prepared, x.owner::text AS owner,"
        " x.database::text AS database FROM waiting w JOIN l ON l.pid = w.pid AND NOT l.granted"
        " JOIN l h ON h.granted AND h.pid IS NULL AND h.locktype = l.locktype"
        " AND h.database IS NOT DISTINCT FROM l.database"
        " AND h.relation IS NOT DISTINCT FROM l.relation"
        " AND h.transactionid IS NOT DISTINCT FROM l.transactionid"
        " AND h.page IS NOT DISTINCT FROM l.page AND h.tuple IS NOT DISTINCT FROM l.tuple"
        " AND h.objid IS NOT DISTINCT FROM l.objid"
        " JOIN l own ON own.virtualtransaction = h.virtualtransaction"
        " AND own.locktype = 'transactionid' AND own.granted"
        " JOIN pg_catalog.pg_prepared_xacts x ON x.transaction = own.transactionid"
        " WHERE 0 = ANY(w.by)"
    )
    return (
        "SELECT * FROM (WITH waiting AS (SELECT s.pid, pg_blocking_pids(s.pid) AS by"
        f" FROM (SELECT pid {_WAITING} ORDER BY query_start LIMIT {EXAMINED_MAX}) s),"
        f" involved AS (SELECT pid FROM waiting UNION SELECT unnest(by) FROM waiting{leaders}),"
        " l AS (SELECT * FROM pg_catalog.pg_locks),"
        " contested AS (SELECT DISTINCT l.relation FROM l JOIN waiting ON waiting.pid = l.pid"
        " WHERE l.relation IS NOT NULL AND (NOT l.granted OR l.locktype = 'tuple')),"
        f" prepared AS ({prepared})"
        f" SELECT a.pid, {leader}, coalesce(array_to_string(w.by, ','), ''),"
        " coalesce((SELECT min(p.gid) FROM prepared p WHERE p.waiter = a.pid), ''),"
        f" {_DATABASE}, {_ROLE}, {_NAME}, coalesce(a.state, ''),"
        f" coalesce(a.backend_type, ''), {_LOCKED}, coalesce(wanted.mode, ''),"
        " coalesce((SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = coalesce(wanted.relation, row_of.relation) AND coalesce(wanted.database,"
        " row_of.database) = (SELECT oid FROM pg_catalog.pg_database"
        " WHERE datname = current_database())), ''),"
        " coalesce(coalesce(wanted.relation, row_of.relation)::text || ':' || row_of.page || ','"
        " || row_of.tuple, ''),"
        f" {_began_us('a.xact_start')}, {_age_ns('a.xact_start')}, {_began_us('a.query_start')},"
        f" {_age_ns('a.query_start')}, {_age_ns('a.state_change')}, {waited},"
        f" (SELECT count(*) {_WAITING}), {query_id}, {_TEXT}, {_ADVISORY}, {_HELD}, {_EVENT_SQL}"
        " FROM involved i JOIN pg_catalog.pg_stat_get_activity(NULL) a ON a.pid = i.pid"
        f"{_JOINS} LEFT JOIN waiting w ON w.pid = a.pid"
        " LEFT JOIN l wanted ON wanted.pid = a.pid AND NOT wanted.granted"
        " LEFT JOIN l row_of ON row_of.pid = a.pid AND row_of.locktype = 'tuple'"
        " UNION ALL SELECT DISTINCT ON (p.gid) 0, 0, '', p.gid, p.database, p.owner, '',"
        " 'prepared', 'prepared transaction', '', '', '', '',"
        f" {_began_us('p.prepared')}, {_age_ns('p.prepared')}, 0, 0, {_age_ns('p.prepared')}, 0,"
        f" (SELECT count(*) {_WAITING}), 0, '', '', '', '' FROM prepared p) queues"
    )


# Before 14 the server does not tell when a wait began; the statement began before it.
_NO_WAITSTART = "CASE WHEN w.pid IS NULL THEN 0 ELSE " + _age_ns("a.query_start") + " END"
QUEUES_SQL = {
    10: _queues(leader="0", query_id="0::int8", waited=_NO_WAITSTART),
    13: _queues(leader="coalesce(a.leader_pid, 0)", query_id="0::int8", waited=_NO_WAITSTART),
    14: _queues(
        leader="coalesce(a.leader_pid, 0)",
        query_id="coalesce(a.query_id, 0)",
        waited=_age_ns("wanted.waitstart"),
    ),
}


class _NamingStatements(SqlCollector):
    """Its rows have a statement, which is shown without values."""

    def sample(self, now_ns: int) -> list[Row]:
        """Return the rows of the collector's statement."""
        rows = super().sample(now_ns)
        return [{**row, "statement": shown_statement(str(row["statement"]))} for row in rows]


_BEGAN = gauge("transaction_us", "us", "Unix time at which its transaction began; 0 = none")
_EVENT = key("event", "it waits for, as Client:ClientWrite; '' = none")
_STATE_AGE = gauge("state_age_ns", "ns", "since its state changed; 0 = not known")
_STATEMENT = (
    Column("query_id", "int64", "identifier", "of the statement; 0 = not computed", "key"),
    key("statement", "its last one, without values"),
)


class QueuesCollector(_NamingStatements):
    """Samples who waits for whom; only while somebody waits for a lock."""

    name = "lock_queues"
    meaning = "Sessions that wait for a lock, and the sessions that they wait for"
    sql = QUEUES_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        Column("pid", "int64", "process id", "of the session; 0 = a prepared transaction", "key"),
        gauge("leader_pid", "process id", "of its parallel query; 0 = none"),
        key("blocked_by", "pids for which it waits, with commas; '' = it does not wait"),
        key("prepared", "name of the prepared transaction that it is, or for which it waits"),
        key("database", "it is connected to"),
        key("role", "that logged in"),
        key("application", "its application_name; its address if it has none"),
        key("state", "as in pg_stat_activity; 'prepared'"),
        key("backend_type", "as in pg_stat_activity"),
        key("locked", "what it waits for: pg_locks.locktype; notify = the lock of NOTIFY"),
        key("mode", "of the lock that it waits for"),
        key("relation", "of that lock, or of the row; '' = none, or in another database"),
        key("place", "relation, page and number of the row that it waits for; '' = no row"),
        _BEGAN,
        gauge("transaction_age_ns", "ns", "since then"),
        gauge("statement_us", "us", "Unix time at which its last statement began"),
        gauge("statement_age_ns", "ns", "since then"),
        _STATE_AGE,
        gauge("waited_ns", "ns", "since it waits; before 14, since its statement began"),
        gauge("all_waiting", "sessions", "that wait for a lock, including those not examined"),
        *_STATEMENT,
        key("advisory", "key of the advisory lock that it waits for, or its two keys"),
        key("held", "if it does not wait: locks on tables that others want, or that it changed"),
        _EVENT,
    )

    def sample(self, now_ns: int) -> list[Row]:
        """Return the sessions of all lock queues; no rows if nobody waits."""
        [(waiting,)] = self._session.fetch_often(WAITING_SQL)
        return super().sample(now_ns) if waiting else []


def _holds(*, query_id: str, slot_age: str) -> str:
    return (
        f"SELECT 'session', a.pid::int8, {_DATABASE}, {_ROLE}, {_NAME},"
        f" coalesce(a.state, ''), {_began_us('a.xact_start')}, {_age_ns('a.xact_start')},"
        f" {_age_ns('a.state_change')}, coalesce(greatest(age(a.backend_xmin),"
        f" age(a.backend_xid)), 0)::int8, {query_id}, {_TEXT}, {_EVENT_SQL}"
        f" FROM (SELECT * FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE {_IS_OTHERS}"
        " AND a.backend_type = 'client backend'"
        " AND a.xact_start < clock_timestamp() - interval '2 s' ORDER BY a.xact_start LIMIT 10) a"
        f"{_JOINS}"
        " UNION ALL (SELECT 'prepared transaction', 0, database::text, owner::text, gid::text,"
        f" 'prepared', {_began_us('prepared')}, {_age_ns('prepared')}, {_age_ns('prepared')},"
        " age(transaction)::int8, 0, '', '' FROM pg_catalog.pg_prepared_xacts"
        " ORDER BY prepared LIMIT 10)"
        " UNION ALL (SELECT 'slot', coalesce(active_pid, 0), coalesce(database::text, ''), '',"
        " slot_name::text, CASE WHEN active THEN 'active' ELSE 'inactive' END, 0, 0,"
        f" {slot_age}, greatest(age(xmin), age(catalog_xmin))::int8, 0, '', '' FROM"
        " pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL"
        " ORDER BY 10 DESC LIMIT 10)"
        f" UNION ALL (SELECT 'standby', a.pid::int8, '', {_ROLE},"
        " coalesce(a.application_name, ''), coalesce(w.state, ''), 0, 0, 0,"
        " age(a.backend_xmin)::int8, 0, '', '' FROM pg_catalog.pg_stat_get_wal_senders() w"
        f" JOIN pg_catalog.pg_stat_get_activity(NULL) a ON a.pid = w.pid{_JOINS}"
        " WHERE a.backend_xmin IS NOT NULL ORDER BY 10 DESC LIMIT 10)"
    )


HOLDS_SQL = {
    10: _holds(query_id="0::int8", slot_age="0::int8"),
    14: _holds(query_id="coalesce(a.query_id, 0)", slot_age="0::int8"),
    17: _holds(query_id="coalesce(a.query_id, 0)", slot_age=_age_ns("inactive_since")),
}


class HoldsCollector(_NamingStatements):
    """Samples transactions older than 2 s, and everything else that keeps old rows."""

    name = "holds"
    meaning = "What may keep dead rows: long transactions, prepared ones, slots and standbys"
    interval_ns = 5 * SECOND_NS
    sql = HOLDS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("kind", "session, prepared transaction, slot or standby"),
        Column("pid", "int64", "process id", "of its session; 0 = none", "key"),
        key("database", "it belongs to; '' = all"),
        key("role", "its owner"),
        key("name", "application_name, or name of the prepared transaction or slot"),
        key("state", "as in the view; prepared; active or inactive"),
        _BEGAN,
        gauge("age_ns", "ns", "since then"),
        _STATE_AGE,
        gauge("xmin_age", "transactions", "since the oldest one whose rows it needs; 0 = none"),
        *_STATEMENT,
        _EVENT,
    )


# The role or database whose own limit of connections is nearest. Superusers have no limit.
_OWN_LIMITS = (
    "SELECT k.name, k.count, k.most FROM (SELECT 'role ' || r.rolname AS name, count(*),"
    " r.rolconnlimit AS most FROM a JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid"
    " WHERE r.rolconnlimit > 0 AND NOT r.rolsuper GROUP BY 1, 3 UNION ALL"
    " SELECT 'database ' || d.datname, count(*), d.datconnlimit FROM a"
    " JOIN pg_catalog.pg_database d ON d.oid = a.datid WHERE d.datconnlimit > 0 GROUP BY 1, 3) k"
    " ORDER BY k.count::float8 / k.most DESC, 1 LIMIT 1"
)


_IDLE_INSIDE = (
    "SELECT coalesce(application_name, '') AS name, count(*) FROM a WHERE state IN"
    " ('idle in transaction', 'idle in transaction (aborted)') GROUP BY 1 ORDER BY 2 DESC, 1"
    " LIMIT 1"
)


# The server hides the type of sessions from a role that may not see them; only those have a role.
_IS_CLIENT = "coalesce(backend_type, 'client backend') = 'client backend' AND usesysid IS NOT NULL"
# Any application may have such a name, so the role must be ours, too.
_IS_OWN = (
    "(strpos(coalesce(application_name, ''), 'pgdyno/') = 1"
    " AND usesysid = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = session_user))"
)
# Few connections are free: fewer than this number, or than this share of those for everybody.
_FEW, _FEW_RATIO = 5, 0.1
ROOM_SQL = (
    "SELECT current_setting('max_connections')::int - current_setting("
    "'superuser_reserved_connections')::int - coalesce(nullif(current_setting("
    "'reserved_connections', true), ''), '0')::int, (SELECT count(*)::int"
    f" FROM pg_catalog.pg_stat_get_activity(NULL) WHERE {_IS_CLIENT})"
)


def is_little_room(room: float, taken: float) -> bool:
    """Return whether few connections are free for ordinary roles, our own counted as taken."""
    return room - taken < max(_FEW, _FEW_RATIO * room)


def _limits(*, reserved: str) -> str:
    def setting(name: str, kind: str = "int8") -> str:
        return f"(SELECT setting::{kind} FROM s WHERE name = '{name}')"

    clients = f"count(*) FILTER (WHERE {_IS_CLIENT}"
    return (
        "SELECT * FROM (WITH s AS (SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN"
        " ('max_connections', 'superuser_reserved_connections', 'reserved_connections',"
        " 'autovacuum', 'autovacuum_max_workers', 'autovacuum_vacuum_threshold',"
        " 'autovacuum_vacuum_scale_factor', 'max_wal_size', 'checkpoint_timeout',"
        " 'synchronous_standby_names')),"
        " a AS (SELECT backend_type, state, usesysid, datid, application_name"
        " FROM pg_catalog.pg_stat_get_activity(NULL)"
        f" WHERE NOT {_IS_OWN}),"
        f" nearest AS ({_OWN_LIMITS}), inside AS ({_IDLE_INSIDE})"
        f" SELECT {setting('max_connections')},"
        f" {setting('superuser_reserved_connections')} + {reserved},"
        f" {clients}), {clients} AND a.state = 'idle'),"
        " count(*) FILTER (WHERE a.backend_type = 'autovacuum worker'),"
        f" {setting('autovacuum_max_workers')}, ({setting('autovacuum', 'text')} = 'on')::int,"
        f" {setting('autovacuum_vacuum_threshold')},"
        f" ({setting('autovacuum_vacuum_scale_factor', 'float8')} * 1000000)::int8,"
        f" {setting('max_wal_size')} * 1048576, {setting('checkpoint_timeout')} * 1000000000,"
        f" ({setting('synchronous_standby_names', 'text')} <> '')::int,"
        " coalesce((SELECT name FROM nearest), ''), coalesce((SELECT count FROM nearest), 0),"
        " coalesce((SELECT most FROM nearest), 0)::int8, coalesce((SELECT name FROM inside), ''),"
        " coalesce((SELECT count FROM inside), 0), quote_ident(current_user),"
        f" (SELECT count(*) FROM pg_catalog.pg_stat_get_activity(NULL) WHERE {_IS_CLIENT}"
        f" AND {_IS_OWN}) FROM a) limits"
    )


LIMITS_SQL = {
    10: _limits(reserved="0"),
    16: _limits(reserved="(SELECT setting::int8 FROM s WHERE name = 'reserved_connections')"),
}


class LimitsCollector(SqlCollector):
    """Samples how near the server is to limits that its settings give it."""

    name = "limits"
    meaning = "Connections and workers of autovacuum, and the settings that limit them"
    interval_ns = 5 * SECOND_NS
    sql = LIMITS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("connections_max", "connections", "max_connections"),
        gauge("connections_reserved", "connections", "of these, for superusers and operators"),
        gauge("clients", "connections", "client backends, without our own"),
        gauge("clients_idle", "connections", "client backends without a transaction"),
        gauge("vacuum_workers", "processes", "workers of autovacuum that run"),
        gauge("vacuum_workers_max", "processes", "autovacuum_max_workers"),
        gauge("autovacuum", "0 or 1", "1 = on"),
        gauge("vacuum_threshold", "rows", "autovacuum_vacuum_threshold"),
        gauge("vacuum_scale_millionths", "rows in a million", "autovacuum_vacuum_scale_factor"),
        gauge("max_wal_bytes", "bytes", "max_wal_size"),
        gauge("checkpoint_timeout_ns", "ns", "checkpoint_timeout"),
        gauge("synchronous", "0 or 1", "1 = synchronous_standby_names is set"),
        key("limited", "role or database whose CONNECTION LIMIT is nearest; '' = none has one"),
        gauge("limited_clients", "connections", "client backends of it"),
        gauge("limited_max", "connections", "its CONNECTION LIMIT"),
        key("idle_inside_of", "application with most sessions idle in a transaction; '' = none"),
        gauge("idle_inside", "connections", "its sessions that are idle in a transaction"),
        key("watching_role", "that this watch uses"),
        gauge("clients_own", "connections", "client backends of pgdyno, not among the others"),
    )


_APPLICATIONS_SQL = (
    f"SELECT coalesce(a.application_name, ''), {_ROLE}, coalesce(host(a.client_addr), ''),"
    f" {_DATABASE}, count(*), count(*) FILTER (WHERE a.state = 'idle'),"
    r" count(*) FILTER (WHERE a.query ~* '^\s*CHECKPOINT\M'),"
    f" {_began_us('min(a.backend_start)')}, coalesce((extract(epoch FROM clock_timestamp()"
    " - min(a.state_change) FILTER (WHERE a.state = 'idle')) * 1000000)::int8 * 1000, 0)"
    f" FROM pg_catalog.pg_stat_get_activity(NULL) a{_JOINS} WHERE {_IS_CLIENT} AND NOT {_IS_OWN}"
    " GROUP BY 1, 2, 3, 4 ORDER BY 7 DESC, 5 DESC, 1, 2, 3, 4 LIMIT 100"
)


class ApplicationsCollector(SqlCollector):
    """Samples who holds the connections."""

    name = "applications"
    meaning = "Applications with their connections, those with most connections first"
    interval_ns = 5 * SECOND_NS
    sql: ClassVar[dict[int, str]] = {10: _APPLICATIONS_SQL}
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("application", "its application_name; '' = none"),
        key("role", "that logged in"),
        key("address", "of its client; '' = a Unix socket"),
        key("database", "it is connected to"),
        gauge("count", "connections", "of this application, role, address and database"),
        gauge("idle", "connections", "of these, without a transaction"),
        gauge("checkpointing", "connections", "of these, whose last statement is a CHECKPOINT"),
        gauge("oldest_us", "us", "Unix time at which the oldest of them began; 0 = hidden"),
        gauge("idle_ns", "ns", "for which the longest of the idle ones is idle"),
    )


def _senders(condition: str, query_id: str) -> str:
    return (
        f"SELECT {query_id}, coalesce(nullif(a.application_name, ''), host(a.client_addr), ''),"
        f" {_ROLE}, count(*)"
        " FROM pg_catalog.pg_stat_get_activity(NULL) a"
        " LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid"
        f" WHERE {_IS_OTHERS} AND {condition}"
        " AND a.query_start > clock_timestamp() - interval '10 s'"
        f" AND NOT {_IS_OWN}"
        " GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1 LIMIT 100"
    )


SENDERS_SQL = {
    10: _senders("false", "0::int8"),
    14: _senders("a.query_id IS NOT NULL", "a.query_id"),
}


class SendersCollector(SqlCollector):
    """Samples which applications sent which statements in the last seconds (14 and later)."""

    name = "senders"
    meaning = "Applications and roles, by the statement that they sent last"
    interval_ns = 5 * SECOND_NS
    sql = SENDERS_SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        Column("query_id", "int64", "identifier", "of the statement", "key"),
        key("application", "its application_name; its address if it has none"),
        key("role", "that logged in"),
        gauge("count", "sessions", "of this application and role"),
    )


COLLECTORS: tuple[type[SqlCollector], ...] = (
    QueuesCollector,
    HoldsCollector,
    LimitsCollector,
    ApplicationsCollector,
    SendersCollector,
)


def asked_too(session: ServerSession) -> list[Collector]:
    """Return the collectors for a session of the watch."""
    return [collector(session) for collector in COLLECTORS]


def statements(version: int) -> dict[str, str]:
    """Return name -> every statement that these collectors may send to this major version."""
    texts = {of.name: pick(of.name, of.sql, version) for of in COLLECTORS}
    return {"sessions that wait for a lock": WAITING_SQL, "free connections": ROOM_SQL, **texts}


def shown_statement(text: str) -> str:
    """Return a text of pg_stat_activity without values, on one line."""
    # It asks the catalogue, which asks every feature for its collectors.
    from pgdyno.measure.statement_texts import without_constants

    if not text or text == _HIDDEN_BY_SERVER:
        return HIDDEN if text else ""
    return text if _OF_WORKER.fullmatch(text) else without_constants(text)
