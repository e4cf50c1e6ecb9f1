"""What the other nodes of a distributed server did in a run; nothing without such a feature."""

from __future__ import annotations

from pgdyno.analysis.where import NodeWork
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.took_part import parts_of_run
from pgdyno.store.stored_run import StoredRun


class NodesAnswer:
    """A server without other nodes. The feature of a distributed server has the same functions."""

    def worker_count(self, stored: StoredRun) -> int:
        """Return how many workers the server had."""
        del stored
        return 0

    def active_ms_of_nodes(self, stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
        """Return how long sessions of each worker executed statements; empty if not known."""
        del stored, numbers
        return {}

    def nodes_of(self, stored: StoredRun, numbers: LoadNumbers) -> tuple[NodeWork, ...]:
        """Return what each worker did, the busiest first; empty if it is not known."""
        del stored, numbers
        return ()

    def several_shards_ratio(self, stored: StoredRun, numbers: LoadNumbers) -> float | None:
        """Return the share of statements that needed several shards; None if not known."""
        del stored, numbers
        return None


def nodes_answer(stored: StoredRun) -> NodesAnswer:
    """Return what reads the work of the other nodes from a stored run."""
    answers: tuple[NodesAnswer, ...] = parts_of_run("nodes_answer", stored)
    return answers[0] if answers else NodesAnswer()
