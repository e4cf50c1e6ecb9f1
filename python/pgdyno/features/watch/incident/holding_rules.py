"""Findings about transactions, slots and standbys that keep dead rows, and about vacuum."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.features.watch.incident.doing import doing, ending_step
from pgdyno.features.watch.incident.evidence import IncidentEvidence, Row, SeenRows, number
from pgdyno.features.watch.incident.finding import Danger, IncidentFinding, quoted
from pgdyno.features.watch.incident.lock_rules import address_line, session_name
from pgdyno.quantities import count, counted, percent, seconds

_IDLE_NS = 10_000_000_000
_LONG_NS = 300_000_000_000
# Rows that nobody may remove until the oldest transaction has ended.
_HELD_XIDS = 100_000
_FEW_XIDS = 1_000
_DEAD_MIN = 10_000
_BUSY_RATIO = 0.8
# How many transactions are left until the server refuses to write: at 40 million it warns.
_LEFT = ((100e6, Danger.WORK_REFUSED), (500e6, Danger.LIMIT_NEAR))


def long_holders(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield the oldest of everything that keeps dead rows, if it is old or keeps many."""
    held = sorted(evidence.now("holds"), key=_rank)
    blocking = {queue.key.pid for queue in evidence.queues.all()}
    kinds: set[str] = set()
    for seen in held:
        row = seen.last
        kind = _kind(row)
        if kind in kinds or int(row["pid"] or 0) in blocking - {0}:
            continue  # One of each kind; a holder of locks is named by its queue.
        if (harm := _harm(row, evidence)) is None:
            continue
        kinds.add(kind)
        same = sum(_kind(other.last) == kind for other in held) - 1
        yield _holder(row, harm, same)


def vacuum_behind(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if dead rows grow past the threshold and autovacuum cannot keep up."""
    if not (row := evidence.row("limits")):
        return
    is_on = bool(row["autovacuum"])
    over = [table for table in evidence.now("tables") if _is_behind(table, row)]
    if not over or (is_on and evidence.workers_busy_ratio < _BUSY_RATIO):
        return
    worst = max(over, key=lambda table: number(table.last, "rows_dead"))
    dead, live = number(worst.last, "rows_dead"), number(worst.last, "rows_live")
    grown = dead - number(worst.first, "rows_dead")
    workers = int(row["vacuum_workers_max"])
    all_of_them = "its only worker is" if workers == 1 else f"all its {count(workers)} workers are"
    why = (
        f"{all_of_them} busy in {percent(evidence.workers_busy_ratio)} of samples"
        if is_on
        else "autovacuum is off"
    )
    step = (
        "raise autovacuum_vacuum_cost_limit, then autovacuum_max_workers"
        if is_on
        else "ALTER SYSTEM SET autovacuum = on; SELECT pg_catalog.pg_reload_conf()"
    )
    keeps = max((_xids(held) for held in evidence.now("holds")), default=0.0) >= _HELD_XIDS
    if keeps:
        step = f"no vacuum can remove them: first end {oldest_holder(evidence)}"
    yield IncidentFinding(
        kind="autovacuum cannot keep up" if is_on else "autovacuum is off",
        said=f"{counted(len(over), 'table')} past the threshold of autovacuum: {why}",
        cost=f"{_table(worst)} has {dead:,.0f} dead rows and {live:,.0f} live ones,"
        f" {grown:+,.0f} during the watch",
        next_step=step,
        danger=Danger.GROWS,
        answer=f"autovacuum: {why}; {_table(worst)} has {dead:,.0f} dead rows",
        evidence={"dead_rows": dead, "tables": len(over)},
    )


def wraparound(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if ids of transactions or multixacts are older than autovacuum allows."""
    ages = evidence.row("ages")
    for what, setting, age, limit in (
        ("transactions", "autovacuum_freeze_max_age", "xid_age", "freeze_age"),
        (
            "multixacts",
            "autovacuum_multixact_freeze_max_age",
            "multixact_age",
            "multixact_freeze_age",
        ),
    ):
        of_age, of_limit = number(ages, age), number(ages, limit)
        if of_limit and of_age > 1.2 * of_limit:
            yield _wraparound(evidence, what, setting, of_age, of_limit)


def _wraparound(
    evidence: IncidentEvidence, what: str, setting: str, age: float, limit: float
) -> IncidentFinding:
    holder = oldest_holder(evidence)
    left = 2**31 - 3_000_000 - age
    return IncidentFinding(
        kind="wraparound",
        said=f"the oldest row that is not frozen is {age:,.0f} {what} old; {setting} is"
        f" {limit:,.0f}",
        cost=f"the server refuses to write after {left:,.0f} more {what}",
        next_step="end what keeps old rows (transactions, slots, prepared transactions), then"
        " VACUUM (FREEZE) the oldest tables",
        danger=next((danger for most, danger in _LEFT if left <= most), Danger.GROWS),
        lines=(f"oldest rows are kept by {holder}",) if holder else (),
        answer=f"ids of {what} run out in {left:,.0f} {what}",
        evidence={"age": age, "left": left, "setting": setting},
    )


def oldest_holder(evidence: IncidentEvidence) -> str:
    """Return who keeps the oldest rows and for how long, "" if nobody is known to keep any."""
    held = [seen for seen in sorted(evidence.now("holds"), key=_rank) if _xids(seen)]
    if not held:
        return ""
    row = held[0].last
    age = number(row, "age_ns") or number(row, "state_age_ns")
    state = str(row["state"])
    since = f" for {seconds(round(age / 1e9))}" if age else ""
    return f"{_who(row)}, {state}{since}"


def _who(row: Row) -> str:
    kind = str(row["kind"])
    named = {"slot": f"replication slot {row['name']}", "standby": f"standby {row['name']}"}
    return named.get(kind) or session_name(row)


def _xids(seen: SeenRows) -> float:
    return number(seen.last, "xmin_age")


def _rank(seen: SeenRows) -> tuple[float, float]:
    return -number(seen.last, "xmin_age"), -number(seen.last, "age_ns")


def _kind(row: Row) -> str:
    kind, state = str(row["kind"]), str(row["state"])
    if kind == "session":
        return "idle in transaction" if state.startswith("idle in") else "long transaction"
    return {"slot": "slot keeps rows", "standby": "standby keeps rows"}.get(kind, kind)


def _harm(row: Row, evidence: IncidentEvidence) -> str | None:
    """Return what the holder keeps; None if it is too young and keeps too little."""
    kind, xids = _kind(row), number(row, "xmin_age")
    age_ns = number(row, "age_ns")
    if kind == "idle in transaction":
        if number(row, "state_age_ns") < _IDLE_NS:
            return None
    elif kind == "prepared transaction":
        if age_ns < _IDLE_NS and xids < _HELD_XIDS:
            return None
    elif xids < _HELD_XIDS and not (age_ns >= _LONG_NS and _dead(evidence)):
        return None
    dead = _dead(evidence)
    keeps = (
        "its locks, also over a restart"
        if kind == "prepared transaction"
        else ("its connection and its locks")
    )
    if xids < _FEW_XIDS and not dead:
        return f"it keeps {keeps}; it hardly keeps dead rows yet"
    if not xids:
        return f"it keeps {keeps}; {dead}"
    words = f"no dead row of the last {counted(int(xids), 'transaction')} can be removed"
    return words + (f"; {dead}" if dead else "")


def _dead(evidence: IncidentEvidence) -> str:
    """Return the table with the most dead rows, "" if there are few."""
    tables = list(evidence.now("tables"))
    worst = max(tables, key=lambda table: number(table.last, "rows_dead"), default=None)
    if worst is None or number(worst.last, "rows_dead") < _DEAD_MIN:
        return ""
    dead, live = number(worst.last, "rows_dead"), number(worst.last, "rows_live")
    return f"{_table(worst)} has {dead:,.0f} dead rows and {live:,.0f} live ones"


def _holder(row: Row, harm: str, same_count: int) -> IncidentFinding:
    kind, pid, name = _kind(row), int(row["pid"] or 0), str(row["name"])
    age_s = number(row, "age_ns") / 1e9
    state_s = number(row, "state_age_ns") / 1e9
    who = session_name(row)
    steps = {
        "slot keeps rows": "let its receiver run again, or SELECT"
        f" pg_catalog.pg_drop_replication_slot({quoted(name)})",
        "standby keeps rows": "end the long query on the standby; hot_standby_feedback = off there"
        " cancels queries instead",
    }
    said = {
        "idle in transaction": f"{who} is {row['state']} for {seconds(round(state_s))}; its"
        f" transaction is {seconds(round(age_s))} old",
        "long transaction": f"{who} has a transaction of {seconds(round(age_s))} and is"
        f" {doing(row)}",
        "prepared transaction": f"{who} was prepared {seconds(round(age_s))} ago",
        "slot keeps rows": f"replication slot {name} ({row['state']}) keeps old rows",
        "standby keeps rows": f"standby {name} keeps old rows by hot_standby_feedback",
    }[kind]
    if same_count:
        said += f" ({same_count} more like it)"
    text = str(row["statement"])
    return IncidentFinding(
        kind=kind,
        said=said,
        cost=harm,
        since_s=age_s or None,
        next_step=steps.get(kind) or ending_step(row),
        danger=Danger.GROWS,
        lines=(*((f"its last statement: {text}",) if text else ()), *address_line(row))
        if str(row["kind"]) == "session"
        else (),
        answer=f"{said}; {harm}",
        evidence={"pid": pid, "name": name, "xmin_age": number(row, "xmin_age")},
    )


def _table(seen: SeenRows) -> str:
    schema, table = str(seen.last["schema"]), str(seen.last["table"])
    return table if schema == "public" else f"{schema}.{table}"


def _is_behind(table: SeenRows, limits: Row) -> bool:
    """Return whether a table has twice the dead rows at which autovacuum begins, and gets more."""
    dead, live = number(table.last, "rows_dead"), number(table.last, "rows_live")
    scale = number(limits, "vacuum_scale_millionths") / 1e6
    threshold = number(limits, "vacuum_threshold") + scale * live
    is_many = dead >= max(_DEAD_MIN, 2 * threshold)
    return is_many and dead >= number(table.first, "rows_dead")
