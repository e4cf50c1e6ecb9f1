"""Findings about what statements read besides a missing index: tables read whole, dead rows, no
statistics of the planner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdyno.features.watch.incident.evidence import IncidentEvidence, SeenRows, number
from pgdyno.features.watch.incident.finding import Danger, IncidentFinding
from pgdyno.features.watch.incident.holding_rules import oldest_holder
from pgdyno.features.watch.incident.lock_rules import cost_words
from pgdyno.features.watch.incident.statement_rules import (
    KnownStatements,
    counts_of,
    short_text,
    time_of,
    worth_asking,
)
from pgdyno.features.watch.incident.table_facts import TableFacts
from pgdyno.quantities import compact_ms, percent
from pgdyno.server.grammar import sql_name

_ROWS_PER_SECOND = 100_000
_MUCH_RATIO = 0.25
_DEAD_MIN = 10_000
_DEAD_BLOCKS_PER_ROW = 50
_CALLS_MIN = 10
_BLOCKS_MIN = 200
_WHOLE_RATIO = 0.5
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
        if scans < max(3.0, evidence.seconds / 10) or _is_named(evidence, known, seen):
            continue
        if known.counts_statements and _reader(evidence, seen) is None:
            continue  # Nothing says who reads it.
        yield _whole(evidence, known, seen)
        return


def _is_named(evidence: IncidentEvidence, known: KnownStatements, seen: SeenRows) -> bool:
    """Return whether a statement with much time names a table, or may: its text is cut."""
    name = re.compile(rf"\b{re.escape(str(seen.last['table']))}\b")
    texts = [known.texts.get(query, "") for query in worth_asking(evidence)]
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
        lost_s, _ = time_of(evidence, query)
        text = short_text(known.texts.get(query, ""))
        said += f", by {text}, which does not name it"
        cost = cost_words(lost_s, evidence).replace(" lost", "")
        step = "see what it executes: functions, triggers, views, foreign keys"
    if key:
        said += f"; foreign key {key} has no index"
        step = f"CREATE INDEX CONCURRENTLY on {table}, the columns of {key.split()[0]}, on a copy"
        step += " first: each DELETE and each UPDATE of the key there reads this table"
    return IncidentFinding(
        kind="table read whole",
        said=said,
        cost=cost,
        lost_s=lost_s,
        share_ratio=evidence.share(lost_s) if lost_s else None,
        next_step=step,
        answer=said,
        evidence={"table": table, "scans": scans, "rows": rows, "query_id": str(query or "")},
    )


def _reader(evidence: IncidentEvidence, seen: SeenRows) -> int | None:
    """Return the statement whose calls read as many blocks as the table has; None if none does."""
    pages = max(number(seen.last, "pages"), 1)
    for query in worth_asking(evidence):
        counts = counts_of(evidence, query)
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


def dead_rows(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for a statement that reads many blocks for a row, of a table of dead rows."""
    for query in worth_asking(evidence):
        facts, counts = known.facts.get(query), counts_of(evidence, query)
        lost_s, share = time_of(evidence, query)
        if facts is None or counts is None or share < _MUCH_RATIO or counts["calls"] < _CALLS_MIN:
            continue
        if counts["blocks"] < max(_BLOCKS_MIN, _DEAD_BLOCKS_PER_ROW * counts["rows"]):
            continue
        for table in facts.tables:
            seen = evidence.seen("tables").get((table.schema, table.table))
            if seen is None or not _is_dead(seen):
                continue
            dead, live = number(seen.last, "rows_dead"), number(seen.last, "rows_live")
            holder, text = oldest_holder(evidence), short_text(known.texts.get(query, ""))
            reads = f"reads {counts['blocks']:,.0f} blocks for {_rows(counts['rows'])}"
            why = f"{table.name} has {dead:,.0f} dead rows and {live:,.0f} live ones"
            kept = f"they are kept by {holder}" if holder else "vacuum has not removed them"
            yield IncidentFinding(
                kind="dead rows are read",
                said=f"{text}: {reads}; {why}",
                cost=f"{compact_ms(counts['ms'])} ms a call, {counts['calls']:,.0f} calls; "
                + cost_words(lost_s, evidence).replace(" lost", ""),
                lost_s=lost_s,
                share_ratio=share,
                lines=(kept,),
                next_step=f"end what keeps them, then VACUUM {table.name}"
                if holder
                else f"VACUUM (VERBOSE) {table.name}",
                danger=Danger.GROWS,
                answer=f"{text} takes {percent(share)} of DB time: {why}; {kept}",
                evidence={"query_id": str(query), "table": table.name, "dead_rows": dead},
            )
            return


def no_statistics(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding for a statement with much time whose tables were never analysed."""
    for query in worth_asking(evidence):
        facts, counts = known.facts.get(query), counts_of(evidence, query)
        lost_s, share = time_of(evidence, query)
        if facts is None or counts is None or share < _MUCH_RATIO:
            continue
        if counts["calls"] < _CALLS_MIN or counts["blocks"] < _BLOCKS_MIN:
            continue
        unknown = [table.name for table in facts.tables if _was_never_analysed(table)]
        # Without a condition or a join there is one plan only.
        has_choice = len(facts.tables) > 1 or any(table.columns for table in facts.tables)
        if not unknown or not has_choice:
            continue
        text, names = short_text(known.texts.get(query, "")), _listed(unknown)
        has = f"{names} {'has' if len(unknown) == 1 else 'have'}"
        yield IncidentFinding(
            kind="no statistics",
            said=f"{text}: {has} no statistics for the planner, as after an upgrade or a restore",
            cost=f"{compact_ms(counts['ms'])} ms a call, {counts['blocks']:,.0f} blocks; "
            + cost_words(lost_s, evidence).replace(" lost", ""),
            lost_s=lost_s,
            share_ratio=share,
            next_step=f"ANALYZE {names}; after an upgrade, vacuumdb --all --analyze-in-stages",
            answer=f"{text} takes {percent(share)} of DB time: {has} no statistics",
            evidence={"query_id": str(query), "tables": unknown},
        )
        return


def _was_never_analysed(table: TableFacts) -> bool:
    # -1: not known; before 14 a table without pages and rows.
    return table.rows_count < 0 or (table.rows_count == 0 and table.pages_count == 0)


def _is_dead(seen: SeenRows) -> bool:
    dead, live = number(seen.last, "rows_dead"), number(seen.last, "rows_live")
    return dead >= max(_DEAD_MIN, live)


def _rows(rows: float) -> str:
    return "1 row" if 0.5 <= rows < 1.5 else f"{rows:,.0f} rows"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _name(seen: SeenRows) -> str:
    return sql_name(str(seen.last["schema"]), str(seen.last["table"]))
