"""Findings about what sessions wait for inside the server and outside of it: one table of waits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pgdyno.analysis.wait_events import canonical_event
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import Danger, IncidentFinding
from pgdyno.features.watch.incident.holding_rules import oldest_holder
from pgdyno.features.watch.incident.known_statements import KnownStatements, counts_of, short_text
from pgdyno.quantities import compact_ms, percent

READS = "waits for reads"
_RATIO = 0.25
# On average; below, a server that has little to do would have a finding.
_SESSIONS = 0.25
# A healthy disk flushes WAL in less, also in a cloud and on a busy host.
_FLUSH_MS = 5.0
# A lookup takes about 100 ns, so this is 2 % of a core; a healthy server makes a hundredth of it.
_LOOKUPS_PER_SECOND = 200_000.0
_READS_PER_SECOND = 1_000.0
_PER_REST = 1 / 3
# A statement with this share of a wait explains it.
_MOST = 2 / 3
_SHORT_MS = 250.0


@dataclass(frozen=True, slots=True)
class WaitMeaning:
    """What a group of wait events means. `step`: what to do next.

    `follows`: it is a consequence of what the statement that waits most reads.
    `names`: how their names begin, as in `canonical_event`.
    `flush_ms`: how long a flush must take on average, so that it is a finding; 0: it need not.
    `call_ms`: how long a call of the statement that waits most may take; longer ones wait so, too.
    `needs`: how the name of an event begins without which the others are ordinary work.
    """

    names: tuple[str, ...]
    said: str
    step: str
    kind: str = "contention inside the server"
    danger: Danger = Danger.GROWS
    flush_ms: float = 0.0
    call_ms: float = math.inf
    follows: bool = False
    needs: str = ""


_SUBTRANSACTIONS = WaitMeaning(
    ("lwlock:subtrans",),
    "sessions look up subtransactions",
    "end the long transaction; then fewer savepoints and EXCEPTION blocks in one transaction"
    " (more than 64 make every reader look them up)",
)
_MULTIXACTS = WaitMeaning(
    ("lwlock:multixact",),
    "sessions look up multixacts: several of them lock the same rows at once",
    "find who locks rows that many share: FOR SHARE, foreign keys to one row; shorter transactions",
)
_CACHES = {"subtrans": _SUBTRANSACTIONS, "multixact": _MULTIXACTS}
WAITS: tuple[WaitMeaning, ...] = (
    _SUBTRANSACTIONS,
    _MULTIXACTS,
    WaitMeaning(
        ("lwlock:lockmanager",),
        "sessions wait for the lock table: each plan locks more tables and indexes than a"
        " session has places for (16 before 18)",
        "let the partition key into WHERE, or have fewer partitions and indexes; prepared"
        " statements with plan_cache_mode = force_custom_plan",
    ),
    WaitMeaning(
        ("lwlock:buffermapping",),
        "sessions wait to replace blocks in shared_buffers",
        "more shared_buffers: pgdyno tune",
    ),
    WaitMeaning(
        ("bufferpin:", "buffer:buffercleanup"),
        "sessions wait until nobody uses a block, as a vacuum must",
        "somebody left a cursor open on this block: end the oldest transaction",
    ),
    WaitMeaning(
        ("lwlock:buffercontent", "buffer:"),
        "sessions wait for the same blocks: the end of an index on growing values, rows that"
        " everybody changes, or a sequence",
        "see the statement: fewer indexes on growing values, larger batches, hash partitions; for"
        " nextval, ALTER SEQUENCE ... CACHE",
    ),
    WaitMeaning(
        ("io:walsync", "io:walwrite", "lwlock:walwrite"),
        "commits wait until their WAL is on the disk",
        "compare with what this disk could do before (pgdyno compare, doctor); in a cloud, see the"
        " limit and the credit of the volume; fewer, larger transactions write less often",
        kind="waits for WAL",
        danger=Danger.COSTS,
        flush_ms=_FLUSH_MS,
    ),
    WaitMeaning(
        ("lwlock:walinsert",),
        "sessions wait to put WAL into wal_buffers",
        "less WAL: fewer indexes, larger batches, a longer time between checkpoints",
    ),
    WaitMeaning(
        ("io:datafileread", "io:datafileprefetch", "io:aio"),
        "sessions wait for blocks that are not in memory",
        "after a restart or a failover caches are cold: it passes, or pg_prewarm; else find what"
        " the statement reads: EXPLAIN (ANALYZE, BUFFERS)",
        kind=READS,
        danger=Danger.COSTS,
    ),
    WaitMeaning(
        ("io:datafileextend", "lock:extend"),
        "sessions wait to make one table larger",
        "load with COPY or larger inserts, from fewer sessions, or into partitions",
        needs="lock:extend",
    ),
    WaitMeaning(
        ("lwlock:procarray", "ipc:procarraygroupupdate", "lwlock:xidgen", "ipc:xactgroupupdate"),
        "sessions wait for the list of transactions: very many are active at once",
        "fewer sessions at work: a pooler in transaction mode",
    ),
    WaitMeaning(
        ("lwlock:pg_stat_statements", "lwlock:pgstat", "extension:pg_stat_statements"),
        "sessions wait for the statistics of statements: too many different ones",
        "parameters instead of literals and lists; a larger pg_stat_statements.max",
    ),
    WaitMeaning(
        ("lwlock:notify", "lwlock:async"),
        "sessions wait for the queue of NOTIFY",
        "a listener that never ends its transaction fills it: SELECT"
        " pg_catalog.pg_notification_queue_usage()",
    ),
    WaitMeaning(
        ("ipc:executegather", "ipc:parallel", "ipc:hash", "ipc:messagequeue", "ipc:bgworker"),
        "sessions wait for their parallel workers",
        "many short statements run in parallel: max_parallel_workers_per_gather = 0 for their"
        " role, or a larger parallel_setup_cost",
        call_ms=_SHORT_MS,
        follows=True,
    ),
    WaitMeaning(
        ("timeout:pgsleep",),
        "sessions sleep: a statement calls pg_sleep",
        "find who sends it; in a place for user input, it is an attack (SQL injection)",
        kind="sessions sleep",
    ),
    WaitMeaning(
        ("extension:", "ipc:libpq", "ipc:remote"),
        "sessions wait for an extension, such as postgres_fdw for another server",
        "see the statement, and the server behind its foreign tables",
        kind="waits for an extension",
    ),
)
# Other rules have these waits, or their sessions wait for a client.
_ELSEWHERE = ("lock:", "ipc:syncrep", "io:buffile", "client:")


def waits(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for each kind of wait that takes much of DB time, and for caches of ids."""
    named: set[str] = set()
    rest = set(evidence.events_of(("",))) - {""}
    for meaning in WAITS:
        events = {event for event in rest if canonical_event(event).startswith(meaning.names)}
        rest -= events
        finding = _finding(evidence, known, meaning, events)
        if finding is not None:
            named.add(meaning.said)
            yield finding
    for event in sorted(rest):
        if not canonical_event(event).startswith(_ELSEWHERE):
            step = "the manual of PostgreSQL says what it means: monitoring, wait events"
            meaning = WaitMeaning((event,), f"sessions wait for {event}", step)
            if finding := _finding(evidence, known, meaning, {event}):
                yield finding
    for seen in evidence.now("slru"):
        of_cache = [of for key, of in _CACHES.items() if key in str(seen.last["cache"]).lower()]
        lookups = (seen.grown("blks_hit") + seen.grown("blks_read")) / evidence.seconds
        reads = seen.grown("blks_read") / evidence.seconds
        if not of_cache or (lookups < _LOOKUPS_PER_SECOND and reads < _READS_PER_SECOND):
            continue
        [meaning] = of_cache
        if meaning.said not in named:
            named.add(meaning.said)
            cost = f"{lookups:,.0f} lookups/s, {reads:,.0f} of them read from disk"
            yield _made(evidence, meaning, meaning.said, lost_s=0.0, cost=cost)


def _finding(
    evidence: IncidentEvidence, known: KnownStatements, meaning: WaitMeaning, events: set[str]
) -> IncidentFinding | None:
    """Return the finding of a group of wait events; None if little time is lost in them."""
    lost_s = evidence.in_events(events.__contains__)
    is_little = (evidence.share(lost_s) or 0.0) < _RATIO or lost_s < _SESSIONS * evidence.seconds
    is_ordinary = not any(canonical_event(event).startswith(meaning.needs) for event in events)
    if is_ordinary or is_little or _flush_ms(evidence, lost_s) < meaning.flush_ms:
        return None
    query, who, part = _who(evidence, known, events)
    # Where statements are counted and none is named, nobody knows whether the calls are short.
    unknown_ms = math.inf if known.counts_statements else 0.0
    if (counts_of(evidence, query) or {}).get("ms", unknown_ms) > meaning.call_ms:
        return None
    said = f"{meaning.said} ({', '.join(sorted(events))})"
    cost = evidence.cost_words(lost_s)
    if meaning.flush_ms:
        made = max(evidence.tally.total.transactions, 1)
        cost += f"; {compact_ms(_flush_ms(evidence, lost_s))} ms in each flush"
        cost += f", {compact_ms(1e3 * lost_s / made)} ms in each transaction"
    finding = _made(evidence, meaning, said, lost_s=lost_s, cost=cost, who=who)
    return (
        replace(finding, evidence={"query_id": str(query)})
        if meaning.follows and part >= _MOST
        else finding
    )


def _flush_ms(evidence: IncidentEvidence, lost_s: float) -> float:
    """Return how long a flush of WAL takes; if flushes are not counted, the wait of a commit.

    One session flushes at a time, for itself and for others that wait.
    """
    flushes = evidence.grown("wal", "syncs")
    if flushes:
        return (
            1e3 * evidence.in_events(lambda event: canonical_event(event) == "io:walsync") / flushes
        )
    return 1e3 * lost_s / max(evidence.tally.total.transactions, 1)


def _who(
    evidence: IncidentEvidence, known: KnownStatements, events: set[str]
) -> tuple[int, str, float]:
    """Return the statement that waits most in these events, in words, and its share.

    0 and "" if it is not known.
    """
    by_query: Counter[int] = Counter()
    for query, of_query in list(evidence.tally.total.by_statement.items()):
        by_query[query] = sum(count for event, count in of_query.items() if event in events)
    [(query, count)] = by_query.most_common(1) or [(0, 0)]
    text = known.texts.get(query, "")
    if not text or count < _PER_REST * by_query.total():
        return 0, "", 0.0
    share = percent(count / by_query.total())
    said = f"{share} of it in {short_text(' '.join(text.split()))}"
    return query, said, count / by_query.total()


def _made(
    evidence: IncidentEvidence,
    meaning: WaitMeaning,
    said: str,
    *,
    lost_s: float,
    cost: str,
    who: str = "",
) -> IncidentFinding:
    holder = oldest_holder(evidence) if meaning.kind == "contention inside the server" else ""
    lines = (who, f"oldest transaction: {holder}" if holder else "")
    share = evidence.share(lost_s)
    return IncidentFinding(
        kind=meaning.kind,
        said=said,
        cost=cost,
        lost_s=lost_s,
        lines=tuple(line for line in lines if line),
        next_step=meaning.step,
        danger=meaning.danger,
        answer=f"{said}: {percent(share or 0.0) + ' of DB time' if lost_s else cost}",
    )
