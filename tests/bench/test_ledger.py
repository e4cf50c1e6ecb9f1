"""The ledger that works in turn: only its stretches have work, and its journal has all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.ledger import LedgerInTurn
from tests.fixtures import needs

from pgdyno.process import signals
from pgdyno.server.find import find

pytestmark = [pytest.mark.pg, needs.POSTGRESQL_15]


def test_a_ledger_works_only_in_its_stretches(house: Path) -> None:
    with LedgerInTurn(find(version="15"), 4, has_journal=True) as load:
        stretches = [load.stretch(0.2) for _ in range(2)]
        signals.sleep(0.1)  # The server may be at the last statements that it got.
        before = load.entries()
        signals.sleep(0.2)
        assert load.entries() == before
    # The end of the block has compared the journal with the rows.
    for stretch in stretches:
        assert stretch.transactions > 0
        assert stretch.cpu_ns > 0
        assert stretch.tps == pytest.approx(stretch.transactions * 1e9 / stretch.wall_ns)
