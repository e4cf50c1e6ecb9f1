"""All rules, and the list of findings that text, page, document and live lines show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pgdyno.features.watch.incident import holding_rules, lock_rules, server_rules
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import SHOWN_MAX, IncidentFinding, in_order
from pgdyno.features.watch.incident.statement_rules import (
    KnownStatements,
    read_whole,
    reading_in_vain,
)

RULES: tuple[Callable[[IncidentEvidence], Iterator[IncidentFinding]], ...] = (
    lock_rules.blockers,
    lock_rules.contention,
    holding_rules.long_holders,
    holding_rules.vacuum_behind,
    holding_rules.wraparound,
    server_rules.connections,
    server_rules.forced_checkpoints,
    server_rules.slot_wal,
    server_rules.archiver,
    server_rules.standbys,
    server_rules.spills,
)


def findings_of(
    evidence: IncidentEvidence, known: KnownStatements | None = None
) -> list[IncidentFinding]:
    """Return at most five findings, those with the most lost time first."""
    known = known or KnownStatements()
    with evidence.lock:
        findings = [finding for rule in RULES for finding in rule(evidence)]
        findings += [*reading_in_vain(evidence, known), *read_whole(evidence, known)]
    return in_order(findings)[:SHOWN_MAX]
