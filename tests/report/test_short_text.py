"""An answer fits on one screen unless somebody asks for the rest."""

from __future__ import annotations

import pytest
from tests.outputs.rendered import SNAPSHOTS

from pgdyno.report.short_text import LINES_MAX, shortened

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in SNAPSHOTS.glob("*.txt")}
AGAIN = "pgdyno show -v 7"
DECIDE = ("answer", "verdict", "valid", "saved")


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_an_answer_of_every_kind_has_at_most_25_lines_of_100_characters(name: str) -> None:
    lines = shortened(TEXTS[name], AGAIN).splitlines()
    assert len(lines) <= LINES_MAX == 25
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_what_decides_stays_and_the_last_line_says_where_the_rest_is(name: str) -> None:
    whole, lines = TEXTS[name].splitlines(), shortened(TEXTS[name], AGAIN).splitlines()
    decide = [line for line in whole if line.startswith(DECIDE)]
    assert [line for line in lines if line.startswith(DECIDE)] == decide
    if len(whole) > LINES_MAX:
        left_out = int(lines[-1].split()[1])
        assert lines[-1].endswith(AGAIN)
        assert left_out == len(whole) - (len(lines) - 1)
    else:
        assert lines == whole


def test_at_most_three_doubts_are_shown_the_worst_first() -> None:
    text = shortened(TEXTS["stored-bench-tpcc"], AGAIN)
    doubts = [line for line in text.splitlines() if line.startswith(("  NOT VALID", "  doubt"))]
    assert [line[:11].strip() for line in doubts] == ["NOT VALID", "doubt", "doubt"]
    assert "6 more doubts" in text.splitlines()[-1]


def test_every_verdict_stays_and_no_heading_is_left_alone() -> None:
    text = "\n".join(
        [f"verdict     V{n} is faster;\n{'':12}because of something" for n in range(10)]
        + [f"A{n} against B\n  tps  +1 %" for n in range(10)]
        + ["valid       yes; no doubts", "saved       #7"]
    )
    lines = shortened(text, AGAIN).splitlines()
    assert len(lines) <= LINES_MAX
    assert sum(line.startswith("verdict") for line in lines) == 10
    headings = [place for place, line in enumerate(lines) if "against" in line]
    assert all(lines[place + 1].startswith("  tps") for place in headings)


def test_a_table_without_its_rows_has_no_head() -> None:
    text = "\n".join(
        [
            "verdict     a is faster than b",
            *("settings that differ", "  setting         15  18", "  io_method  not read  worker"),
            *("variants", *(f"  v{number}  1,000 tps (930 to 1,080)" for number in range(30))),
            "saved       #1",
        ]
    )
    lines = shortened(text, AGAIN).splitlines()
    assert "saved       #1" in lines
    assert [line for line in lines if line.strip().startswith("setting")] == []


@pytest.mark.parametrize("head", ["#    of time   statement", "type    p50 ms   p90 ms"])
def test_a_table_whose_rows_are_all_left_out_has_no_head(head: str) -> None:
    text = "\n".join(
        [
            "alike       94 % of the time",
            head,
            *(f"{number}      2 %     SELECT {number}" for number in range(8)),
            *(f"tps         {number}" for number in range(21)),
            "saved       #1",
        ]
    )
    lines = shortened(text, AGAIN).splitlines()
    rows = [line for line in lines if line.endswith(tuple(f"SELECT {n}" for n in range(8)))]
    assert (head in lines) == bool(rows)


def test_a_list_of_variants_that_is_cut_says_how_many_there_are() -> None:
    rows = [f"  cell {n}  1 tps\n         jit = on" for n in range(6)]
    text = "\n".join(["answer      x", "variants", *rows, *["stopped     y"] * 30])
    lines = shortened(text, AGAIN).splitlines()
    shown = sum(line.startswith("  cell") for line in lines)
    assert 0 < shown < 6
    assert f"variants    {shown} of 6" in lines
    assert "variants" in shortened("\n".join(["variants", *rows]), AGAIN).splitlines()


def test_a_line_of_many_gaps_is_judged_at_once() -> None:
    axis = "  " + " | ".join(["a" + " " * 30] * 6) + "(b"
    text = "\n".join(["verdict     yes", "heading", axis, *(f"row {n}" for n in range(60))])
    assert len(shortened(text, "pgdyno show -v 1").splitlines()) <= 25
