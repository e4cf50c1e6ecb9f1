"""Which features took part in a stored run: only these are asked about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.feature import Feature, features
from pgdyno.store.stored_run import StoredRun


def features_of_run(slot: str, stored: StoredRun) -> Iterator[Feature]:
    """Yield the features that fill a slot and left one of their traces in a run."""
    for feature in features():
        if slot in feature.parts and _took_part(feature, stored):
            yield feature


def parts_of_run(slot: str, stored: StoredRun) -> tuple[Any, ...]:
    """Return what the features that took part in a run put into a slot."""
    return tuple(feature.part(slot) for feature in features_of_run(slot, stored))


def _took_part(feature: Feature, stored: StoredRun) -> bool:
    return not feature.traces or any(
        stored.document(trace) is not None
        if trace.endswith(".json")
        else trace in stored.collectors()
        for trace in feature.traces
    )
