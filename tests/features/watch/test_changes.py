"""What changed between two periods: the largest change first, and "cannot tell" where it is so."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.features.watch.examples import DOCUMENT
from tests.features.watch.samples import database, wait
from tests.fixtures.command import Command

from pgdyno.errors import SpecError
from pgdyno.features.watch.change_blocks import changes_section
from pgdyno.features.watch.changes import changes_of
from pgdyno.features.watch.periods import WHOLE_NS, Period, named_period
from pgdyno.report.block_text import block_lines
from pgdyno.report.text_page import TextPage, joined
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

SECOND_NS = 1_000_000_000
BEGAN = datetime(2026, 11, 20, 13, 50)


def stored(
    store: Store,
    *,
    ms: tuple[float, float],
    query_id: int = 7,
    noise: float = 0.0,
    seed: int = 1,
    began: datetime = BEGAN,
) -> ExperimentFolder:
    """Store a watch of ten minutes whose statement takes other times in its second half."""
    began_ns = int(began.timestamp()) * SECOND_NS
    folder = store.create("w", "watch", began_ns=began_ns)
    run = folder.begin_run(1, "segment 1", {"verb": "watch", "interval_ns": SECOND_NS})
    total, draws = 0.0, np.random.default_rng(seed).normal(0, noise, 60)
    for step in range(60):
        now = {"time_ns": began_ns + 10 * step * SECOND_NS, "interval_ns": 10 * SECOND_NS}
        total += 1000 * ms[step >= 30] * 1e6 * float(np.exp(draws[step]))
        counted = dict.fromkeys(
            ("plan_time_ns", "shared_blks_read", "shared_blks_dirtied", "shared_blks_written",
             "temp_blks_read", "temp_blks_written", "wal_records", "wal_full_page_images",
             "wal_bytes", "jit_time_ns"), 0,
        )  # fmt: skip
        run.add_samples(
            "statements",
            [{**now, **counted, "database": "shop", "query_id": query_id, "calls": 1000 * step,
              "exec_time_ns": int(total), "rows": 1000 * step, "shared_blks_hit": 4000 * step}],
        )  # fmt: skip
        run.add_samples("database", database(10.0 * step, 1000 * step))
        run.add_samples("waits", [wait("", query_id, 2 + step % 2, here=1) | now])
    run.add_record({"record": "summary", "kind": "watch", "began_ns": 0, "ended_ns": 1})
    run.finish()
    texts = {str(query_id): "SELECT * FROM orders WHERE customer = $1"}
    folder.write_analysis({**DOCUMENT, "number": folder.number, "statement_texts": texts})
    return folder


def statement(changes: dict[str, Any], what: str) -> dict[str, Any]:
    [change] = [change for change in changes["statements"][0]["changes"] if change["what"] == what]
    return change


def test_a_statement_that_became_slow_is_the_answer_with_its_interval(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = stored(store, ms=(2, 40), noise=0.1)
    period = named_period("13:55-14:00", store, folder)
    changes = changes_of(period.rest, period)
    took = statement(changes, "time")
    assert took["verdict"] == "more"
    assert took["low"] < 20 < took["high"]
    assert statement(changes, "rows")["verdict"] == "the same"
    assert statement(changes, "blocks")["verdict"] == "the same"
    text = joined(block_lines(TextPage(100), [changes_section(changes)]))
    assert "SELECT * FROM orders" in text.splitlines()[2]
    assert len(text.splitlines()) <= 25


def test_of_equal_periods_nothing_is_certain_in_most_cases(tmp_path: Path) -> None:
    store, false = Store(tmp_path), 0
    for seed in range(20):
        folder = stored(store, ms=(2, 2), noise=0.3, seed=seed)
        period = named_period("13:55-14:00", store, folder)
        changes = changes_of(period.rest, period)
        false += statement(changes, "time")["verdict"] != "cannot tell"
    assert false <= 2


def test_the_same_statement_of_another_server_is_found_by_its_text(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = stored(store, ms=(2, 2), query_id=7, noise=0.1)
    new = stored(store, ms=(6, 6), query_id=8, noise=0.1)
    changes = changes_of(*(Period(folder, 0, WHOLE_NS, "") for folder in (old, new)))
    took = statement(changes, "time")
    assert len(changes["statements"]) == 1
    assert took["low"] < 3 < took["high"]


@pytest.mark.parametrize("text", ["25:00-26:00", "14:00-14:10"])
def test_a_period_without_a_watch_is_refused_with_the_next_step(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    at_hand = stored(store, ms=(2, 2)) if text.startswith("25") else None
    with pytest.raises(SpecError) as refused:
        named_period(text, store, at_hand)
    assert refused.value.hint


def test_the_command_compares_a_stored_watch_with_a_period_of_it(pgdyno: Command) -> None:
    folder = stored(Store(pgdyno.store), ms=(2, 40), noise=0.1)
    said = pgdyno("watch", "--of", str(folder.number), "--compare-to", "13:55-14:00")
    assert said.code == 0, said.err
    assert "ms a call" in said.out
    page = (folder.folder / "report.html").read_text()
    assert "What changed" in page
