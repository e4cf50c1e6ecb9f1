"""How alike a load is to its source: limits, verdicts, the sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError
from tests.fixtures.captures import tpcb_capture

from pgdyno.analysis.findings import CellFindings
from pgdyno.engine.distribution import Distribution
from pgdyno.errors import SpecError
from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.mirror.answer import CPU, active_sessions, waits_of
from pgdyno.features.capture.mirror.findings import (
    CopySeen,
    Likeness,
    Quantity,
    likeness_of,
    together,
)
from pgdyno.features.capture.mirror.job import mirror_load, share_of, source_document
from pgdyno.features.capture.mirror.recorded import is_recorded, rate_of
from pgdyno.features.capture.mirror.shown import shown_of_cells
from pgdyno.features.capture.model import Arrivals, OfColumn
from pgdyno.spec.rate import rate_from
from pgdyno.spec.workload import Script, Workload
from pgdyno.store.stored_run import StoredRun

COUNTED = {
    "calls": 100.0,
    "rows": 100.0,
    "time_ms": 5.0,
    "hit_blocks": 400.0,
    "read_blocks": 50.0,
    "dirtied_blocks": 10.0,
    "temp_read_blocks": 0.0,
    "temp_written_blocks": 0.0,
    "wal_bytes": 20_000.0,
}
SOURCE: dict[str, Any] = {
    "file": "core.capture",
    "reads_only": False,
    "reproduced_calls": 0.96,
    "reproduced_time": 0.91,
    "profile": {
        "seconds": 10.0,
        "commits": 100,
        "rollbacks": 0,
        "updates": 100,
        "hot_updates": 90,
        "active_sessions": 2.0,
        "waits": {"CPU": 0.8, "IO:WALSync": 0.6},
    },
    "templates": [{"name": "look", "rate_tps": 10.0, "statements": ["SELECT 1", "UPDATE t"]}],
    "statements": {"SELECT 1": COUNTED, "UPDATE t": COUNTED},
}
SEEN = CopySeen(
    calls={"SELECT 1": 50.0, "UPDATE t": 50.0},
    counters={text: {name: value / 2 for name, value in COUNTED.items()} for text in
              ("SELECT 1", "UPDATE t")},
    transactions={"look": 50},
    waits={"CPU": 0.8, "IO:WALSync": 0.6},
    active_sessions=2.1,
    updates=50,
    hot_updates=46,
)  # fmt: skip


def quantity(likeness: Likeness, name: str) -> Quantity:
    [seen_quantity] = [own for own in likeness.quantities if own.name == name]
    return seen_quantity


def test_a_begin_that_the_source_hardly_counted_is_not_in_the_mix() -> None:
    # Two other sessions sent it as text; those of the load prepare it.
    kinds = [{**SOURCE["templates"][0], "statements": ["BEGIN", "SELECT 1", "UPDATE t"]}]
    statements = {**SOURCE["statements"], "BEGIN": {**COUNTED, "calls": 2.0}}
    source = {**SOURCE, "templates": kinds, "statements": statements}
    copy = replace(SEEN, calls={**SEEN.calls, "BEGIN": 50.0})
    assert quantity(likeness_of(source, copy), "mix of calls (distance)").copy == 0
    statements["BEGIN"]["calls"] = 100.0
    assert quantity(likeness_of(source, SEEN), "mix of calls (distance)").verdict == "short"


def test_a_statement_that_few_transactions_have_is_in_the_mix() -> None:
    statements = {**SOURCE["statements"], "UPDATE t": {**COUNTED, "calls": 5.0}}
    likeness = likeness_of({**SOURCE, "statements": statements}, SEEN)
    assert quantity(likeness, "mix of calls (distance)").verdict == "short"
    calls = statements["SELECT 1"]["calls"] + 5
    ended = SOURCE["profile"]["commits"] + SOURCE["profile"]["rollbacks"]
    assert quantity(likeness, "statements a transaction").source == pytest.approx(calls / ended)


def test_calls_that_only_one_side_counted_are_in_no_mean() -> None:
    begin = {**COUNTED, "rows": 0.0, "hit_blocks": 0.0, "wal_bytes": 0.0}
    kinds = [{**SOURCE["templates"][0], "statements": ["BEGIN", "SELECT 1", "UPDATE t"]}]
    source = {
        **SOURCE,
        "templates": kinds,
        "statements": {"BEGIN": begin, **SOURCE["statements"]},
    }
    # The server counted the BEGIN of somebody else.
    seen = {"BEGIN": {**begin, "calls": 2.0}, **(SEEN.counters or {})}
    copy = replace(SEEN, calls={"BEGIN": 50.0, **SEEN.calls}, counters=seen)
    likeness = likeness_of(source, copy)
    for name in ("rows a call", "blocks a call", "WAL bytes a call"):
        assert quantity(likeness, name).ratio == pytest.approx(1.0), name


def test_sessions_that_wait_for_their_client_are_not_active() -> None:
    waits = {
        "time_ns": np.array([1, 1, 2, 2, 3]),
        "ours": np.array([1, 1, 1, 1, 0]),
        "state": np.array(["active", "idle in transaction", "active", "active", "active"]),
        "wait_event": np.array(["IO:WALSync", "Client:ClientRead", "", "IO:WALSync", "Lock:tuple"]),
        "count": np.array([1, 3, 1, 2, 9]),
    }
    stored = cast("StoredRun", SimpleNamespace(waits=lambda: waits))
    assert waits_of(stored) == {"IO:WALSync": 0.75, CPU: 0.25}
    assert active_sessions(stored) == pytest.approx(4 / 3)


def test_the_same_work_at_half_the_length_is_alike() -> None:
    likeness = likeness_of(SOURCE, SEEN)
    assert likeness.short == ()
    assert likeness.sentence == (
        "alike: 96 % of the calls and 91 % of the time are reproduced; blocks a call 1.00x;"
        " waits cosine 1.00"
    )
    assert {own.verdict for own in likeness.quantities} == {"pass", "unknown"}
    [unknown] = [own for own in likeness.quantities if own.verdict == "unknown"]
    assert unknown.name == "execution time a call (ms)"
    assert (unknown.limit, unknown.ratio) == (None, 1.0)
    [kind] = likeness.types
    assert (kind.name, kind.quantities[0].ratio) == ("look", 1.0)


def test_each_quantity_outside_its_limit_is_short() -> None:
    assert SEEN.counters is not None
    more = {**SEEN.counters["UPDATE t"], "hit_blocks": 400.0, "wal_bytes": 1_000.0}
    seen = replace(
        SEEN,
        calls={"SELECT 1": 53.0, "UPDATE t": 47.0},
        counters={**SEEN.counters, "UPDATE t": more},
        waits={"CPU": 0.1, "Lock:tuple": 0.9},
        active_sessions=4.0,
        hot_updates=10,
    )
    likeness = likeness_of(SOURCE, seen)
    assert [own.name for own in likeness.short] == [
        *("mix of calls (distance)", "blocks a call", "blocks hit a call", "WAL bytes a call"),
        *("HOT share of updates", "active sessions", "waits (cosine)"),
    ]
    assert likeness.sentence.startswith("not alike: 96 %")
    assert likeness.sentence.endswith("active sessions, waits (cosine)")
    assert quantity(likeness, "mix of calls (distance)").copy == pytest.approx(0.03)
    assert quantity(likeness, "blocks a call").ratio == pytest.approx(650 / 450)


def test_what_was_not_counted_is_unknown() -> None:
    seen = replace(SEEN, counters=None, waits=None, active_sessions=None, hot_updates=None)
    likeness = likeness_of(SOURCE, seen)
    unknown = {own.name for own in likeness.quantities if own.verdict == "unknown"}
    assert {"blocks a call", "WAL bytes a call", "waits (cosine)", "active sessions"} <= unknown
    assert quantity(likeness, "mix of calls (distance)").verdict == "pass"
    assert "blocks" not in likeness.sentence


def test_a_difference_of_a_fraction_of_a_block_does_not_count() -> None:
    assert SEEN.counters is not None
    none = {**COUNTED, "read_blocks": 0.0}
    source = {**SOURCE, "statements": dict.fromkeys(("SELECT 1", "UPDATE t"), none)}
    few = {text: {**own, "read_blocks": 1.0} for text, own in SEEN.counters.items()}
    seen_quantity = quantity(likeness_of(source, replace(SEEN, counters=few)), "blocks read a call")
    assert (seen_quantity.verdict, seen_quantity.ratio) == ("pass", None)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    path = tmp_path / "core.capture"
    path.write_bytes(encoded(tpcb_capture()))
    return Script(builtin="mirror", capture=path)


def test_the_shares_count_what_the_capture_left_out(script: Script) -> None:
    share = share_of(script)
    assert (share.calls_ratio, share.time_ratio) == (4200 / 4203, 210 / 210.1)
    document = source_document(script)
    assert document["reproduced_calls"] == share.calls_ratio
    assert len(document["statements"]) == 7


def test_of_a_load_that_only_writes_nothing_can_be_read(script: Script) -> None:
    reading = script.model_copy(update={"reads_only": True})
    with pytest.raises(SpecError, match="no transaction that only reads"):
        mirror_load(reading)
    assert share_of(reading).calls_ratio == 0


def test_keys_are_drawn_from_the_range_of_the_source(script: Script) -> None:
    [template] = mirror_load(script)["templates"]
    assert template["steps"][1]["parameters"][1]["range"] == [1, 100_000]
    assert template["weight"] == 1_000_000


def test_a_column_without_statistics_gets_a_value_and_a_key_does_not(tmp_path: Path) -> None:
    capture = tpcb_capture()
    empty = {"distribution": Distribution(kind="text", distinct=0), "is_not_null": True}
    columns = tuple(column.model_copy(update=empty) for column in capture.columns)
    [template] = capture.templates
    step = template.steps[1].model_copy(
        update={
            "parameters": tuple(
                OfColumn(table="public.pgbench_accounts", column=name)
                for name in ("abalance", "aid")
            )
        }
    )
    template = template.model_copy(update={"steps": (template.steps[0], step)})
    path = tmp_path / "empty.capture"
    update = {"columns": columns, "templates": (template,)}
    path.write_bytes(encoded(capture.model_copy(update=update)))
    [shown] = mirror_load(Script(builtin="mirror", capture=path))["templates"]
    value, key = shown["steps"][1]["parameters"]
    assert (value["from"], value["distribution"]["distinct"]) == ("drawn", 100)
    assert (key["from"], key["column"]) == ("column", "aid")


def test_the_recorded_rate_is_scaled_repeated_and_flattened(script: Script) -> None:
    assert script.capture is not None
    captures = [script.capture]
    scaled = rate_from(rate_of("2x", captures, None))
    assert (scaled.length_ns, scaled.mean_tps(60_000_000_000)) == (60_000_000_000, 20.0)
    assert rate_from(rate_of("1x", captures, "150s")).length_ns == 150_000_000_000
    assert rate_from(rate_of("0.5x", captures, "10s")).length_ns == 10_000_000_000
    assert rate_of("flat", captures, None) == "10"
    assert [is_recorded(given) for given in ("2x", "flat", "500:30s", 5)] == [1, 1, 0, 0]
    with pytest.raises(SpecError, match="needs one capture"):
        rate_of("2x", [], None)
    with pytest.raises(SpecError, match="must be above 0"):
        rate_of("0x", captures, None)


def test_a_spec_may_have_a_recorded_rate(script: Script) -> None:
    assert script.capture is not None
    arrivals = Arrivals(transactions=(5.0, 15.0) * 10)
    script.capture.write_bytes(encoded(tpcb_capture(arrivals=arrivals)))
    named = {"builtin": "mirror", "capture": str(script.capture)}
    workload = Workload.model_validate({"scripts": [named], "rate": "2x"})
    assert (workload.rate_tps, workload.duration_ns) == (20.0, 20_000_000_000)
    assert workload.protocol == "prepared"
    with pytest.raises(ValidationError, match="needs one capture"):
        Workload.model_validate({"scripts": [{"builtin": "select-only"}], "rate": "2x"})


def test_several_runs_count_as_one_run_of_their_total_length() -> None:
    assert likeness_of(SOURCE, together([SEEN, SEEN])) == likeness_of(SOURCE, SEEN)
    none = replace(SEEN, counters=None, waits=None, active_sessions=None, updates=None)
    mixed = together([SEEN, none])
    assert (mixed.counters, mixed.updates) == (None, None)
    assert (mixed.waits, mixed.active_sessions) == (SEEN.waits, 2.1)
    assert mixed.transactions == {"look": 100}


def test_an_answer_of_several_cells_has_a_line_for_each_and_one_sentence() -> None:
    heavy = {text: {**own, "wal_bytes": 20_000} for text, own in (SEEN.counters or {}).items()}
    cells = [
        CellFindings("15", "mirror", likeness_of(SOURCE, SEEN), is_main=True),
        CellFindings(
            "18", "mirror", likeness_of(SOURCE, replace(SEEN, counters=heavy)), is_main=True
        ),
    ]
    shown = shown_of_cells(cells)
    sentence = "alike in 1 of 2: 96 % of the calls and 91 % of the time are reproduced; short: WAL"
    assert dict(line for line in shown.lines if isinstance(line, tuple))["likeness"] == (
        f"{sentence} bytes a call"
    )
    lines, quantities = shown.tables
    assert [row[:4] for row in lines.rows] == [
        ("15", "alike", "1.00x", "1.00x"),
        ("18", "not alike", "1.00x", "2.00x"),
    ]
    beside_a_run = shown_of_cells([cells[0], replace(cells[1], is_main=False)], has_run=True)
    assert beside_a_run.tables == (lines,), "the run shows all quantities"
    assert shown_of_cells(cells, has_run=True).tables == shown.tables, "it is of one variant"
    [wal] = [row for row in quantities.rows if row[0] == "WAL bytes a call"]
    assert wal == ("WAL bytes a call", "200", "1.00x", "2.00x short", "within 10 %")
    document = shown.document["likeness"]
    assert [cell["name"] for cell in document["cells"]] == ["15", "18"]
    assert document["cells"][0]["reproduced_calls"] == 0.96


@pytest.mark.parametrize(("who", "words"), [("source", "a log does not"), ("copy", "of the copy")])
def test_the_answer_says_on_which_side_rows_and_blocks_are_not_counted(
    who: str, words: str
) -> None:
    uncounted = {**COUNTED, "rows": 0.0, "hit_blocks": 0.0, "read_blocks": 0.0, "wal_bytes": 0.0}
    source = {**SOURCE, "statements": dict.fromkeys(SOURCE["statements"], uncounted)}
    both = (source, SEEN) if who == "source" else (SOURCE, replace(SEEN, counters=None))
    shown = shown_of_cells([CellFindings("15", "mirror", likeness_of(*both), is_main=True)])
    assert words in shown.tables[-1].below
