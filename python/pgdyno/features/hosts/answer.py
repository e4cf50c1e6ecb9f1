"""Reads the facts of the load hosts of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from pgdyno.analysis.verdicts import Doubt
from pgdyno.features.hosts.facts import LoadHostFacts
from pgdyno.features.hosts.findings import HostFindings, host_doubts
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.store.stored_run import StoredRun


def hosts_of(stored: StoredRun) -> tuple[HostFindings, ...]:
    """Return the load hosts of a run; empty if one engine on this host made the load."""
    document = stored.document("hosts.json") or {}
    return tuple(_findings(LoadHostFacts(**part)) for part in document.get("hosts", ()))


def findings_of(stored: StoredRun) -> tuple[HostFindings, ...] | None:
    """Return the load hosts of a run; None if one engine on this host made the load."""
    return hosts_of(stored) or None


def doubts_of_hosts(stored: StoredRun, numbers: LoadNumbers) -> Iterator[Doubt]:
    """Yield the doubts about a load that several hosts made."""
    return host_doubts(hosts_of(stored), numbers.seconds)


def _findings(facts: LoadHostFacts) -> HostFindings:
    """Return the facts that an answer shows; both types give them the same names."""
    return HostFindings(
        **{shown.name: getattr(facts, shown.name) for shown in fields(HostFindings)}
    )
