"""What the counters and samples of a watch tell of single statements, and of their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.features.watch.incident.evidence import IncidentEvidence, SeenRows, number
from pgdyno.features.watch.incident.finding import Danger, IncidentFinding
from pgdyno.features.watch.incident.table_facts import StatementFacts, TableFacts
from pgdyno.quantities import compact_ms, counted, percent, plain, seconds

SHARE_MIN = 0.05
_ASKED_MAX = 10
_ALWAYS_ASKED = 3
# A list of parameters, of which the text may have the begin only.
_LIST = re.compile(r"\(\s*\$\d+(?:\s*,\s*\$\d+)*\s*,?\s*(?:\)|$|…)")
# A call that reads this number of times the blocks of the average call has another plan.
_LATELY_RATIO = 1.5
_TEXT_WIDTH = 78
EXPLAIN_STEP = "EXPLAIN (ANALYZE, BUFFERS) the statement with its values"


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


@dataclass(frozen=True, slots=True)
class JudgedStatement:
    """A statement with much DB time, and all that is known of it.

    `lost_s`, `share_ratio`: as `time_of`. `counts`: as `counts_of`. `facts`: of its tables.
    """

    query_id: int
    text: str
    lost_s: float
    share_ratio: float
    counts: Mapping[str, float] | None
    facts: StatementFacts | None
    evidence: IncidentEvidence

    @property
    def name(self) -> str:
        """Return its text, cut to the width of a line."""
        return short_text(self.text)

    def finding(
        self,
        kind: str,
        says: str,
        next_step: str,
        *,
        answer: str = "",
        about_calls: str = "",
        lines: tuple[str, ...] = (),
        danger: Danger = Danger.COSTS,
        **numbers: Any,
    ) -> IncidentFinding:
        """Return the finding that this statement `says`, with what a call and all calls cost.

        Args: answer, what the sentence of the watch says instead; about_calls, how long
        they take and how many there are; numbers, for programs.
        """
        counts = self.counts or {}
        calls = about_calls or f"{compact_ms(counts['ms'])} ms a call, {calls_words(counts)}"
        return IncidentFinding(
            kind=kind,
            said=f"{self.name}: {says}",
            cost=f"{calls}; {self.evidence.cost_words(self.lost_s).replace(' lost', '')}",
            lost_s=self.lost_s,
            lines=lines,
            next_step=next_step,
            danger=danger,
            answer=f"{self.name} takes {percent(self.share_ratio)} of DB time: {answer or says}",
            evidence={"query_id": str(self.query_id), **numbers},
        )


def judged_statements(
    evidence: IncidentEvidence, known: KnownStatements
) -> Iterator[JudgedStatement]:
    """Yield the statements that are worth asking about, largest DB time first."""
    for query in worth_asking(evidence):
        text = " ".join(known.texts.get(query, "").split())
        counts, facts = counts_of(evidence, query), known.facts.get(query)
        yield JudgedStatement(query, text, *time_of(evidence, query), counts, facts, evidence)


def worth_asking(evidence: IncidentEvidence) -> list[int]:
    """Return the query ids of statements with much DB time outside of locks, largest first.

    The three largest count always: they may stand for many that differ by a list's length only.
    """
    times = {query: time_of(evidence, query) for query in list(evidence.tally.total.by_statement)}
    ranked = sorted((query for query in times if query), key=lambda query: -times[query][0])
    return [
        query
        for rank, query in enumerate(ranked[:_ASKED_MAX])
        if times[query][1] >= SHARE_MIN or (rank < _ALWAYS_ASKED and times[query][1] > 0)
    ]


def time_of_alike(
    evidence: IncidentEvidence, known: KnownStatements, query: int
) -> tuple[float, float, int]:
    """Return what `time_of` returns, of all statements with the same text but for lists.

    Before 18, lists of different lengths are different statements. The third value is their number.
    """
    text = without_lists(known.texts.get(query, ""))
    alike = [other for other, words in known.texts.items() if without_lists(words) == text]
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


def without_lists(text: str) -> str:
    """Return a text in which lists of parameters have no length."""
    return _LIST.sub("(...)", text)


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


def seen_of(evidence: IncidentEvidence, table: TableFacts) -> list[SeenRows]:
    """Return what was seen of a table, or of its partitions."""
    seen = evidence.seen("tables")
    names = table.parts or ((table.schema, table.table),)
    return [seen[name] for name in names if name in seen]


def grown_of(evidence: IncidentEvidence, table: TableFacts, column: str) -> float:
    """Return by how much a counter of a table grew."""
    return sum(seen.grown(column) for seen in seen_of(evidence, table))


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
