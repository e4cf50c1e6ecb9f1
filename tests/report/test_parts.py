"""Where the time goes, as it is shown: order, words, classes, folding."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.report import examples

from pgdyno.analysis.estimate import without_interval
from pgdyno.analysis.where import LatencyPart, WhereTheTimeGoes
from pgdyno.report import palette
from pgdyno.report.embed import captioned_json
from pgdyno.report.parts import (
    fold,
    in_bar_order,
    legend_of_parts,
    parts_of,
    parts_of_all,
    words_of,
)


def with_small_parts() -> tuple[LatencyPart, ...]:
    names = ("IPC:A", "IPC:B", "IPC:C", "IPC:D")
    return tuple(LatencyPart(name, without_interval(0.01, "ms"), "server") for name in names)


def test_parts_and_what_is_not_explained_sum_to_the_latency() -> None:
    where = examples.where()
    assert sum(p.ms.value for p in parts_of(where)) == pytest.approx(where.latency_ms.value)


def test_the_largest_part_is_first_and_the_rest_last() -> None:
    names = [part.name for part in parts_of(examples.where())]
    assert names[:2] == ["IO:WALSync", "network"]
    assert names[-1] == "not explained"


def test_small_parts_become_one_and_the_sum_stays() -> None:
    where = examples.where()
    parts = parts_of(replace(where, parts=(*where.parts, *with_small_parts())))
    folded = fold(parts, at_most=6)
    assert len(folded) == 6
    assert [part.words for part in folded][-2:] == ["other: 6 parts", "not explained"]
    assert sum(p.ms.value for p in folded) == pytest.approx(sum(p.ms.value for p in parts))


def test_one_small_part_is_shown_under_its_own_name() -> None:
    where = examples.where()
    parts = parts_of(replace(where, parts=(*where.parts, with_small_parts()[0])))
    assert "IPC:A" in [part.name for part in fold(parts, at_most=10)]


def test_tables_that_fit_are_not_folded() -> None:
    parts = parts_of(examples.where())
    assert fold(parts, at_most=len(parts)) == parts


@pytest.mark.parametrize("name", ["IO:WALSync", "IO:WalSync"])
def test_names_of_old_and_new_versions_have_the_same_words(name: str) -> None:
    assert words_of(name) == "commit: WAL flush to disk"


def test_an_event_without_words_keeps_its_name() -> None:
    assert words_of("Extension:Mine") == "Extension:Mine"


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("CPU", "cpu"), ("CPU or not instrumented", "cpu"), ("waiting for a core", "cpu"),
        ("server", "cpu"), ("IO:WalSync", "io"), ("LWLock:WALWrite", "lwlock"),
        ("Lock:tuple", "lock"), ("network", "network"), ("Client:ClientRead", "network"),
        ("client", "client"), ("schedule lag", "client"), ("IPC:SyncRep", "other"),
        ("not explained", "residual"),
    ],
)  # fmt: skip
def test_every_part_belongs_to_a_class(name: str, wait: str) -> None:
    assert palette.wait_class(name) == wait


def test_one_class_is_one_stretch_of_the_bar() -> None:
    waits = [part.wait for part in in_bar_order(parts_of(examples.where()))]
    assert waits == sorted(waits, key=list(palette.WAIT_CLASS_NAMES).index)


def test_usual_parts_look_the_same_whatever_their_order() -> None:
    cpu, core = palette.shades(("CPU", "waiting for a core"))
    assert palette.shades(("waiting for a core", "CPU")) == (core, cpu)


def test_two_events_of_one_class_share_the_hue_but_not_the_look() -> None:
    first, second = palette.roles(("IO:WALSync", "IO:DataFileRead"))
    assert first.css == "io"
    assert second.css == "io-2"
    assert first.dash != second.dash


@pytest.mark.parametrize("count", range(1, 14))
def test_never_more_parts_are_shown_than_there_are_signs_for(count: int) -> None:
    # Eight signs tell the parts of the text's bar apart; eight parts of one size once needed nine.
    waits = tuple(
        LatencyPart(f"IPC:Event{number}", without_interval(1.0, "ms"), "server")
        for number in range(count)
    )
    parts = parts_of(replace(examples.where(), parts=waits))
    folded = fold(parts, at_most=8)
    assert len(folded) <= 8
    assert sum(p.ms.value for p in folded) == pytest.approx(sum(p.ms.value for p in parts))


def test_eighteen_things_in_one_chart_all_look_different() -> None:
    looks = palette.roles(tuple(f"variant {number}" for number in range(18)))
    assert len(set(looks)) == 18


def split(**parts: float) -> WhereTheTimeGoes:
    """Return a latency that is the sum of these parts."""
    made = tuple(
        LatencyPart(name, without_interval(ms, "ms"), "server") for name, ms in parts.items()
    )
    return replace(
        examples.where(),
        latency_ms=without_interval(sum(parts.values()), "ms"),
        parts=made,
        residual_ms=0.0,
        residual_ratio=0.0,
        residual=None,
    )


def test_a_part_has_one_look_in_all_bars_and_a_legend_has_a_name_for_each_look() -> None:
    # By itself each bar would give its first LWLock the deepest shade.
    first = split(CPU=1.0, **{"waiting for a core": 2.0, "LWLock:WALWrite": 0.5})
    second = split(CPU=2.0, **{"LWLock:LockManager": 0.4, "LWLock:ProcArray": 0.1})
    bars = parts_of_all([first, second])
    looks: dict[str, set[str]] = {}
    for part in (part for bar in bars for part in bar):
        looks.setdefault(part.name, set()).add(part.role.css)
    assert all(len(of_part) == 1 for of_part in looks.values())
    drawn = {part.role.css for bar in bars for part in bar if part.ms.value > 0}
    legend = legend_of_parts(bars)
    assert {part.role.css for _, part in legend} == drawn
    names = [name for name, _ in legend]
    assert len(names) == len({*names}) == len(drawn)
    assert "server CPU" in names
    assert "server CPU: waiting for a core" in names


def test_a_class_with_one_look_has_its_own_name_and_a_shared_look_says_how_many() -> None:
    events = ("WALWrite", "LockManager", "ProcArray", "BufferContent")
    bar = split(**{"IO:WALSync": 1.0}, **{f"LWLock:{name}": 0.3 for name in events})
    names = [name for name, _ in legend_of_parts(parts_of_all([bar]))]
    assert "disk and WAL (IO)" in names
    assert "internal locks (LWLock): 2 more" in names


def test_texts_of_charts_are_printable_after_the_page_has_read_them() -> None:
    hostile = "a\u202eb\u200bc\x1bd<e\U000e0041"
    read = json.loads(captioned_json("n", hostile, ()))
    assert read["caption"].startswith("a\\u202eb\\u200bc")
    assert not set(read["caption"]) & {"\u202e", "\u200b", "\U000e0041"}
