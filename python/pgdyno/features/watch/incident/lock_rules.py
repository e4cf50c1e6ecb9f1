"""Findings about lock queues: who holds everybody up, and who waits behind whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pgdyno.features.watch.incident.doing import doing, ending_step
from pgdyno.features.watch.incident.evidence import IncidentEvidence, Row
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.incident.queues import Queue, Wait
from pgdyno.quantities import counted, percent, seconds

# A shorter wait for one holder is not a finding.
_LONG_NS = 2_000_000_000
# Short waits together are a finding if they take this share of DB time.
_CONTENTION_RATIO = 0.25
# On average; below, a server that has little to do would have a finding.
_CONTENTION_SESSIONS = 0.25
_OVER_NS = 3_000_000_000
# Holders that do nothing are worth a line if they are this share of all.
_IDLE_RATIO = 0.3
_LINES_MAX = 6
_FINDINGS_MAX = 5
_TEXT_WIDTH = 70
# What to do about many short waits, by what they wait for; rows of tables are the last.
_CONTENTION_STEPS = (
    ("commits with NOTIFY", "fewer transactions with NOTIFY: collect notifications, or let"
     " listeners poll"),
    ("an advisory lock", "hold it for a shorter time, let fewer sessions take turns, or"
     " pg_try_advisory_lock and other work meanwhile"),
    ("table ", "run what takes the whole table less often, or in a form that lets others read"),
    ("", "let transactions lock these rows last and end at once; a counter can be several rows,"
     " which are added up when read"),
)  # fmt: skip
# What lets others work meanwhile, by the beginning of the statement that locks a whole table.
_GENTLER = {
    "CREATE": "CREATE INDEX CONCURRENTLY lets others write",
    "REINDEX": "REINDEX ... CONCURRENTLY lets others read and write",
    "VACUUM": "plain VACUUM, or pg_repack, lets others work; VACUUM FULL does not",
    "CLUSTER": "pg_repack lets others work; CLUSTER does not",
    "REFRESH": "REFRESH MATERIALIZED VIEW CONCURRENTLY lets others read (it needs a unique index)",
    "TRUNCATE": "DELETE in batches lets others work; or drop old partitions at a quiet time",
    "ALTER": "change a large table in steps: a new column, filled in batches; constraints NOT"
    " VALID, then VALIDATE",
    "LOCK": "SELECT ... FOR UPDATE locks rows in place of the table",
}
_QUEUE = re.compile(r"\bLIMIT\b.*\bFOR (NO KEY )?UPDATE\b(?! SKIP LOCKED)", re.IGNORECASE)
_QUEUE_STEP = "FOR UPDATE SKIP LOCKED lets each session take another row"
# An IPv4 or IPv6 address with a port.
_ADDRESS = re.compile(r"[0-9a-f.:]+:\d+")
_NUMBER = re.compile(r"\d+$")
# What a session did that holds a lock of a table, the strongest lock first.
_DONE = {
    "AccessExclusive": "locked all of",
    "Exclusive": "locked all but reading of",
    "ShareRowExclusive": "locked against changes",
    "Share": "locked against changes",
    "ShareUpdateExclusive": "maintains",
    "RowExclusive": "changed rows of",
    "RowShare": "locked rows of",
    "AccessShare": "read",
}


def blockers(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding for each holder behind which somebody waited for at least 2 s."""
    long = [queue for queue in evidence.queues.all() if _is_long(queue)]
    for queue in long[:_FINDINGS_MAX]:
        yield _blocker(queue, evidence)


def contention(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if short waits for locks take much of DB time."""
    queues = evidence.queues.all()
    long_s = sum(queue.lost_ns / 1e9 for queue in queues if _is_long(queue))
    short = [
        queue
        for queue in queues
        if not _is_long(queue)
        and any(wait.row["locked"] != "extend" for wait in queue.waits.values())
    ]
    # Another rule has the lock of a table that grows.
    lost_s = evidence.in_events(_is_contended) - long_s
    share = evidence.share(lost_s) or 0.0
    is_little = lost_s < _CONTENTION_SESSIONS * evidence.seconds
    if share < _CONTENTION_RATIO or is_little or not short:
        return
    rows = (wait.row for queue in short for wait in queue.waits.values())
    waits = [row for row in rows if row["locked"] != "extend"]
    wanted = _wanted(waits).replace("its transaction", "another transaction")
    texts = Counter(str(row["statement"]) for row in waits if row["statement"])
    # A statement may wait several times, for one holder after another.
    oldest_ns = max(int(row["statement_age_ns"]) for row in waits)
    roles = ", ".join(sorted({str(row["role"]) for row in waits if row["role"]}))
    who = f"{_applications(waits)}{roles and f' (role {roles})'}"
    yield IncidentFinding(
        kind="lock contention",
        said=f"sessions of {who} wait again and again for {wanted}; the oldest statement that was"
        f" seen to wait had begun {seconds(oldest_ns / 1e9)} before",
        cost=evidence.cost_words(lost_s),
        lost_s=lost_s,
        lines=(
            *(f"mostly {text}" for text, _ in texts.most_common(1)),
            *_mostly_behind(short),
            *_idle_holders(short),
        ),
        next_step=_step_of_many(wanted, texts, short),
        answer=f"sessions of {_applications(waits)} wait for {wanted} for {percent(share)} of DB"
        " time",
    )


def _is_long(queue: Queue) -> bool:
    """Return whether one holder made others wait for long.

    Where sessions take turns, each waits for long although none holds for long.
    """
    return min(queue.longest_ns, queue.held_ns) >= _LONG_NS


def _step_of_many(wanted: str, texts: Counter[str], queues: Sequence[Queue]) -> str:
    """Return what to do about many short waits."""
    step = next(step for name, step in _CONTENTION_STEPS if name in wanted)
    if any(_QUEUE.search(text) for text, _ in texts.most_common(1)):
        return _QUEUE_STEP
    if gentler := next(filter(None, map(_gentler, queues)), ""):
        return f"{step}: {gentler}"
    return step


def _gentler(queue: Queue) -> str:
    """Return which statement would let others work, if the holder's one locks a whole table."""
    verb, *_ = [*str(queue.holder["statement"]).split(), ""]
    modes = {wait.row["mode"] for wait in queue.waits.values() if wait.row["locked"] == "relation"}
    return _GENTLER.get(verb.upper(), "") if any(map(_is_of_rows, modes)) else ""


def _mostly_behind(queues: Sequence[Queue]) -> Iterator[str]:
    """Yield who held the locks for the longest time, of those with another statement."""
    held: Counter[tuple[str, str]] = Counter()
    members: dict[str, set[str]] = {}
    waiting = {_short_statement(wait.row) for queue in queues for wait in queue.waits.values()}
    for queue in queues:
        holder = str(queue.holder["application"] or queue.holder["backend_type"])
        name, text = _pool(holder), _short_statement(queue.holder)
        if text not in waiting or _gentler(queue):
            members.setdefault(name, set()).add(holder)
            held[name, text] += round(queue.lost_ns)
    for (name, text), _ in held.most_common(1):
        yield f"mostly behind {_pooled(members[name])}: {text}"


def _idle_holders(queues: Sequence[Queue]) -> Iterator[str]:
    """Yield how many of the sessions that held the locks did nothing when they were seen."""
    idle = sum(str(queue.holder["state"]).startswith("idle in") for queue in queues)
    if idle >= _IDLE_RATIO * len(queues):
        yield (
            f"{idle} of {counted(len(queues), 'holder')} seen were idle in transaction: the"
            " application does something else before it commits"
        )


def _is_contended(event: str) -> bool:
    return event.startswith("Lock:") and event != "Lock:extend"


def session_name(row: Row) -> str:
    """Return "pid 18583 billing-cron (role app)", or the name of a prepared transaction."""
    if not int(row["pid"]):
        return f"prepared transaction {row.get('prepared') or row.get('name')} (role {row['role']})"
    name = row.get("application") or row.get("name")
    kind = str(row.get("backend_type", "client backend"))
    if kind != "client backend":
        name = kind
    words = f"pid {row['pid']}" + (f" {name}" if name else "")
    return words + (f" (role {row['role']})" if row["role"] else "")


def _blocker(queue: Queue, evidence: IncidentEvidence) -> IncidentFinding:
    holder, waits = queue.holder, queue.present
    rows = [wait.row for wait in waits]
    is_over = evidence.ended_ns - queue.last_ns > _OVER_NS
    wanted, count = _wanted(rows), max(queue.waiters_max, len(waits))
    lost_s = queue.lost_ns / 1e9
    ddl = _ddl_of(queue)
    # A session that holds an advisory lock may be outside of a transaction.
    since_s = (int(holder["transaction_age_ns"]) or int(holder["state_age_ns"])) / 1e9
    who = f"{counted(count, 'session')} of {_applications(rows)}"
    short = _short_name(holder)
    completed = _completed(queue, evidence)
    longest = seconds(round(queue.longest_ns / 1e9))
    behind = f"behind it: {counted(count, 'session')}, longest wait {longest}"
    state = doing(holder)
    said = (
        f"{session_name(holder)} {'was' if is_over else 'is'} {state}; it"
        f" {'held' if is_over else 'holds'}: {wanted}{_held(holder)}; {behind}"
    )
    answer = (
        f"{who} {'waited' if is_over else 'wait'} for {wanted}, held by {short}, {state};"
        f" {completed}"
    )
    if ddl is not None:
        said += f", most of them behind pid {ddl.row['pid']}, which wants {_mode(ddl.row)}"
        answer = (
            f"{who} {'waited' if is_over else 'wait'} behind {_short_statement(ddl.row)}"
            f" (pid {ddl.row['pid']}), which {'waited' if is_over else 'waits'} for {short},"
            f" {state}; {completed}"
        )
    return IncidentFinding(
        kind="lock queue" if ddl is None else "lock queue behind DDL",
        said=said,
        since_s=since_s,
        cost=f"{evidence.cost_words(lost_s)}; {completed}",
        lost_s=lost_s,
        is_over=is_over,
        lines=(*_statement_line(holder), *address_line(holder), *_tree(queue)),
        next_step="; next time: ".join(
            filter(None, (_next_step(holder, ddl, is_over=is_over), _gentler(queue)))
        ),
        answer=answer,
        evidence={
            "pid": int(holder["pid"]),
            "waiting": len(waits),
            "waiting_max": count,
            "longest_wait_s": queue.longest_ns / 1e9,
            "completed": queue.ended_count,
            "relations": sorted({str(row["relation"]) for row in rows if row["relation"]}),
        },
    )


def _completed(queue: Queue, evidence: IncidentEvidence) -> str:
    """Return what the sessions behind a holder completed; whole-server tps would hide it."""
    ended = queue.ended_count
    if not ended:
        longest_s = max((wait.waits_for_ns for wait in queue.present), default=0) / 1e9
        return f"nothing of theirs completed in {seconds(round(min(longest_s, evidence.seconds)))}"
    return f"{counted(ended, 'statement')} of theirs stopped waiting meanwhile"


def _short_name(holder: Row) -> str:
    if not int(holder["pid"]):
        return f"prepared transaction {holder['prepared']}"
    kind = str(holder["backend_type"])
    name = holder["application"] if kind in ("client backend", "") else kind
    return str(name or f"pid {holder['pid']}")


def _applications(rows: Sequence[Row]) -> str:
    by_pool: dict[str, list[str]] = {}
    for row in rows:
        name = str(row["application"] or row["role"] or "unnamed")
        by_pool.setdefault(_pool(name), []).append(name)
    names = sorted(by_pool.values(), key=lambda members: -len(members))
    listed = [_pooled(members) for members in names[:2]]
    more = len(names) - len(listed)
    if more:
        return f"{', '.join(listed)} and {counted(more, 'other application')}"
    return " and ".join(listed)


def _pool(application: str) -> str:
    """Return "web-*" for "web-7": a pool numbers its members."""
    return _NUMBER.sub("*", application)


def _pooled(names: Iterable[str]) -> str:
    """Return the name of sessions of one pool: that of the only one, or "web-*" for several."""
    several = set(names)
    return several.pop() if len(several) == 1 else _pool(several.pop())


def _wanted(rows: Sequence[Row]) -> str:
    """Return what sessions wait for: "one row of orders", "table orders", "an advisory lock"."""
    # An update moves a row, so only places of one moment count as different rows.
    at_once: dict[int, set[tuple[str, str]]] = {}
    for row in rows:
        if row["place"]:
            at_once.setdefault(int(row["time_ns"]), set()).add((row["relation"], row["place"]))
    of_row = max(at_once.values(), key=len, default=set())
    tables = sorted({str(row["relation"]) for row in rows if row["relation"]})
    names = ", ".join(_plain(name) for name in tables[:2]) + ", ..." * (len(tables) > 2)
    kinds = Counter(str(row["locked"]) for row in rows)
    if of_row:
        place = f" of {names}" if names else " in another database"
        return f"{'one row' if len(of_row) == 1 else f'{len(of_row)} rows'}{place}"
    [(kind, _)] = kinds.most_common(1) or [("", 0)]
    if kind == "relation":
        return f"table {names}" if names else "a table of another database"
    if kind == "notify":
        return "the one lock that puts commits with NOTIFY in order, in all databases"
    if kind == "virtualxid":
        return "the end of its transaction, as CONCURRENTLY must"
    if kind in ("transactionid", "spectoken"):
        return "the end of its transaction (a row or a key that it wrote)"
    keys = sorted({str(row.get("advisory") or "") for row in rows} - {""})
    if len(keys) == 1:
        kind += " lock " + (keys[0] if "," not in keys[0] else f"({keys[0]})")
        return _article(kind)
    return f"a lock on {names}" if names else f"{_article(kind)} lock"


def _held(holder: Row) -> str:
    """Return " (AccessShare of orders)": which locks on tables a holder has."""
    # Results of older versions do not have it.
    held = str(holder.get("held") or "").replace(" of public.", " of ")
    return f" (it {'; '.join(map(_done, held.split('; ')))})" if held else ""


def _done(held: str) -> str:
    """Return "changed rows of orders" for "RowExclusive of orders"."""
    modes, _, table = held.partition(" of ")
    done = next((words for mode, words in _DONE.items() if mode in modes.split(", ")), "locked")
    return f"{done} {table}"


def _article(kind: str) -> str:
    return f"{'an' if kind[:1] in tuple('aeiou') else 'a'} {kind}" if kind else "a"


def _plain(name: str) -> str:
    return name.removeprefix("public.")


def _mode(row: Row) -> str:
    return f"{row['mode'].removesuffix('Lock')} of {_plain(str(row['relation']))}"


def _ddl_of(queue: Queue) -> Wait | None:
    """Return a waiter for an exclusive lock on a table behind which others wait, if there is one.

    A lock that conflicts with reading and writing (AccessExclusive and Exclusive) or with writing
    (Share...) waits in the queue of the table, and everybody who comes later waits behind it.
    """
    fronts = {key for wait in queue.present for key in wait.behind}
    for key, wait in queue.waits.items():
        is_front = any(front.pid == key.pid for front in fronts)
        if is_front and wait.row["locked"] == "relation" and not _is_of_rows(wait.row["mode"]):
            return wait
    return None


def _is_of_rows(mode: str) -> bool:
    """Return whether a lock on a table is that of a statement which reads or changes rows."""
    return mode in ("AccessShareLock", "RowShareLock", "RowExclusiveLock")


def _statement_line(holder: Row) -> Iterator[str]:
    if holder["statement"]:
        yield f"its {'' if holder['state'] == 'active' else 'last '}statement:" + (
            f" {holder['statement']}"
        )


def address_line(row: Row) -> Iterator[str]:
    """Yield how to find a session's client behind a pooler, if the session has no name."""
    name = str(row.get("application") or row.get("name") or "")
    is_client = str(row.get("backend_type", "client backend")) == "client backend"
    if int(row["pid"]) and is_client and (not name or _ADDRESS.fullmatch(name)):
        yield (
            "it has no application_name. Behind PgBouncer: SHOW SERVERS, row with remote_pid"
            f" {row['pid']}"
        )


def _short_statement(row: Row) -> str:
    text = str(row["statement"]) or "a statement"
    return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"


def _tree(queue: Queue) -> Iterator[str]:
    """Yield who waits for whom: sessions of one application with one statement are one line."""
    children: dict[int, list[Wait]] = {}
    pids = {int(wait.row["pid"]) for wait in queue.present}
    for wait in queue.present:
        # Of several sessions for which it waits, the one that itself waits is the nearest.
        parents = [key.pid for key in wait.behind]
        nearest = next((pid for pid in parents if pid in pids), queue.key.pid)
        children.setdefault(nearest, []).append(wait)
    lines = list(_level(children, [queue.key.pid], 0, set()))
    yield from lines[:_LINES_MAX]
    if len(lines) > _LINES_MAX:
        yield f"... and {len(lines) - _LINES_MAX} more groups of sessions"


def _level(
    children: dict[int, list[Wait]], parents: Iterable[int], depth: int, done: set[int]
) -> Iterator[str]:
    waits = [wait for pid in parents for wait in children.get(pid, ())]
    groups: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        row = wait.row
        if int(row["pid"]) not in done:
            done.add(int(row["pid"]))
            name = _pool(str(row["application"] or row["backend_type"]))
            groups.setdefault((name, _short_statement(row)), []).append(wait)
    for (_, text), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        pids = [int(wait.row["pid"]) for wait in members]
        name = _pooled(str(wait.row["application"] or wait.row["backend_type"]) for wait in members)
        who = f"pid {pids[0]} {name}" if len(pids) == 1 else f"{len(pids)} sessions of {name}"
        longest = seconds(round(max(wait.waits_for_ns for wait in members) / 1e9))
        yield f"{'  ' * depth}└ {who} {'waits' if len(pids) == 1 else 'wait'} {longest}: {text}"
        yield from _level(children, pids, depth + 1, done)


def _next_step(holder: Row, ddl: Wait | None, *, is_over: bool) -> str:
    if is_over:
        return "nothing to end: it is over; find the code that runs this statement"
    pid, step = int(holder["pid"]), ending_step(holder)
    if ddl is not None:
        of_holder = f"pid {pid}: " * bool(pid) + step
        first = (
            f"SELECT pg_catalog.pg_cancel_backend({ddl.row['pid']}) frees the queue at once; then"
        )
        return f"{first} {of_holder}; run DDL with lock_timeout"
    return step
