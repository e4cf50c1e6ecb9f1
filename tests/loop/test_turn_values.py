"""What each turn of a load measured, from the records of the load and the notes about its turns."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pgdyno.loop.history import turns_of
from pgdyno.measure.turns import TURNS
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant
from pgdyno.spec.variant import Variant
from pgdyno.store.stored_run import StoredRun

S_NS = 10**9
BEGAN_NS = 100 * S_NS
YOURS, FAST = (PlannedVariant(name, Variant(name=name)) for name in ("yours", "fast"))
LOAD = PlannedRun(
    1, "turns", 1, Cell((0,), 1), 0, 8 * S_NS, 1, turns=(YOURS, FAST, FAST, YOURS), turn_ns=2 * S_NS
)


class _Stored:
    """Ten intervals of a second: 5 transactions in each, 50 from the second to the fifth."""

    def __init__(self, turns: list[dict[str, Any]]) -> None:
        self.hello = {"scripts": [{"is_background": False}, {"is_background": True}]}
        self._turns = turns

    def document(self, name: str) -> dict[str, Any]:
        assert name == TURNS
        return {"turns": self._turns}

    def intervals(self) -> dict[str, Any]:
        counts = np.array([5, 5, 50, 50, 50, 5, 5, 5, 0, 0])
        ended_ns = BEGAN_NS + np.arange(1, 11) * S_NS
        return {"time_ns": ended_ns, "completed_by_script": np.stack([counts, 0 * counts + 9], 1)}


def turn(from_s: int, to_s: int, wal: int | None = None, refused: str = "") -> dict[str, Any]:
    window = {"from_ns": BEGAN_NS + from_s * S_NS, "to_ns": BEGAN_NS + to_s * S_NS}
    return {"variant": "any", **window, "wal_bytes": wal, "refused": refused}


def test_a_turn_has_the_throughput_and_the_wal_of_its_window() -> None:
    noted = [turn(0, 2, wal=1000), turn(2, 5, wal=3000), turn(0, 0, refused="no lz4")]
    seen = turns_of(LOAD, cast(StoredRun, _Stored(noted)))
    assert seen[0].metrics == {"tps": 5.0, "wal_per_tx": 100.0}
    assert seen[1].metrics == {"tps": 50.0, "wal_per_tx": 20.0}
    assert (seen[2].metrics, seen[2].refused) == ({}, "no lz4")
    assert (seen[3].metrics, seen[3].refused) == ({}, ""), "the load ended before it"


def test_a_turn_without_a_transaction_is_slow_and_not_unknown() -> None:
    [seen, *_] = turns_of(LOAD, cast(StoredRun, _Stored([turn(8, 10)])))
    assert seen.metrics == {"tps": 0.25}
