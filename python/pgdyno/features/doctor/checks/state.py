"""Activity on the server, and old transactions and slots: both disturb a measurement."""

from __future__ import annotations

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Judgement, Unknown, bad, good, warn
from pgdyno.quantities import format_bytes

_SLOT_BYTES = 1 << 30
# The server refuses new transactions 3 million before 2^31.
_WRAP_XIDS = 1 << 31


@check("state", "every number includes the load of other users")
def other_load(facts: CheckFacts) -> Judgement:
    """Other sessions at work during the examination."""
    facts.on_watched_server()
    if facts.others_active is None:
        raise Unknown("the active sessions were not counted")
    if facts.others_active:
        return warn(
            f"{facts.others_active} active sessions of other users",
            "measure when no other user works, or state this with the result",
        )
    return good("no other user is active")


@check("state", "vacuum, index builds and backups are extra load")
def maintenance(facts: CheckFacts) -> Judgement:
    """Vacuum and other maintenance that runs now."""
    words = ("vacuum", "index build", "base backup")
    counts = facts.on_server().answer("progress")
    running = [f"{count} {word}" for word, count in zip(words, counts, strict=True) if count]
    if running:
        return warn(f"running: {', '.join(running)}", "wait until it ends")
    return good("no vacuum, index build or base backup runs")


@check("state", "a load without free connections measures nothing")
def connections(facts: CheckFacts) -> Judgement:
    """Connections in use."""
    server = facts.on_watched_server()
    used = int(server.answer("activity")[0]) + 1
    most = int(server.number("max_connections"))
    reserved = int(server.number("superuser_reserved_connections"))
    seen = f"{used} of {most} connections in use, {reserved} reserved"
    if used >= most - reserved:
        return bad(seen, "end idle sessions, or raise max_connections (restart)")
    if used > 0.8 * most:
        return warn(seen, "use a pooler, or fewer idle sessions")
    return good(seen)


@check("state", "vacuum cannot remove dead rows that an old transaction might still need")
def old_transactions(facts: CheckFacts) -> Judgement:
    """Transactions that were left open."""
    *_, idle, oldest_s = facts.on_watched_server().answer("activity")
    seen = (
        f"{idle} sessions idle in a transaction for over 5 min, oldest transaction {oldest_s:.0f} s"
    )
    mend = (
        "SELECT pg_catalog.pg_terminate_backend(pid), and set"
        " idle_in_transaction_session_timeout = '5min'"
    )
    if idle and oldest_s > 3600:
        return bad(seen, mend)
    if idle or oldest_s > 3600:
        return warn(seen, mend)
    return good(seen)


@check("state", "a slot without a reader keeps WAL until the disk is full, and also dead rows")
def replication_slots(facts: CheckFacts) -> Judgement:
    """Slots without a reader."""
    inactive, retained_bytes, lost = facts.on_server().answer("slots")
    drop = "SELECT pg_catalog.pg_drop_replication_slot('NAME')"
    if lost:
        return bad(f"{lost} slots lost their WAL", drop)
    if not inactive:
        return good("every replication slot has a reader")
    seen = (
        f"{inactive} slots without a reader keep up to {format_bytes(max(0, retained_bytes))} "
        "of WAL"
    )
    mend = f"start the reader, or {drop}"
    return bad(seen, mend) if retained_bytes > 16 * _SLOT_BYTES else warn(seen, mend)


@check("state", "near the end of the transaction IDs, an emergency vacuum reads every table")
def wraparound(facts: CheckFacts) -> Judgement:
    """How near the oldest database is to transaction id wraparound."""
    server = facts.on_server()
    age = int(server.answer("databases")[0])
    limit = int(server.number("autovacuum_freeze_max_age"))
    seen = f"oldest database {age:,} transactions, autovacuum_freeze_max_age = {limit:,}"
    mend = "VACUUM (FREEZE) the tables with the oldest relfrozenxid"
    if age > _WRAP_XIDS // 2:
        return bad(seen, mend)
    return warn(seen, mend) if age > 2 * limit else good(seen)
