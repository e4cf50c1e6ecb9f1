"""Findings about statements that read no more than they need and are slow: what a call does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.features.watch.incident import known_statements as statements
from pgdyno.features.watch.incident.conditions import restricted
from pgdyno.features.watch.incident.doing import doing, ending_step, waits_for_client
from pgdyno.features.watch.incident.evidence import IncidentEvidence, number
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.incident.known_statements import JudgedStatement, KnownStatements
from pgdyno.features.watch.incident.lock_rules import address_line, session_name
from pgdyno.features.watch.incident.table_facts import StatementFacts, TableFacts
from pgdyno.observe.host.cpu import ALL_CORES, MODES
from pgdyno.quantities import compact_ms, counted, percent, plain
from pgdyno.server.grammar import sql_name

# Other causes may take more: what such a call does is certain.
_SHARE_MIN = 0.1
# On average; below, a server that has little to do would have a finding.
_SESSIONS_MIN = 0.25
_CALLS_MIN = 10
LONG_S = 30.0
# If its form tells why it does not end.
_KNOWN_S = 10.0
# Statements of a report, and not those of a page.
_LONG_MS = 100.0
_BUSY_RATIO = 0.9
# Sessions for each core: some of them wait for one.
_WANTING = 1.5
_ROWS_MANY = 10_000
_BLOCKS_MANY = 200
_REPORTS_MAX = 1.1
_OFTEN = 10.0
_INDEXES_MANY = 8
_HOT_RATIO = 0.5
_CPU_MS_MIN = 5.0
# At most this part of the CPU time of a call is execution; the rest comes before.
_EXECUTED_RATIO = 1 / 3
_ON_CPU_RATIO = 0.8
# Reading a block that is in memory, or returning a row, takes a hundredth of this.
_MS_PER_PIECE = 0.5
_CHANGING = ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")
# The server also counts the rows of CREATE TABLE AS and the like, which nobody gets.
_RETURNING = ("SELECT", "WITH", "VALUES", "TABLE", "FETCH")
# What EXPLAIN takes.
_EXPLAINED = ("SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE")
# Programs and their libraries write comments before a statement, in which they name themselves.
# Subtle: any user writes this text. What was taken is not given back, or it could take hours.
_VERB = re.compile(r"(?>\s+|\(|--[^\n]*|/\*.*?\*/)*+(\w+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MeanCall:
    """What one call of a statement does. `cpu_ms`: sampled without a wait, also before execution.

    `cpu_sessions_count`: sessions on a CPU at one moment, of all statements. `sessions_count`: that
    execute it at one moment. `hot_ratio`: share of updates of its table that changed no index.
    """

    verb: str
    calls_count: float
    exec_ms: float
    rows_count: float
    blocks_count: float
    cpu_ms: float
    cpu_ratio: float
    cpu_sessions_count: float
    calls_per_s: float
    sessions_count: float
    hot_ratio: float
    facts: StatementFacts | None


@dataclass(frozen=True, slots=True)
class CallMeaning:
    """What a call does that costs its time, and the next step."""

    kind: str
    said: str
    next_step: str


def slow_calls(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for each statement with much time, if its calls tell what they do."""
    for statement in statements.judged_statements(evidence, known):
        is_little = statement.lost_s < _SESSIONS_MIN * evidence.seconds
        if statement.share_ratio < _SHARE_MIN or is_little:
            continue
        call = _call(statement, known.texts.get(statement.query_id, ""))
        if call and (meaning := next((made for rule in _MEANINGS if (made := rule(call))), None)):
            yield statement.finding(
                meaning.kind,
                meaning.said,
                meaning.next_step,
                ms_per_call=call.exec_ms,
                calls=call.calls_count,
            )


def long_statements(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding for each session whose one statement does not end and takes much time.

    The server counts a statement when it ends, so other rules know nothing of it.
    """
    for seen in evidence.now("holds"):
        row, query = seen.last, int(seen.last["query_id"] or 0)
        age_s, text = number(row, "state_age_ns") / 1e9, str(row["statement"])
        lost_s, share = statements.time_of(evidence, query) if query else (0.0, 0.0)
        if row["state"] != "active" or age_s < _KNOWN_S or share < _SHARE_MIN or not text:
            continue
        parts = restricted(text)
        shape = next(iter(parts.shapes), None) if parts else None
        if age_s < LONG_S and shape is None:
            continue
        table = next(iter(parts.tables), ("", "")) if parts else ("", "")
        why, step = shape.words(sql_name(*table)) if shape else ("", "")
        if not shape and verb_of(text) in _EXPLAINED and not waits_for_client(row):
            step = "EXPLAIN it, on a copy first"
        said = f"{session_name(row)} is {doing(row)}"
        yield IncidentFinding(
            kind="long statement",
            said=f"{said}: {statements.short_text(text)}",
            cost=evidence.cost_words(lost_s).replace(" lost", ""),
            lost_s=lost_s,
            since_s=age_s,
            lines=((f"{why}: hypothesis",) if why else ()) + tuple(address_line(row)),
            next_step="; ".join(filter(None, (ending_step(row), step))),
            answer=f"{said}; {percent(share)} of DB time: {statements.short_text(text)}",
            evidence={"query_id": str(query), "pid": int(row["pid"])},
        )


def full_cores(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding if the cores are busy and one application's long statements have most of it.

    Only of a server on this host, whose cores are seen.
    """
    cores_count, busy_ratio = _cores(evidence)
    is_alone = len({application for (_, application, _) in evidence.seen("senders")}) < 2
    if busy_ratio < _BUSY_RATIO or is_alone:
        return
    on_cpu: Counter[tuple[str, str]] = Counter()
    queries: dict[tuple[str, str], Counter[int]] = {}
    for query, events in list(evidence.tally.total.by_statement.items()):
        counts = statements.counts_of(evidence, query)
        sender = statements.sender_of(evidence, query)
        if sender and counts and counts["ms"] >= _LONG_MS:
            on_cpu[sender] += events[""]
            queries.setdefault(sender, Counter())[query] += events[""]
    everything = evidence.tally.total.by_event[""]
    for (application, role), samples in on_cpu.most_common(1):
        lost_s = evidence.in_events("".__eq__) * samples / max(everything, 1)
        wanting = evidence.in_events("".__eq__) / evidence.seconds
        if wanting < _WANTING * cores_count or samples < everything / 3:
            continue
        [(query, _)] = queries[application, role].most_common(1)
        counts = statements.counts_of(evidence, query) or {}
        name = application or f"a session of role {role} without a name"
        said = (
            f"all {cores_count} cores are busy ({percent(busy_ratio)}), and {name} (role {role})"
            f" has {percent(samples / everything)} of the time of sessions on a core"
        )
        calls = f"{statements.calls_words(counts)} of {compact_ms(counts['ms'])} ms"
        text = statements.short_text(known.texts.get(query, ""))
        yield IncidentFinding(
            kind="cores are full",
            said=said,
            cost=f"{wanting:.1f} sessions want a core at one moment; {calls}: {text}",
            lost_s=lost_s,
            next_step=f"let {name} send fewer of them at one moment, at a quiet time or to a"
            f" standby; statement_timeout for role {role} ends long ones",
            evidence={"query_id": str(query), "cores": cores_count, "busy_ratio": busy_ratio},
        )


def _cores(evidence: IncidentEvidence) -> tuple[int, float]:
    """Return the number of cores of the host, and the share of their time that is not idle."""
    cores = {str(core): seen for (core,), seen in evidence.seen("cpu").items()}
    if (whole := cores.pop(ALL_CORES, None)) is None:
        return 0, 0.0
    times = {mode: whole.grown(f"{mode}_ns") for mode in MODES}
    total = sum(times.values())
    return len(cores), 1 - (times["idle"] + times["iowait"]) / total if total else 0.0


def _call(statement: JudgedStatement, original: str) -> MeanCall | None:
    """Return the average call; None if the counts cover too little of the watch.

    Args: original, the text as it was sent.
    """
    evidence, counts, facts = statement.evidence, statement.counts, statement.facts
    if counts is None or counts["calls"] < _CALLS_MIN or not statement.text:
        return None
    if "ms_before" in counts or counts["counted_s"] < evidence.seconds / 2:
        return None
    events = dict(evidence.tally.total.by_statement.get(statement.query_id, {}))
    on_cpu, everything = events.get("", 0), evidence.tally.total.by_event.total()
    sessions_s = evidence.db_time_s / everything if everything else 0.0
    per_second = counts["calls"] / counts["counted_s"]
    return MeanCall(
        verb=verb_of(original),
        calls_count=counts["calls"],
        exec_ms=counts["ms"],
        rows_count=counts["rows"],
        blocks_count=counts["blocks"],
        cpu_ms=1e3 * on_cpu * sessions_s / evidence.seconds / per_second,
        cpu_ratio=on_cpu / max(sum(events.values()), 1),
        cpu_sessions_count=evidence.in_events("".__eq__) / evidence.seconds,
        calls_per_s=per_second,
        sessions_count=statement.lost_s / evidence.seconds,
        hot_ratio=_hot_ratio(evidence, facts.written) if facts and facts.written else 1.0,
        facts=facts,
    )


def verb_of(text: str) -> str:
    """Return the first word of a statement in capitals, as "SELECT"; "" if it has none."""
    begun = _VERB.match(text)
    return begun[1].upper() if begun else ""


def _planned(call: MeanCall) -> CallMeaning | None:
    before_ms = call.cpu_ms - call.exec_ms
    if before_ms < _CPU_MS_MIN or call.exec_ms > _EXECUTED_RATIO * call.cpu_ms:
        return None
    step = "a prepared statement is planned once (with PgBouncer: max_prepared_statements)"
    return CallMeaning(
        "planning",
        f"{percent(before_ms / call.cpu_ms)} of its time is planning: {compact_ms(before_ms)} ms"
        f" before the {compact_ms(call.exec_ms)} ms of execution",
        f"{step}; fewer tables, partitions and list values in one statement; if plans read many"
        " dead index entries, VACUUM",
    )


def _returns_much(call: MeanCall) -> CallMeaning | None:
    if call.rows_count < _ROWS_MANY or call.verb not in _RETURNING:
        return None
    return CallMeaning(
        "many rows are returned",
        f"returns {call.rows_count:,.0f} rows in each call, {plain(call.calls_per_s)} calls/s",
        "let the server choose the rows (WHERE, LIMIT), and name the columns that are needed",
    )


def _counts_all(call: MeanCall) -> CallMeaning | None:
    facts = call.facts
    if facts is None or not facts.parts.sums or not facts.knows_all or len(facts.tables) != 1:
        return None
    parts, [table] = facts.parts, facts.tables
    if call.blocks_count < max(_BLOCKS_MANY, table.pages_count / 2):
        return None
    # One session that reads a whole table is a report.
    if not (parts.takes_all and not parts.groups) and (
        call.sessions_count < _REPORTS_MAX or call.calls_per_s < _OFTEN
    ):
        return None
    step = (
        "ask less often; keep the number in a separate row; or an estimate: reltuples of pg_class"
    )
    if parts.groups or not parts.takes_all:
        step = "ask less often; or keep the result: a table of sums, or a materialized view"
    restricted_by = [column.condition.indexed for column in table.columns if not column.index]
    if restricted_by:
        step += "; if the condition fits few rows, CREATE INDEX CONCURRENTLY ON"
        step += f" {table.name} ({restricted_by[0]}), on a copy first"
    for shape in table.shapes[:1]:
        why, other = shape.shape.words(table.name, shape.index)
        step = f"{why}: {other}; else {step}"
    return CallMeaning(
        "a whole table is counted",
        f"counts or sums all {max(table.rows_count, 0.0):,.0f} rows of {table.name} in each call,"
        f" {plain(call.calls_per_s)} calls/s"
        if parts.takes_all
        else f"reads all {max(table.rows_count, 0.0):,.0f} rows of {table.name} in each call to"
        f" count or sum a part of them, {plain(call.calls_per_s)} calls/s",
        step,
    )


def _writes_indexes(call: MeanCall) -> CallMeaning | None:
    """Return the meaning of a statement whose rows get an entry in each of many indexes."""
    table = call.facts.written if call.facts else None
    if table is None or table.index_count < _INDEXES_MANY or call.rows_count < 0.5:
        return None
    blocks_each = call.blocks_count / call.rows_count
    if blocks_each < table.index_count or call.verb not in ("INSERT", "UPDATE"):
        return None
    said = f"for each row, {table.index_count} indexes of {table.name} get an entry"
    step = "drop indexes that nobody needs: idx_scan of pg_stat_user_indexes, on the standbys, too"
    if call.verb == "UPDATE":
        if not table.changed_indexes or call.hot_ratio > _HOT_RATIO:
            return None
        few = table.changed_indexes[:3]
        names = ", ".join(few) + ", ..." * (len(table.changed_indexes) > len(few))
        said += f", because it changes a column of {names} (no HOT update)"
        step = f"drop {names} if nobody needs it (idx_scan of pg_stat_user_indexes), or do not"
        step += " change this column so often; then a smaller fillfactor keeps updates HOT"
    return CallMeaning("many indexes are written", f"{said}: {blocks_each:,.0f} blocks a row", step)


def _hot_ratio(evidence: IncidentEvidence, table: TableFacts) -> float:
    updated = statements.grown_of(evidence, table, "rows_updated")
    return statements.grown_of(evidence, table, "rows_hot_updated") / updated if updated else 1.0


def _computes(call: MeanCall) -> CallMeaning | None:
    # If sessions wait for a core, a call lasts longer and computes as little.
    own_ms = call.exec_ms / max(1.0, call.cpu_sessions_count)
    if call.cpu_ratio < _ON_CPU_RATIO or own_ms < _CPU_MS_MIN:
        return None
    # Blocks of temporary tables are counted elsewhere; most of these tables are not known any more.
    if call.facts is not None and (
        not call.facts.knows_all
        or any(table.schema.startswith("pg_temp") for table in call.facts.tables)
    ):
        return None
    # A join of a large table with itself computes much, too.
    if call.blocks_count >= _BLOCKS_MANY or own_ms < _MS_PER_PIECE * (
        call.blocks_count + call.rows_count
    ):
        return None
    reason = "a function or an expression in it"
    if call.verb in _CHANGING:
        reason = statements.triggers_of(call.facts) or "a trigger, a check or a default"
    return CallMeaning(
        "computing",
        f"uses the CPU for {compact_ms(call.exec_ms)} ms, and reads only"
        f" {counted(round(call.blocks_count), 'block')}: hypothesis, {reason} computes",
        "EXPLAIN (ANALYZE) on a copy shows the time of triggers; with track_functions = pl,"
        " pg_stat_user_functions has the time of functions",
    )


_MEANINGS = (_planned, _returns_much, _counts_all, _writes_indexes, _computes)
