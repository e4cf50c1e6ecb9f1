"""What the other nodes of a distributed server did in a run; nothing without such a feature."""

from __future__ import annotations

from typing import Protocol

from pgdyno.analysis.where import NodeWork
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.took_part import parts_of_run
from pgdyno.store.stored_run import StoredRun


class NodesAnswer(Protocol):
    """What the feature of a distributed server reads from a stored run."""

    def worker_count(self, stored: StoredRun) -> int:
        """Return how many workers the server had."""

    def active_ms_of_nodes(self, stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
        """Return how long sessions of each worker executed statements in the measured phase."""

    def nodes_of(self, stored: StoredRun, numbers: LoadNumbers) -> tuple[NodeWork, ...]:
        """Return what each worker did, the busiest first."""

    def several_shards_ratio(self, stored: StoredRun, numbers: LoadNumbers) -> float | None:
        """Return the share of the coordinator's statements that needed several shards."""


def _answer(stored: StoredRun) -> NodesAnswer | None:
    return next(iter(parts_of_run("nodes_answer", stored)), None)


def worker_count(stored: StoredRun) -> int:
    """Return how many workers the server of a run had; 0 if it has no other nodes."""
    answer = _answer(stored)
    return 0 if answer is None else answer.worker_count(stored)


def active_ms_of_nodes(stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
    """Return how long sessions of each worker executed statements; empty if it is not known."""
    answer = _answer(stored)
    return {} if answer is None else answer.active_ms_of_nodes(stored, numbers)


def nodes_of(stored: StoredRun, numbers: LoadNumbers) -> tuple[NodeWork, ...]:
    """Return what each worker did, the busiest first; empty if it is not known."""
    answer = _answer(stored)
    return () if answer is None else answer.nodes_of(stored, numbers)


def several_shards_ratio(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the share of statements that needed several shards; None if it is not known."""
    answer = _answer(stored)
    return None if answer is None else answer.several_shards_ratio(stored, numbers)
