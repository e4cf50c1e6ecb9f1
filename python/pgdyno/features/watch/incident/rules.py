"""All rules, and the list of findings that text, page, document and live lines show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pgdyno.features.watch.incident import (
    activity_rules,
    holding_rules,
    lock_rules,
    reading_rules,
    server_rules,
)
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import SHOWN_MAX, IncidentFinding, in_order
from pgdyno.features.watch.incident.statement_rules import (
    KnownStatements,
    reading_in_vain,
)

RULES: tuple[Callable[[IncidentEvidence], Iterator[IncidentFinding]], ...] = (
    lock_rules.blockers,
    lock_rules.contention,
    holding_rules.long_holders,
    holding_rules.vacuum_behind,
    holding_rules.wraparound,
    server_rules.connections,
    server_rules.own_limits,
    server_rules.forced_checkpoints,
    server_rules.slot_wal,
    server_rules.archiver,
    server_rules.standbys,
    server_rules.spills,
    activity_rules.errors,
    activity_rules.crash,
    activity_rules.deadlocks,
    activity_rules.connection_storm,
    activity_rules.inside,
    activity_rules.number_series,
)

# Rules that also use what is known of statements.
STATEMENT_RULES: tuple[
    Callable[[IncidentEvidence, KnownStatements], Iterator[IncidentFinding]], ...
] = (
    reading_in_vain,
    reading_rules.dead_rows,
    reading_rules.no_statistics,
    reading_rules.read_whole,
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
        findings += [finding for rule in STATEMENT_RULES for finding in rule(evidence, known)]
    return in_order(findings)
