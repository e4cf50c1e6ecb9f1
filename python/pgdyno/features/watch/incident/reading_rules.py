"""Findings about what statements read besides a missing index: tables read whole, dead rows, no
statistics of the planner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.features.watch.incident import known_statements as statements
from pgdyno.features.watch.incident.evidence import IncidentEvidence, SeenRows, number
from pgdyno.features.watch.incident.finding import Danger, IncidentFinding
from pgdyno.features.watch.incident.holding_rules import oldest_holder
from pgdyno.features.watch.incident.known_statements import EXPLAIN_STEP, KnownStatements
from pgdyno.features.watch.incident.table_facts import StatementFacts, TableFacts
from pgdyno.quantities import percent
from pgdyno.server.grammar import sql_name

_ROWS_PER_SECOND = 100_000
# Reading fewer rows than this may be the fastest way: no index helps.
_ROWS_PER_SCAN = 1_000
_MUCH_RATIO = 0.25
_DEAD_MIN = 10_000
_DEAD_BLOCKS_PER_ROW = 50
_CALLS_MIN = 10
_BLOCKS_MIN = 200
_WHOLE_RATIO = 0.5
_LOOKED_UP_RATIO = 0.5
# A table that has this number of times the rows that the planner knows has other good plans.
_OUTGROWN = 4
# The end of a text that was cut, also that of a utility statement.
_CUT = ("…", "...")


def read_whole(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for the table with most rows read whole, if no statement is known to name it.

    A statement that names it was judged by its own numbers.
    """
    if known.counts_statements is None:
        return
    for seen in sorted(evidence.seen("tables").values(), key=lambda seen: -seen.grown("seq_rows")):
        rows, scans = seen.grown("seq_rows"), seen.grown("seq_scans")
        if rows / evidence.seconds < _ROWS_PER_SECOND:
            return
        is_often = scans >= max(3.0, evidence.seconds / 10) and rows / scans >= _ROWS_PER_SCAN
        if not is_often or _is_named(evidence, known, seen):
            continue
        if known.counts_statements and _reader(evidence, seen) is None:
            continue  # Nothing says who reads it.
        yield _whole(evidence, known, seen)
        return


def _is_named(evidence: IncidentEvidence, known: KnownStatements, seen: SeenRows) -> bool:
    """Return whether a statement names a table and explains its scans, or may: its text is cut.

    A statement explains them with much time, or with half as many calls.
    """
    name = re.compile(rf"\b{re.escape(str(seen.last['table']))}\b")
    for query, text in known.texts.items():
        counts = statements.counts_of(evidence, query) if name.search(text) else None
        if counts is not None and counts["calls"] >= seen.grown("seq_scans") / 2:
            return True
    texts = [known.texts.get(query, "") for query in statements.worth_asking(evidence)]
    if known.counts_statements and not any(texts):
        return True
    return any(name.search(text) or text.endswith(_CUT) for text in texts)


def _whole(evidence: IncidentEvidence, known: KnownStatements, seen: SeenRows) -> IncidentFinding:
    rows, scans, table = seen.grown("seq_rows"), seen.grown("seq_scans"), _name(seen)
    said = f"{table} is read whole again and again: {scans:,.0f} times, {rows / scans:,.0f} rows"
    said += " each"
    cost = "its share of DB time is not known: this server does not count statements"
    step = (
        "which statement it is: add pg_stat_statements to shared_preload_libraries,"
        " restart, CREATE EXTENSION pg_stat_statements"
    )
    lost_s, query = 0.0, _reader(evidence, seen) if known.counts_statements else None
    key = _foreign_key(evidence, table)
    if query is not None:
        lost_s, _ = statements.time_of(evidence, query)
        text = statements.short_text(known.texts.get(query, ""))
        said += f", by {text}, which does not name it"
        cost = evidence.cost_words(lost_s).replace(" lost", "")
        step = "see what it executes: functions, triggers, views, foreign keys"
        if triggers := statements.triggers_of(known.facts.get(query)):
            step = f"see what {triggers} executes"
    if key:
        said += f"; foreign key {key} has no index"
        step = f"CREATE INDEX CONCURRENTLY on {table}, the columns of {key.split()[0]}, on a copy"
        step += " first: each DELETE and each UPDATE of the key there reads this table"
    return IncidentFinding(
        kind="table read whole",
        said=said,
        cost=cost,
        lost_s=lost_s,
        next_step=step,
        evidence={"table": table, "scans": scans, "rows": rows, "query_id": str(query or "")},
    )


def _reader(evidence: IncidentEvidence, seen: SeenRows) -> int | None:
    """Return the statement whose calls read as many blocks as the table has; None if none does."""
    pages = max(number(seen.last, "pages"), 1)
    for query in statements.worth_asking(evidence):
        counts = statements.counts_of(evidence, query)
        if counts is not None and counts["blocks"] >= _WHOLE_RATIO * pages:
            return query
    return None


def _foreign_key(evidence: IncidentEvidence, table: str) -> str:
    """Return "fk_name (refers to parent)" of a foreign key of a table without an index, or ""."""
    for seen in evidence.now("objects"):
        name, _, of_table = str(seen.last["object"]).partition(" of ")
        of_table = of_table.removeprefix("public.")
        if seen.last["kind"] == "foreign key without an index" and of_table == table:
            return f"{name} ({seen.last['note']})"
    return ""


def much_for_little(
    evidence: IncidentEvidence, known: KnownStatements
) -> Iterator[IncidentFinding]:
    """Yield a finding for each statement that reads many blocks for a row, with what explains it.

    What a statement returns says nothing about what it needs if it counts or sums; then only dead
    rows and index-only scans that read their table are named.
    """
    for statement in statements.judged_statements(evidence, known):
        facts, counts = statement.facts, statement.counts
        if facts is None or counts is None or statement.share_ratio < _MUCH_RATIO:
            continue
        is_little = counts["blocks"] < max(_BLOCKS_MIN, _DEAD_BLOCKS_PER_ROW * counts["rows"])
        if is_little or counts["calls"] < _CALLS_MIN:
            continue
        reason = (
            _why_dead(evidence, facts)
            or _why_looked_up(evidence, facts, counts)
            or _why_much(evidence, facts, statement.text, counts["blocks"])
        )
        if reason is None:
            continue
        says = f"reads {counts['blocks']:,.0f} blocks for {_rows(counts['rows'])}; {reason.why}"
        new = [
            f"{table.name} was analysed during this watch: the plan may have changed then"
            for table in facts.tables
            if statements.grown_of(evidence, table, "analyzes")
        ]
        yield statement.finding(
            reason.kind,
            says,
            reason.next_step,
            answer=f"it {says}",
            lines=(*((reason.line,) if reason.line else ()), *new),
            danger=Danger.GROWS,
            blocks=counts["blocks"],
            rows=counts["rows"],
        )


@dataclass(frozen=True, slots=True)
class ReadingReason:
    """Why a statement reads many blocks for a row. `line`: who or what keeps it so, may be ""."""

    kind: str
    why: str
    next_step: str
    line: str = ""


def _why_dead(evidence: IncidentEvidence, facts: StatementFacts) -> ReadingReason | None:
    for table in facts.tables:
        seen = evidence.seen("tables").get((table.schema, table.table))
        if seen is None or not _is_dead(seen):
            continue
        dead, live = number(seen.last, "rows_dead"), number(seen.last, "rows_live")
        holder = oldest_holder(evidence)
        line, step = "vacuum has not removed them", f"VACUUM (VERBOSE) {table.name}"
        if _has_vacuum_off(evidence, table.name):
            line = "autovacuum is off for this table (autovacuum_enabled)"
            step = f"ALTER TABLE {table.name} RESET (autovacuum_enabled); VACUUM {table.name}"
        if holder:
            line = f"they are kept by {holder}"
            step = f"end what keeps them, then {step.replace(' (VERBOSE)', '')}"
        said = f"{table.name} has {dead:,.0f} dead rows and {live:,.0f} live ones"
        return ReadingReason("dead rows are read", said, step, line)
    return None


def _has_vacuum_off(evidence: IncidentEvidence, table: str) -> bool:
    """Return whether a table has an option that keeps autovacuum away."""
    return any(
        seen.last["kind"] == "table with storage options"
        and str(seen.last["object"]).removeprefix("public.") == table
        and re.search(r"autovacuum_enabled=(off|false|no|0)", str(seen.last["note"]))
        for seen in evidence.now("objects")
    )


def _why_looked_up(
    evidence: IncidentEvidence, facts: StatementFacts, counts: Mapping[str, float]
) -> ReadingReason | None:
    """Return the reason if an index-only scan looks up its rows in the table."""
    for table in facts.tables:
        seen = evidence.seen("tables").get((table.schema, table.table))
        of_index = [col for col in table.columns if col.node == "Index Only Scan"]
        # With other columns, its plan is an ordinary index scan.
        names = {col.condition.column for col in of_index}
        if seen is None or not names or facts.parts.columns != names:
            continue
        looked_up = seen.grown("index_rows") / counts["calls"]
        if looked_up < _LOOKED_UP_RATIO * counts["blocks"]:
            continue
        holder = oldest_holder(evidence)
        return ReadingReason(
            "index-only scan reads its table",
            f"its index-only scan looks up {looked_up:,.0f} rows in {table.name} in each call:"
            " hypothesis, no vacuum came since they changed",
            f"VACUUM {table.name}; then a smaller autovacuum_vacuum_scale_factor for it",
            f"vacuum cannot help before this ends: {holder}" if holder else "",
        )
    return None


def _why_much(
    evidence: IncidentEvidence, facts: StatementFacts, text: str, blocks: float
) -> ReadingReason | None:
    """Return a hypothesis: from the statement's form, sizes of its tables and old transactions."""
    kind, parts = "much is read for few rows", facts.parts
    toast = [table for table in facts.tables if table.toast_pages_count > max(blocks / 2, 1)]
    small = sum(table.pages_count for table in facts.tables) < blocks
    # Other names are parts of the statement, such as WITH, which may sum.
    if parts.sums or not facts.knows_all:
        return None
    for table in facts.tables:
        for shape in table.shapes:
            # A condition on another column may be what the plan uses.
            why, step = shape.shape.words(table.name, shape.index)
            return ReadingReason(kind, f"{why}: hypothesis", table.step(step))
    if parts.skips:
        why = "OFFSET reads all rows before its page: hypothesis"
        step = (
            "begin a page behind the last key of the page before (WHERE key > ...), not by OFFSET"
        )
        return ReadingReason(kind, why, step)
    if "skip locked" in text.lower():
        why = "it passes over rows that others have locked: hypothesis"
        holder = oldest_holder(evidence)
        line = f"oldest transaction: {holder}" if holder else ""
        return ReadingReason(kind, why, "end the oldest transaction; let each take few rows", line)
    if toast and small and parts.changed:
        why = f"each change of a large value of {toast[0].name} (TOAST) writes it anew: hypothesis"
        step = "put what changes often into a separate column or table; send few changes at once"
        return ReadingReason(kind, why, step)
    if toast and small:
        why = f"values of {toast[0].name} are stored outside of its rows (TOAST): hypothesis"
        return ReadingReason(kind, why, "select only the columns that are needed; split the table")
    if parts.limits:
        why = "its plan reads on until LIMIT is full, and few rows on its way fit: hypothesis"
        step = f"{EXPLAIN_STEP}; an index on the columns of WHERE and ORDER BY"
        if any(column.index for table in facts.tables for column in table.columns):
            step += ". If its plan is good: a prepared statement keeps one plan for all values"
            step += " (plan_cache_mode = force_custom_plan)"
        return ReadingReason(kind, why, step)
    return ReadingReason(kind, "no known reason", EXPLAIN_STEP)


def compiled(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for each statement with much time, most of it compiling (JIT)."""
    for statement in statements.judged_statements(evidence, known):
        counts = statement.counts
        if counts is None or statement.share_ratio < _MUCH_RATIO:
            continue
        if counts["jit_ms"] < counts["ms"] / 2:
            continue
        ratio = percent(min(1.0, counts["jit_ms"] / max(counts["ms"], 1e-9)))
        yield statement.finding(
            "compiling",
            f"{ratio} of its time is compiling its plan (JIT)",
            "jit = off for its role, or a larger jit_above_cost",
            jit_ms=counts["jit_ms"],
        )


def no_statistics(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for a statement with much time whose tables were never analysed."""
    for statement in statements.judged_statements(evidence, known):
        facts, counts = statement.facts, statement.counts
        if facts is None or counts is None or statement.share_ratio < _MUCH_RATIO:
            continue
        if counts["calls"] < _CALLS_MIN or counts["blocks"] < _BLOCKS_MIN:
            continue
        unknown = [table.name for table in facts.tables if _was_never_analysed(table)]
        changed = [table for table in facts.tables if _has_outgrown(evidence, table)]
        # Without a condition or a join there is one plan only.
        has_choice = len(facts.tables) > 1 or any(table.columns for table in facts.tables)
        if not has_choice or not (unknown or changed):
            continue
        names = unknown or [table.name for table in changed]
        listed = ", ".join(names)
        has = f"{listed} {'has' if len(unknown) == 1 else 'have'} no statistics"
        why = f"{has} for the planner, as after an upgrade or a restore"
        step = f"ANALYZE {listed}; after an upgrade, vacuumdb --all --analyze-in-stages"
        if not unknown:
            has = f"the planner's statistics of {names[0]} are older than most of its rows"
            rows, _ = statements.size_of(evidence, changed[0])
            why = f"{has}: {changed[0].changed_count:,} changes since, {rows:,.0f} rows now"
            step = f"ANALYZE {listed}; see whether autovacuum is off for it or has no worker free"
        kind = "no statistics" if unknown else "old statistics"
        yield statement.finding(kind, why, step, answer=has, tables=names)
        return


def _was_never_analysed(table: TableFacts) -> bool:
    # -1: not known; before 14 a table without pages and rows.
    return table.rows_count < 0 or (table.rows_count == 0 and table.pages_count == 0)


def _has_outgrown(evidence: IncidentEvidence, table: TableFacts) -> bool:
    """Return whether most rows of a table came after it was analysed."""
    rows, _ = statements.size_of(evidence, table)
    return rows >= max(_OUTGROWN * table.rows_count, _DEAD_MIN) and table.changed_count >= rows / 2


def _is_dead(seen: SeenRows) -> bool:
    dead, live = number(seen.last, "rows_dead"), number(seen.last, "rows_live")
    return dead >= max(_DEAD_MIN, live)


def _rows(rows: float) -> str:
    return "1 row" if 0.5 <= rows < 1.5 else f"{rows:,.0f} rows"


def _name(seen: SeenRows) -> str:
    return sql_name(str(seen.last["schema"]), str(seen.last["table"]))
