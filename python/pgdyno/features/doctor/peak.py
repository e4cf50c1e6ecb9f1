"""The peak of sessions at work that an earlier result shows."""

from __future__ import annotations

from pgdyno.feature import part
from pgdyno.features.doctor.check_facts import PeakActive
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store


def peak_seen(store: Store, target: Target) -> PeakActive | None:
    """Return the peak of sessions at work on this server, None if no result shows one."""
    look = part("peak_seen")
    peak: PeakActive | None = None if look is None else look(store, target)
    return peak
