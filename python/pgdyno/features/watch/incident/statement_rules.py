"""Findings about statements that read many rows and need few: an index is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgdyno.features.watch.incident.evidence import IncidentEvidence, SeenRows, number
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.incident.lock_rules import cost_words
from pgdyno.features.watch.incident.shapes import RANDOM
from pgdyno.features.watch.incident.table_facts import (
    ColumnFacts,
    StatementFacts,
    TableFacts,
)
from pgdyno.quantities import compact_ms, counted, percent, plain, seconds

_SHARE_MIN = 0.05
_READ_MIN = 1_000
_USEFUL_RATIO_MAX = 0.05
# Of DB time, if it is not known how many rows are needed: a report may sum most of them.
_SHARE_UNKNOWN_MIN = 0.25
# A statement that reads at least this share of a table's pages in a call reads the table whole.
_WHOLE_RATIO = 0.5
# Of each call; the counts of a table and those of its statements are of other moments.
_COUNTED_RATIO = 0.2
MISSING, UNUSED, NONE_HELPS = "index missing", "index not used", "no plain index helps"
_ASKED_MAX = 10
_ALWAYS_ASKED = 3
# Index entries of a block, at most about; and the fewest blocks of an index that is read whole.
_ENTRIES_EACH, _WALKED_MIN = 500, 50
# A list of parameters, of which the text may have the begin only.
_LIST = re.compile(r"\(\s*\$\d+(?:\s*,\s*\$\d+)*\s*,?\s*(?:\)|$|…)")
# A call that reads this many times the blocks of the average call has another plan.
_LATELY_RATIO = 1.5
_TEXT_WIDTH = 78
EXPLAIN_STEP = "EXPLAIN (ANALYZE, BUFFERS) the statement with its values"
# A table has this number of times as many dead rows as live ones, and they are many.
_DEAD_TIMES, _DEAD_MIN = 4, 10_000
# A value is rare if an average one finds this number of times its rows.
_RARE = 20


@dataclass(frozen=True, slots=True)
class KnownStatements:
    """What is known of statements after a watch: texts and the facts of their tables.

    `counts_statements`: pg_stat_statements is in the database. None before this was asked.
    `wal_free_bytes`: of the disk of pg_wal; None if not known.
    """

    texts: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[int, StatementFacts] = field(default_factory=dict)
    counts_statements: bool | None = None
    wal_free_bytes: int | None = None
    is_standby: bool = False


def worth_asking(evidence: IncidentEvidence) -> list[int]:
    """Return the query ids of statements with much DB time outside of locks, largest first.

    The three largest count always: they may stand for many that differ by a list's length only.
    """
    times = {query: time_of(evidence, query) for query in list(evidence.tally.total.by_statement)}
    ranked = sorted((query for query in times if query), key=lambda query: -times[query][0])
    return [
        query
        for rank, query in enumerate(ranked[:_ASKED_MAX])
        if times[query][1] >= _SHARE_MIN or (rank < _ALWAYS_ASKED and times[query][1] > 0)
    ]


def time_of_alike(
    evidence: IncidentEvidence, known: KnownStatements, query: int
) -> tuple[float, float, int]:
    """Return what `time_of` returns, of all statements with the same text but for lists.

    Before 18, lists of different lengths are different statements. The third value is their number.
    """
    text = _LIST.sub("(...)", known.texts.get(query, ""))
    alike = [other for other, words in known.texts.items() if _LIST.sub("(...)", words) == text]
    counted = [
        time_of(evidence, other)
        for other in (alike if text else [query])
        if other in evidence.tally.total.by_statement
    ]
    lost_s, share = (sum(parts) for parts in zip(*counted, strict=True))
    return lost_s, share, len(counted)


def busy_tables(evidence: IncidentEvidence) -> dict[str, list[str]]:
    """Return table name -> schemas of the tables that were read, most rows first."""
    schemas: dict[str, list[str]] = {}
    seen = sorted(evidence.seen("tables").items(), key=lambda item: -item[1].grown("seq_rows"))
    for (schema, table), _ in seen:
        schemas.setdefault(table, []).append(schema)
    return schemas


def reading_in_vain(
    evidence: IncidentEvidence, known: KnownStatements
) -> Iterator[IncidentFinding]:
    """Yield a finding for each statement that reads a table whole and needs a small part of it."""
    said: set[str] = set()
    for query in worth_asking(evidence) if known.facts else ():
        facts, text = known.facts.get(query), _LIST.sub("(...)", known.texts.get(query, ""))
        if text in said or time_of_alike(evidence, known, query)[1] < _SHARE_MIN:
            continue
        counts = counts_of(evidence, query)
        if facts is None or counts is None:
            continue
        for table in facts.tables:
            finding = _in_vain(evidence, known, query, facts, table, counts)
            if finding is not None:
                said.add(text)
                yield finding
                break


def time_of(evidence: IncidentEvidence, query: int) -> tuple[float, float]:
    """Return session-seconds of a statement outside of lock waits, and their share of DB time."""
    events = dict(evidence.tally.total.by_statement.get(query, {}))
    seen = sum(count for event, count in events.items() if not event.startswith("Lock:"))
    whole = evidence.tally.total.by_event.total()
    share = seen / whole if whole else 0.0
    return share * evidence.db_time_s, share


def counts_of(
    evidence: IncidentEvidence, query: int, *, lately: bool = False
) -> dict[str, float] | None:
    """Return what one call does on average, the calls and their time; None if none was counted.

    If a call reads much more between the last two samples than before, its plan may have changed:
    then these calls are judged alone.
    """
    of_statement = [
        seen for (_, query_id), seen in evidence.seen("statements").items() if query_id == query
    ]
    calls = sum(seen.grown("calls", lately=lately) for seen in of_statement)
    if not calls:
        return None

    def each(*columns: str) -> float:
        sums = (seen.grown(column, lately=lately) for seen in of_statement for column in columns)
        return sum(sums) / calls

    counts = {
        "calls": calls,
        "counted_s": max(seen.grown("time_ns", lately=lately) for seen in of_statement) / 1e9,
        "ms": each("exec_time_ns") / 1e6,
        "rows": each("rows"),
        "blocks": each("shared_blks_hit", "shared_blks_read"),
        "jit_ms": each("jit_time_ns") / 1e6,
    }
    recent = None if lately else counts_of(evidence, query, lately=True)
    if recent is not None and recent["blocks"] >= max(_LATELY_RATIO * counts["blocks"], 1):
        return recent | {"ms_before": counts["ms"]}
    return counts


def _in_vain(
    evidence: IncidentEvidence,
    known: KnownStatements,
    query: int,
    facts: StatementFacts,
    table: TableFacts,
    counts: Mapping[str, float],
) -> IncidentFinding | None:
    size, pages = size_of(evidence, table)
    # The table's own counter says that its rows were read without an index.
    is_read = grown_of(evidence, table, "seq_rows") >= size * max(
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
    read = size * times if is_whole and times >= 1.5 else size
    invalid = _invalid_index(evidence, table.name)
    left = _rows_left(evidence, facts, table, counts)
    reasons = (
        reason
        for reason in _reasons(facts, table, counts, size, left, invalid)
        if is_whole or reason.kind in (NONE_HELPS, MISSING)
    )
    if is_mostly_dead(seen_of(evidence, table)):
        return None  # Another rule says so.
    reason = next(
        (made for made in reasons if not made.needed_count > _USEFUL_RATIO_MAX * read), None
    )
    lost_s, share, alike = time_of_alike(evidence, known, query)
    if reason is None:
        return None
    if (is_unknown := math.isnan(reason.needed_count)) and share < _SHARE_UNKNOWN_MIN:
        return None
    if reason.kind == UNUSED:
        reason = _steered(reason, facts, sender_of(evidence, query))
    text = " ".join(known.texts.get(query, "").split()) or f"query {query}"
    what = "rows" if is_whole else "index entries"
    needed = _needed_words(reason, counts["rows"], sums=facts.parts.sums)
    reads = f"reads {read:,.0f} {what} of {table.name} for {needed}"
    return IncidentFinding(
        kind=reason.kind,
        said=f"{text}: {reads}",
        cost=f"{compact_ms(counts['ms'])} ms a call{_lately(counts)}, {calls_words(counts)}"
        f"{f', one of {alike} statements that differ in the length of lists' * (alike > 1)}; "
        + cost_words(lost_s, evidence).replace(" lost", ""),
        lost_s=lost_s,
        share_ratio=share,
        lines=(reason.why,),
        next_step=table.step(reason.next_step),
        answer=f"{short_text(text)} takes {percent(share)} of DB time: it {reads}",
        evidence={
            "query_id": str(query),
            "table": f"{table.schema}.{table.table}",
            "columns": [reason.column],
            "rows_read": read,
            "rows_needed": None if is_unknown else reason.needed_count,
            "ms_per_call": counts["ms"],
            "calls": counts["calls"],
            "index": reason.index,
        },
    )


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
        size, _ = size_of(evidence, other)
        if other is not table and grown_of(evidence, other, "seq_rows") < size:
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


def seen_of(evidence: IncidentEvidence, table: TableFacts) -> list[SeenRows]:
    """Return what was seen of a table, or of its partitions."""
    seen = evidence.seen("tables")
    names = table.parts or ((table.schema, table.table),)
    return [seen[name] for name in names if name in seen]


def grown_of(evidence: IncidentEvidence, table: TableFacts, column: str) -> float:
    """Return by how much a counter of a table grew."""
    return sum(seen.grown(column) for seen in seen_of(evidence, table))


def is_mostly_dead(seen: Sequence[SeenRows]) -> bool:
    """Return whether dead rows are the reason for which reading a table takes long."""
    dead, live = (
        sum(number(rows.last, name) for rows in seen) for name in ("rows_dead", "rows_live")
    )
    return dead >= max(_DEAD_MIN, _DEAD_TIMES * live)


def triggers_of(facts: StatementFacts | None) -> str:
    """Return "trigger a of t" for the triggers of the table that a statement changes, or ""."""
    table = facts.written if facts else None
    if table is None or not table.triggers:
        return ""
    names = "triggers" if len(table.triggers) > 1 else "trigger"
    return f"{names} {', '.join(table.triggers)} of {table.name}"


def size_of(evidence: IncidentEvidence, table: TableFacts) -> tuple[float, float]:
    """Return rows and pages; the statistics views know rows before the first ANALYZE."""
    seen = seen_of(evidence, table)
    live = sum(number(rows.last, "rows_live") for rows in seen)
    return max(live, table.rows_count, 0.0), float(table.pages_count)


def calls_words(counts: Mapping[str, float]) -> str:
    """Return "51 calls/s", or "3 calls in 20 s" of rare ones."""
    rate = counts["calls"] / max(counts["counted_s"], 1e-9)
    if rate >= 1:
        return f"{plain(rate, 2)} calls/s"
    return f"{counts['calls']:,.0f} calls in {seconds(round(counts['counted_s']))}"


def short_text(text: str) -> str:
    """Return a statement, cut to the width of a line."""
    return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"


def senders_of(evidence: IncidentEvidence, query: str) -> Iterator[str]:
    """Yield who sends a statement, those with most sessions first."""
    names = [
        f"{application or 'a session without a name'} (role {role})"
        for application, role in _senders(evidence, query)
    ]
    if names:
        more = f" and {counted(len(names) - 2, 'other application')}" if len(names) > 2 else ""
        yield f"sent by {' and '.join(names[:2])}" + more


def sender_of(evidence: IncidentEvidence, query: int) -> tuple[str, str] | None:
    """Return the application and role from which most sessions send a statement, if known."""
    return next(iter(_senders(evidence, str(query))), None)


def _senders(evidence: IncidentEvidence, query: str) -> list[tuple[str, str]]:
    seen = [
        (number(rows.last, "count"), application, role)
        for (query_id, application, role), rows in evidence.seen("senders").items()
        if str(query_id) == query
    ]
    return [(application, role) for _, application, role in sorted(seen, reverse=True)]
