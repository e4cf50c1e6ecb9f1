"""All rules about the evidence of a watch, and the findings that its answer shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pgdyno.features.watch.incident import (
    activity_rules,
    call_rules,
    holding_rules,
    lock_rules,
    reading_rules,
    server_rules,
    statement_rules,
    wait_rules,
)
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import (
    SHOWN_MAX,
    IncidentFinding,
    clock_text,
    in_order,
)
from pgdyno.features.watch.incident.known_statements import KnownStatements, senders_of
from pgdyno.quantities import seconds

# Counters need two samples, of which some have 10 s between them.
_FIRST_S = 12.0
# A setting of the system is that of each server.
_WRITING = re.compile(r"(?<!\()\b(CREATE (?!EXT)|VACUUM|ANALYZE|REINDEX|DROP|ALTER (?!SYSTEM))")

RULES: tuple[Callable[[IncidentEvidence], Iterator[IncidentFinding]], ...] = (
    server_rules.hidden_sessions,
    lock_rules.blockers,
    lock_rules.contention,
    holding_rules.long_holders,
    holding_rules.vacuum_behind,
    holding_rules.wraparound,
    server_rules.connections,
    server_rules.own_limits,
    server_rules.manual_checkpoints,
    server_rules.slot_wal,
    server_rules.archiver,
    server_rules.standbys,
    server_rules.conflicts,
    server_rules.pools,
    call_rules.long_statements,
    activity_rules.errors,
    activity_rules.crash,
    activity_rules.deadlocks,
    activity_rules.connection_storm,
    activity_rules.idle_inside,
    activity_rules.number_series,
)

# Rules that also use what is known of statements.
STATEMENT_RULES: tuple[
    Callable[[IncidentEvidence, KnownStatements], Iterator[IncidentFinding]], ...
] = (
    reading_rules.compiled,
    statement_rules.reading_in_vain,
    reading_rules.no_statistics,
    reading_rules.read_whole,
    # The last: others know the reason.
    reading_rules.much_for_little,
    call_rules.slow_calls,
    call_rules.full_cores,
)


def findings_of(
    evidence: IncidentEvidence, known: KnownStatements | None = None
) -> list[IncidentFinding]:
    """Return at most five findings, those with the most lost time first."""
    return all_findings(evidence, known)[:SHOWN_MAX]


def all_findings(
    evidence: IncidentEvidence, known: KnownStatements | None = None
) -> list[IncidentFinding]:
    """Return all findings, those with the most lost time first."""
    known = known or KnownStatements()
    with evidence.lock:
        findings = [finding for rule in RULES for finding in rule(evidence)]
        findings += server_rules.forced_checkpoints(evidence, known)
        findings += server_rules.spills(evidence, known)
        of_statements = list(_of_statements(evidence, known))
        findings += _with_waits(of_statements, list(wait_rules.waits(evidence, known)))
        if known.is_standby:
            findings = [_on_primary(finding) for finding in findings]
        return in_order(_completed(finding, evidence) for finding in findings)


def _on_primary(finding: IncidentFinding) -> IncidentFinding:
    """Return the finding with the place where its step works: a standby writes nothing."""
    if not _WRITING.search(finding.next_step):
        return finding
    return replace(finding, next_step=f"on the primary: {finding.next_step}")


def _with_waits(
    of_statements: Sequence[IncidentFinding], waits: Sequence[IncidentFinding]
) -> Iterator[IncidentFinding]:
    """Yield the findings; a wait that a statement with a finding explains is a line of it."""
    parts: dict[str, tuple[str, ...]] = {}
    known = {str(finding.evidence.get("query_id") or "") for finding in of_statements} - {""}
    for wait in waits:
        query = str(wait.evidence.get("query_id") or "")
        if query in known:
            parts[query] = (*parts.get(query, ()), f"so {wait.said}")
        # A statement that reads too much explains the reads.
        elif wait.kind != wait_rules.READS or not of_statements:
            yield wait
    for finding in of_statements:
        more = parts.get(str(finding.evidence.get("query_id") or ""), ())
        yield replace(finding, lines=(*finding.lines, *more))


def _of_statements(evidence: IncidentEvidence, known: KnownStatements) -> Iterable[IncidentFinding]:
    """Return one finding for a statement: of the first rule that has one."""
    by_statement: dict[str, IncidentFinding] = {}
    for rule in STATEMENT_RULES:
        for finding in rule(evidence, known):
            query = str(finding.evidence.get("query_id") or "")
            lines = (*finding.lines, *senders_of(evidence, query))
            by_statement.setdefault(query or finding.said, replace(finding, lines=lines))
    return by_statement.values()


def _completed(finding: IncidentFinding, evidence: IncidentEvidence) -> IncidentFinding:
    """Add the answer, the share of DB time, and since when it is seen, if the rule did not."""
    share = evidence.share(finding.lost_s) if finding.lost_s else None
    finding = replace(finding, answer=finding.answer or finding.said, share_ratio=share)
    if finding.since_s is not None:
        return finding
    query = str(finding.evidence.get("query_id") or "")
    # Texts of statements are read at the end, but samples have the statements from the begin.
    after_s = (
        evidence.tally.stretches.first_seen_ratio(query) * evidence.seconds
        if query
        else evidence.noted_after_s(finding.subject)
    )
    seen_s = max(0.0, evidence.seconds - after_s)
    words = f"seen for {seconds(round(seen_s))}"
    since_s: float | None = seen_s
    if after_s <= _FIRST_S:
        noted_ns = evidence.ended_ns - int(seen_s * 1e9)
        words, since_s = f"began before {clock_text(noted_ns, evidence.ended_ns)}", None
    elif round(seen_s) < 1:
        words = "seen at the end of this watch"
    return replace(finding, since_s=since_s, cost="; ".join(filter(None, (finding.cost, words))))
