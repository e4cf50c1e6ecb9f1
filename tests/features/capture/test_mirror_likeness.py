"""How alike a load is to its source: limits, verdicts, the sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fixtures.captures import tpcb_capture

from pgdyno.analysis.findings import CellFindings
from pgdyno.engine.distribution import Distribution
from pgdyno.errors import SpecError
from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.mirror.answer import ANSWER, _server_counters
from pgdyno.features.capture.mirror.findings import (
    CopySeen,
    FailedKind,
    Likeness,
    likeness_of,
    summed,
)
from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.features.capture.mirror.recorded import is_recorded, rate_of
from pgdyno.features.capture.mirror.shown import shown_of_cells
from pgdyno.features.capture.mirror.source import share_of, source_document
from pgdyno.features.capture.model import OfColumn
from pgdyno.features.capture.observed import Arrivals
from pgdyno.report.blocks import LabelledLine, blocks_of, keys_of
from pgdyno.spec.rate import rate_from
from pgdyno.spec.workload import Script, Workload

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
    "is_counted": 1.0,
}


def row(text: str, reason: str = "", **changed: float) -> dict[str, Any]:
    return {"id": text, "text": text, "reason": reason, "counters": {**COUNTED, **changed}}


SOURCE: dict[str, Any] = {
    "file": "core.capture",
    "reads_only": False,
    "reproduced_calls": 0.96,
    "reproduced_time": 0.91,
    "lacks": "",
    "statements": [row("SELECT 1", time_ms=15.0), row("UPDATE t")],
}
SEEN = CopySeen(
    calls={"SELECT 1": 50.0, "UPDATE t": 50.0},
    counters={text: {name: value / 2 for name, value in COUNTED.items()} for text in
              ("SELECT 1", "UPDATE t")},
    transactions=50,
)  # fmt: skip


def with_counters(text: str, **changed: float) -> CopySeen:
    assert SEEN.counters is not None
    return replace(SEEN, counters={**SEEN.counters, text: {**SEEN.counters[text], **changed}})


def verdicts(likeness: Likeness) -> dict[str, str]:
    return {own.text: own.verdict for own in likeness.statements}


def test_the_same_work_at_half_the_length_is_alike() -> None:
    likeness = likeness_of(SOURCE, SEEN)
    assert (likeness.alike_time, likeness.alike_calls) == (1.0, 1.0)
    assert likeness.sentence == "alike: 100 % of the time, 100 % of the calls"


def test_the_verdict_is_the_share_of_the_time_in_statements_that_are_alike() -> None:
    likeness = likeness_of(SOURCE, with_counters("SELECT 1", rows=0.0))
    assert (likeness.alike_time, likeness.alike_calls) == (0.25, 0.5)
    assert likeness.sentence == (
        "alike: 25 % of the time, 50 % of the calls; not: SELECT 1 (75 %): finds no rows, not 1.00"
    )


@pytest.mark.parametrize(
    ("changed", "is_alike"),
    [
        ({"rows": 60.0}, True),
        ({"rows": 120.0}, False),
        ({"rows": 33.5}, False),  # a key that finds its row in two of three calls
        ({"rows": 95.0}, False),
        ({"rows": 10.0}, False),
        ({"hit_blocks": 290.0}, True),  # 1.8 blocks a call more
        ({"hit_blocks": 360.0}, False),
        ({"wal_bytes": 90_000.0, "temp_read_blocks": 900.0}, True),
    ],
)
def test_rows_and_blocks_a_call_decide(changed: dict[str, float], is_alike: bool) -> None:
    likeness = likeness_of(SOURCE, with_counters("UPDATE t", **changed))
    assert verdicts(likeness)["UPDATE t"] == ("alike" if is_alike else "not alike")


@pytest.mark.parametrize(
    ("ratio", "blocks", "verdict"),
    [
        (1.0, 450.0, "alike"),
        (1.2, 450.0, "alike"),
        # If the other half of the calls did nothing, the logged ones had 9 blocks, not 4.5.
        (2.0, 450.0, "unknown"),
        # One block or two: the limit is two blocks, whatever the other calls did.
        (2.0, 100.0, "alike"),
        # The server counted half of the logged calls.
        (0.5, 100.0, "unknown"),
    ],
)
def test_counters_of_other_calls_than_those_of_the_log_say_less(
    ratio: float, blocks: float, verdict: str
) -> None:
    counted = {"hit_blocks": blocks, "read_blocks": 0.0, "rows": 0.0}
    source = {**SOURCE, "statements": [{**row("UPDATE t", **counted), "counted_ratio": ratio}]}
    half = {name: value / 2 for name, value in counted.items()}
    likeness = likeness_of(source, with_counters("UPDATE t", **half))
    assert verdicts(likeness) == {"UPDATE t": verdict}


@pytest.mark.parametrize(
    ("seen", "copied", "is_alike"),
    [
        (1_000, 5_900, True),
        (1_000, 6_400, False),
        (20, 130, True),  # 100 are expected, and chance may explain half of them
        (20, 170, False),
        (1, 9, True),
        (1, 30, False),
    ],
)
def test_few_calls_may_differ_by_chance_but_never_by_more_than_half(
    seen: int, copied: int, is_alike: bool
) -> None:
    rare, often = row("UPDATE t", calls=float(seen)), row("SELECT 1", calls=10_000.0)
    calls = {"SELECT 1": 50_000.0, "UPDATE t": float(copied)}
    seen_there = replace(SEEN, calls=calls, counters=None)
    likeness = likeness_of({**SOURCE, "statements": [rare, often]}, seen_there)
    reasons = {own.text: own.reason for own in likeness.statements}
    assert ("calls, not" not in reasons["UPDATE t"]) is is_alike, reasons


def test_another_mix_of_calls_is_not_alike() -> None:
    calls = {"SELECT 1": 5_000.0, "UPDATE t": 2_000.0}
    likeness = likeness_of(SOURCE, replace(SEEN, calls=calls, counters=None))
    assert set(verdicts(likeness).values()) == {"not alike"}
    assert "calls, not 3,500" in likeness.statements[0].reason


def test_a_statement_that_fails_is_not_alike_and_is_named_with_its_message() -> None:
    failed = FailedKind("UPDATE t", "23505", "duplicate key", 2)
    likeness = likeness_of(SOURCE, replace(SEEN, failed=(failed,)))
    assert verdicts(likeness) == {"SELECT 1": "alike", "UPDATE t": "not alike"}
    assert likeness.statements[1].copy.failures == 2
    section = shown_of_cells([CellFindings("15", "mirror", likeness, is_main=True)])
    shown = {line.label: line.said for line in blocks_of(section.blocks, LabelledLine)}
    assert shown["failed"].startswith("2 of 50 transactions, 4 %: 2 23505 in UPDATE t")


def test_what_is_left_out_is_not_alike_and_the_others_keep_their_shares() -> None:
    rows = [*SOURCE["statements"], row("COPY x", "COPY of files", time_ms=20.0)]
    likeness = likeness_of({**SOURCE, "statements": rows}, SEEN)
    assert verdicts(likeness) == {"COPY x": "left out", "SELECT 1": "alike", "UPDATE t": "alike"}
    assert likeness.alike_time == 0.5
    assert likeness.statements[0].number == 3


def test_what_was_not_counted_is_unknown_and_unknown_is_not_alike() -> None:
    likeness = likeness_of(SOURCE, replace(SEEN, counters=None))
    assert set(verdicts(likeness).values()) == {"unknown"}
    assert likeness.alike_time == 0.0
    # The server counted the same text of somebody else.
    likeness = likeness_of(SOURCE, with_counters("UPDATE t", calls=2.0))
    assert verdicts(likeness)["UPDATE t"] == "unknown"
    rare = {**SEEN.calls, "UPDATE t": 0.0}
    rows = [row("SELECT 1", calls=9_900.0), row("UPDATE t")]
    likeness = likeness_of({**SOURCE, "statements": rows}, replace(SEEN, calls=rare))
    assert verdicts(likeness)["UPDATE t"] == "unknown"


def test_a_log_that_lacks_statements_gives_no_share() -> None:
    likeness = likeness_of({**SOURCE, "lacks": "the logs lack statements"}, SEEN)
    assert (likeness.alike_time, likeness.alike_calls) == (None, None)
    assert likeness.sentence == "alike: not known: the logs lack statements"
    assert len(list(ANSWER.doubts(likeness))) == 1


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
    texts = [row["text"] for row in document["statements"]]
    assert len(texts) == 6
    assert not any(text.startswith(("BEGIN", "END")) for text in texts)


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


def test_what_was_never_sent_is_not_reproduced_and_says_which_value_was_missing() -> None:
    half = {name: value / 2 for name, value in COUNTED.items()}
    fetch, other = row("SELECT id FROM job"), row("SELECT 1")
    needs = [{"parameter": 2, "text": "SELECT id FROM job"}]
    finish = {**row("DELETE FROM job", time_ms=10.0), "needs": needs}
    source = {**SOURCE, "statements": [fetch, other, finish]}
    texts = ("SELECT id FROM job", "SELECT 1")
    seen = CopySeen(
        calls=dict.fromkeys(texts, 50.0), counters={texts[0]: {**half, "rows": 0.0}, texts[1]: half}
    )
    likeness = likeness_of(source, seen)
    assert likeness.reproduced_calls_ratio == pytest.approx(0.96 * 2 / 3)
    assert likeness.reproduced_time_ratio == pytest.approx(0.91 / 2)
    reasons = {own.text: own.reason for own in likeness.statements}
    said = "never carried out: $2 comes from SELECT id FROM job, which found no rows"
    assert reasons["DELETE FROM job"] == said
    finish["needs"] = [{"parameter": 1, "column": "public.job.id"}]
    [reason] = [
        own.reason for own in likeness_of(source, seen).statements if own.id == finish["id"]
    ]
    assert (
        reason
        == "never carried out: $1 needs a value of public.job.id, but the copy has no such value"
    )


def test_several_runs_count_as_one_run_of_their_total_length() -> None:
    failed = FailedKind("UPDATE t", "23505", "duplicate key", 2)
    once = replace(SEEN, failed=(failed,))
    assert likeness_of(SOURCE, summed([SEEN, SEEN])).alike_time == 1.0
    both = summed([once, once])
    assert (both.transactions, both.failed[0].count) == (100, 4)
    assert summed([SEEN, replace(SEEN, counters=None)]).counters is None


def test_an_answer_of_several_cells_has_a_line_for_each_and_those_of_the_least_alike() -> None:
    cells = [
        CellFindings("15", "mirror", likeness_of(SOURCE, SEEN), is_main=True),
        CellFindings(
            "18", "mirror", likeness_of(SOURCE, with_counters("UPDATE t", rows=0.0)), is_main=True
        ),
    ]
    shown = shown_of_cells(cells)
    words = {line.label: line.said for line in blocks_of(shown.blocks, LabelledLine)}
    assert words["alike"] == "75 % of the source's time, 50 % of its calls"
    assert words["not"] == "25 % of the time: UPDATE t, finds no rows, not 1.00"
    lines, statements = shown.tables
    assert [row[:3] for row in lines.rows] == [("15", "100 %", "100 %"), ("18", "75 %", "50 %")]
    assert shown_of_cells(cells, has_run=True).tables == (lines,), "the run shows the statements"
    assert [row[-2] for row in statements.rows] == ["SELECT 1", "UPDATE t"]
    document = keys_of(shown.blocks)["likeness"]
    assert [cell["alike_time"] for cell in document["cells"]] == [1.0, 0.75]
    assert document["cells"][0]["reproduced_calls"] == 0.96


@pytest.mark.parametrize(("who", "words"), [("source", "a log does not"), ("copy", "of the copy")])
def test_the_answer_says_on_which_side_rows_and_blocks_are_not_counted(
    who: str, words: str
) -> None:
    rows = [row(own["text"], is_counted=0.0) for own in SOURCE["statements"]]
    source = {**SOURCE, "statements": rows}
    both = (source, SEEN) if who == "source" else (SOURCE, replace(SEEN, counters=None))
    shown = shown_of_cells([CellFindings("15", "mirror", likeness_of(*both), is_main=True)])
    assert words in shown.tables[-1].below


def test_a_statement_that_is_missing_does_not_make_the_calls_of_all_others_differ() -> None:
    texts = ("SELECT 1", "UPDATE t", "SELECT 2")
    source = {**SOURCE, "statements": [row(text) for text in (*texts, "INSERT t")]}
    half = {name: value / 2 for name, value in COUNTED.items()}
    seen = CopySeen(calls=dict.fromkeys(texts, 50.0), counters=dict.fromkeys(texts, half))
    known = verdicts(likeness_of(source, seen))
    assert known == {**dict.fromkeys(texts, "alike"), "INSERT t": "not alike"}


def test_what_is_left_out_has_a_line_with_its_label() -> None:
    source = {**SOURCE, "statements": [row("SELECT 1"), row("COPY t", "it is refused")]}
    likeness = likeness_of(source, SEEN)
    section = shown_of_cells([CellFindings("15", "mirror", likeness, is_main=True)])
    words = {line.label: line.said for line in blocks_of(section.blocks, LabelledLine)}
    assert words["left out"] == "50 % of the time: COPY t, it is refused"


def test_texts_that_differ_in_a_constant_share_what_the_server_counts() -> None:
    texts = ("SELECT 'a'::regclass", "SELECT 'b'::regclass")
    statements = [SimpleNamespace(line=line, text=text) for line, text in enumerate(texts)]
    numbers: Any = SimpleNamespace(scripts=[SimpleNamespace(name="kind", statements=statements)])
    growth = {"7": {"calls": 4.0, "rows": 8.0}}
    document = {
        "query_ids": {"kind": {"0": [7], "1": [7]}},
        "statement_counters": {"statements": growth},
    }
    counted = _server_counters(document, numbers)
    assert counted is not None
    assert all(counted[text]["is_counted"] for text in texts)
    assert [counted[text]["rows"] / counted[text]["calls"] for text in texts] == [2, 2]


@pytest.mark.parametrize(
    ("often", "blocks", "is_advised"), [(4, 9_000.0, True), (1, 9_000.0, False)]
)
def test_larger_tables_of_a_faster_copy_have_their_own_step(
    often: float, blocks: float, is_advised: bool
) -> None:
    texts = ("SELECT 1", "UPDATE t")
    counted = {name: often * value for name, value in COUNTED.items()}
    larger = {**counted, "hit_blocks": blocks}
    seen = replace(SEEN, calls=dict.fromkeys(texts, often * COUNTED["calls"]))
    likeness = likeness_of(
        SOURCE, replace(seen, counters=dict(zip(texts, (counted, larger), strict=True)))
    )
    [doubt] = ANSWER.doubts(likeness)
    assert ("--rate 1x" in doubt.hint) is is_advised, doubt
