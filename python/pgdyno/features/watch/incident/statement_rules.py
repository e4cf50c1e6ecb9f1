"""Findings about statements that read many rows and need few: an index is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.features.watch.incident import known_statements as statements
from pgdyno.features.watch.incident.evidence import IncidentEvidence, SeenRows, number
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.incident.known_statements import (
    EXPLAIN_STEP,
    JudgedStatement,
    KnownStatements,
)
from pgdyno.features.watch.incident.shapes import RANDOM
from pgdyno.features.watch.incident.table_facts import ColumnFacts, StatementFacts, TableFacts
from pgdyno.quantities import compact_ms, percent, plain

_READ_MIN = 1_000
_USEFUL_RATIO_MAX = 0.05
# Of DB time, if it is not known how many rows are needed: a report may sum most of them.
_SHARE_UNKNOWN_MIN = 0.25
# A statement that reads at least this share of a table's pages in a call reads the table whole.
_WHOLE_RATIO = 0.5
# Of each call; the counts of a table and those of its statements are of other moments.
_COUNTED_RATIO = 0.2
MISSING, UNUSED, NONE_HELPS = "index missing", "index not used", "no plain index helps"
# Index entries of a block, at most about; and the fewest blocks of an index that is read whole.
_ENTRIES_EACH, _WALKED_MIN = 500, 50
# A table has this number of times as many dead rows as live ones, and they are many.
_DEAD_TIMES, _DEAD_MIN = 4, 10_000
# A value is rare if an average one finds this number of times its rows.
_RARE = 20


def reading_in_vain(
    evidence: IncidentEvidence, known: KnownStatements
) -> Iterator[IncidentFinding]:
    """Yield a finding for each statement that reads a table whole and needs a small part of it."""
    said: set[str] = set()
    for statement in statements.judged_statements(evidence, known) if known.facts else ():
        text = statements.without_lists(statement.text)
        whole = statements.time_of_alike(evidence, known, statement.query_id)
        if text in said or whole[1] < statements.SHARE_MIN or not statement.counts:
            continue
        lost_s, share, alike_count = whole
        whole_statement = replace(statement, lost_s=lost_s, share_ratio=share)
        for table in statement.facts.tables if statement.facts else ():
            if finding := _in_vain(whole_statement, table, alike_count):
                said.add(text)
                yield finding
                break


def _in_vain(
    statement: JudgedStatement, table: TableFacts, alike_count: int
) -> IncidentFinding | None:
    evidence, facts, counts = statement.evidence, statement.facts, statement.counts
    assert facts is not None, "it has a table"
    assert counts is not None, "it was called"
    size, pages = statements.size_of(evidence, table)
    # The table's own counter says that its rows were read without an index.
    is_read = statements.grown_of(evidence, table, "seq_rows") >= size * max(
        _WHOLE_RATIO, _COUNTED_RATIO * counts["calls"]
    )
    times = counts["blocks"] / max(pages, 1)
    is_whole = is_read and times >= _WHOLE_RATIO
    # Or all entries of an index, because its order does not help.
    is_walked = (
        _entries_of(evidence, table) >= _WHOLE_RATIO * size * counts["calls"]
        # Other statements read entries, too.
        and counts["blocks"] >= max(size / _ENTRIES_EACH, _WALKED_MIN)
    )
    if not (is_whole or is_walked) or size < _READ_MIN:
        return None
    if _is_mostly_dead(statements.seen_of(evidence, table)):
        return None  # Another rule says so.
    read = size * times if is_whole and times >= 1.5 else size
    invalid = _invalid_index(evidence, table.name)
    left = _rows_left(evidence, facts, table, counts)
    reasons = (
        reason
        for reason in _reasons(facts, table, counts, size, left, invalid)
        if is_whole or reason.kind in (NONE_HELPS, MISSING)
    )
    reason = next(
        (made for made in reasons if not made.needed_count > _USEFUL_RATIO_MAX * read), None
    )
    if reason is None:
        return None
    is_unknown = math.isnan(reason.needed_count)
    if is_unknown and statement.share_ratio < _SHARE_UNKNOWN_MIN:
        return None
    if reason.kind == UNUSED:
        reason = _steered(reason, facts, statements.sender_of(evidence, statement.query_id))
    what = "rows" if is_whole else "index entries"
    needed = _needed_words(reason, counts["rows"], sums=facts.parts.sums)
    reads = f"reads {read:,.0f} {what} of {table.name} for {needed}"
    calls = f"{compact_ms(counts['ms'])} ms a call{_lately(counts)}"
    calls += f", {statements.calls_words(counts)}"
    if alike_count > 1:
        calls += f", one of {alike_count} statements that differ in the length of lists"
    finding = statement.finding(
        reason.kind,
        reads,
        table.step(reason.next_step),
        answer=f"it {reads}",
        about_calls=calls,
        lines=(reason.why,),
        table=f"{table.schema}.{table.table}",
        columns=[reason.column],
        rows_read=read,
        rows_needed=None if is_unknown else reason.needed_count,
        ms_per_call=counts["ms"],
        calls=counts["calls"],
        index=reason.index,
    )
    return replace(finding, said=f"{statement.text or f'query {statement.query_id}'}: {reads}")


def _needed_words(reason: WholeReason, rows: float, *, sums: bool) -> str:
    if math.isnan(reason.needed_count):
        return f"those with one value of {reason.column} (how many is not known)"
    if sums and reason.needed_count != rows:
        # What is summed is not counted: the planner's estimate remains.
        return f"about {plain(max(reason.needed_count, 0), 1)} that it sums (estimate)"
    return f"{rows:,.0f}"


@dataclass(frozen=True, slots=True)
class WholeReason:
    """Why a table is read whole. `needed_count`: rows that a call needs, NaN if not known.

    `column`, `index`: "" without one.
    """

    needed_count: float
    kind: str
    why: str
    next_step: str
    column: str = ""
    index: str = ""


def _reasons(
    facts: StatementFacts,
    table: TableFacts,
    counts: Mapping[str, float],
    size: float,
    left: float | None,
    invalid: str,
) -> Iterator[WholeReason]:
    """Yield what may be the reason for reading a table whole, the most certain one first."""
    parts = facts.parts
    shapes = sorted(table.shapes, key=lambda shape: not shape.shape.meaning.is_of_statement)
    columns = [
        (needed, column)
        for column in table.columns
        if (needed := _needed(facts, column, counts, size, left)) is not None
        and not (column.index and (column.condition.is_join or table.table in parts.repeated))
    ]
    columns.sort(
        key=lambda pair: (
            not _is_choosing(pair[1]),
            pair[0],
            bool(pair[1].index),
            pair[1].expected_ratio or 1.0,
        )
    )
    of_columns = [
        WholeReason(
            needed,
            UNUSED if column.index else MISSING,
            *_why(table, column, needed, invalid),
            column.condition.indexed,
            column.index,
        )
        for needed, column in columns
    ]
    of_shapes = [
        WholeReason(
            counts["rows"],
            NONE_HELPS,
            *shape.shape.words(table.name, shape.index),
            shape.shape.column,
            shape.index,
        )
        for shape in shapes
        if not (parts.sums or parts.skips) or shape.shape.meaning is RANDOM
    ]
    is_of_statement = any(shape.shape.meaning.is_of_statement for shape in shapes)
    if not is_of_statement and columns and _is_choosing(columns[0][1]):
        yield of_columns[0]
    yield from of_shapes
    yield from of_columns
    if parts.sums:
        yield from _of_unknown_columns(table, invalid)
    first_of = table.first_of
    if first_of is not None and not first_of.index and len(parts.tables) == 1:
        why, step = _why_first(table, first_of)
        name = first_of.condition.indexed
        yield WholeReason(counts["rows"], MISSING, why, step, name)
    if parts.needs_what_it_returns and len(parts.tables) == 1:
        why = "no condition is known for which an index would help"
        yield WholeReason(counts["rows"], "much is read for few rows", why, EXPLAIN_STEP)


def _of_unknown_columns(table: TableFacts, invalid: str) -> Iterator[WholeReason]:
    """Yield a reason for columns without statistics: the role may not read their table."""
    for column in table.columns:
        condition = column.condition
        is_of_one_value = condition.operator == "=" and not (condition.is_join or column.index)
        if column.expected_ratio is None and is_of_one_value and not condition.predicate:
            why, step = _why(table, column, math.nan, invalid)
            why += f"; with GRANT SELECT ON {table.name} to this role, the rows would be estimated"
            yield WholeReason(math.nan, MISSING, why, step, condition.indexed)


def _steered(
    reason: WholeReason, facts: StatementFacts, sender: tuple[str, str] | None
) -> WholeReason:
    """Return the reason with the settings of its sender that keep the planner from the index."""
    role = sender[1] if sender else ""
    kept = [row for row in facts.steered if not (row[0] and role) or row[0] == role]
    if not kept:
        return reason
    who = f"role {kept[-1][0]}" if kept[-1][0] else "every session"
    names = ", ".join(setting for _, setting, _ in kept)
    undo = "; ".join(step for _, _, step in kept)
    return replace(
        reason,
        why=f"index {reason.index} is not used: hypothesis, {who} has {names}",
        next_step=f"{undo}; sessions have it after they connect again",
    )


def _is_choosing(column: ColumnFacts) -> bool:
    """Return whether an index on this column would find few rows, and does not exist."""
    return not column.index and (column.expected_ratio or 1.0) <= _USEFUL_RATIO_MAX


def _needed(
    facts: StatementFacts,
    column: ColumnFacts,
    counts: Mapping[str, float],
    size: float,
    left: float | None,
) -> float | None:
    """Return how many rows of a table a call needs, if this condition chooses them.

    Args: left, rows of other tables for each of which the table is asked.
    """
    condition, ratio = column.condition, column.expected_ratio
    if condition.is_join:
        return None if left is None else left * max(1.0, (ratio or 0.0) * size)
    if facts.parts.returns_what_it_finds and len(facts.parts.tables) == 1:
        return counts["rows"]
    return None if ratio is None else min(1.0, ratio * (condition.values or 1)) * size


def _rows_left(
    evidence: IncidentEvidence,
    facts: StatementFacts,
    table: TableFacts,
    counts: Mapping[str, float],
) -> float | None:
    """Return how many rows of the other tables the conditions leave in a call; None if unknown."""
    left = [counts["rows"]] if facts.parts.returns_what_it_finds else []
    for other in facts.tables:
        if other is table and table.table not in facts.parts.repeated:
            continue
        left += [
            column.expected_ratio * (column.condition.values or 1) * other.rows_count
            for column in other.columns
            if column.expected_ratio and not column.condition.is_join
        ]
        size, _ = statements.size_of(evidence, other)
        if other is not table and statements.grown_of(evidence, other, "seq_rows") < size:
            # Its rows came by an index.
            left.append(_entries_of(evidence, other) / counts["calls"])
    return min(left, default=None)


def _entries_of(evidence: IncidentEvidence, table: TableFacts) -> float:
    """Return how many entries were read in the indexes of a table."""
    return sum(
        seen.grown("entries_read")
        for (schema, name, _), seen in evidence.seen("indexes").items()
        if (schema, name) in (table.parts or ((table.schema, table.table),))
    )


def _why_first(table: TableFacts, first_of: ColumnFacts) -> tuple[str, str]:
    name = first_of.condition.indexed
    return (
        f"it needs the first rows in the order of {name}, and no index begins with that column: all"
        " rows are read and sorted",
        f"CREATE INDEX CONCURRENTLY ON {table.name} ({_together(table, name)}), on a copy first",
    )


def _together(table: TableFacts, last: str = "") -> str:
    """Return the columns of one index for all conditions with a value: equality comes first."""
    conditions = [
        column.condition
        for column in table.columns
        if not column.condition.is_join and not column.condition.predicate
    ]
    names = [condition.indexed for condition in conditions if condition.operator == "="]
    others = [condition.indexed for condition in conditions if condition.operator != "="]
    return ", ".join(dict.fromkeys((*names, *([last] if last else others[:1]))))


def _lately(counts: Mapping[str, float]) -> str:
    if "ms_before" not in counts:
        return ""
    return f" in the last seconds ({compact_ms(counts['ms_before'])} over the whole watch)"


def _invalid_index(evidence: IncidentEvidence, table: str) -> str:
    """Return the name of an index of a table that is not valid, or ""."""
    for seen in evidence.now("objects"):
        name, _, of_table = str(seen.last["object"]).partition(" on ")
        is_here = of_table.removeprefix("public.") == table
        if is_here and seen.last["kind"] == "index that is not valid":
            return name
    return ""


def _why(
    table: TableFacts, column: ColumnFacts, useful: float, invalid: str = ""
) -> tuple[str, str]:
    where = f"{table.name}({column.condition.indexed})"
    expects = ""
    if column.how == "EXPLAIN" and column.expected_ratio is not None:
        expected = column.expected_ratio * table.rows_count
        expects = f"; EXPLAIN: {column.node}, {expected:,.0f} rows expected for one value"
    elif column.expected_ratio is not None:
        expects = f"; statistics: {percent(column.expected_ratio)} of the rows have one value"
    if column.index and (column.expected_ratio or 0.0) * table.rows_count >= _RARE * max(useful, 1):
        return (
            f"index {column.index} begins with {where} and is not used: hypothesis, a prepared"
            f" statement keeps one plan for all values, and this value is rare{expects}",
            "plan_cache_mode = force_custom_plan for its role; or no prepared statement for it",
        )
    if column.index and "Index" in column.node:
        return (
            f"index {column.index} begins with {where} and is not used, but the planner would use"
            f" it: hypothesis, the value has another type than the column{expects}",
            f"see in the application which type it sends, such as numeric for an integer;"
            f" else ANALYZE {table.name}",
        )
    if column.index:
        return (
            f"index {column.index} begins with {where} and is not used: hypothesis, statistics or"
            f" settings mislead the planner{expects}",
            f"ANALYZE {table.name}; then EXPLAIN the statement with its values",
        )
    if invalid:
        return (
            f"no valid index begins with {where}; index {invalid} is not valid, so no statement"
            f" uses it{expects}",
            f"if pg_stat_progress_create_index does not show it, its creation failed: REINDEX INDEX"
            f" CONCURRENTLY {invalid}, on a copy first",
        )
    if predicate := column.condition.predicate:
        return (
            f"it looks for the rows with {predicate}, and no index has them alone{expects}",
            f"CREATE INDEX CONCURRENTLY ON {table.name} ({column.condition.indexed})"
            f" WHERE {predicate}, on a copy first",
        )
    names = column.condition.indexed
    if not column.condition.is_join and (column.expected_ratio or 0.0) > _USEFUL_RATIO_MAX:
        names = _together(table)  # None of them is enough alone.
    return (
        f"no index begins with {where}: hypothesis{expects}",
        f"CREATE INDEX CONCURRENTLY ON {table.name} ({names}), on a copy first",
    )


def _is_mostly_dead(seen: Sequence[SeenRows]) -> bool:
    """Return whether dead rows are the reason for which reading a table takes long."""
    dead, live = (
        sum(number(rows.last, name) for rows in seen) for name in ("rows_dead", "rows_live")
    )
    return dead >= max(_DEAD_MIN, _DEAD_TIMES * live)
