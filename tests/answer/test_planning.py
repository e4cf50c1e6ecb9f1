"""Planning and JIT are parts of the server's time, whatever was counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.test_time_blocks import where

from pgdyno.analysis.split_verdicts import split_doubts
from pgdyno.answer import planning
from pgdyno.answer.planning import with_planning


@pytest.mark.parametrize(
    ("counted", "shown", "too_long_ms"),
    [
        ((0.2, 0.3), (0.2, 0.3), 0.0),
        ((1.0, None), (1.0, None), 0.0),
        ((None, None), (None, None), 0.0),
        ((3.0, 1.0), (0.75, 0.25), 4.0),
        ((None, 5.0), (None, 1.0), 5.0),
    ],
)
def test_a_part_is_never_larger_than_its_whole_and_a_doubt_names_it(
    monkeypatch: pytest.MonkeyPatch,
    counted: tuple[float | None, float | None],
    shown: tuple[float | None, float | None],
    too_long_ms: float,
) -> None:
    monkeypatch.setattr(planning, "planning_ms", lambda *_: counted[0])
    monkeypatch.setattr(planning, "compiling_ms", lambda *_: counted[1])
    whole = replace(where(), server_ms=1.0)
    split = with_planning(whole, None, None, [])  # type: ignore[arg-type]
    assert (split.planning_ms, split.compiling_ms) == shown
    assert split.planned_too_long_ms == too_long_ms
    kinds = {doubt.kind: doubt.message for doubt in split_doubts(split)}
    assert ("planning_too_long" in kinds) is bool(too_long_ms)
    if too_long_ms:
        assert f"counted {too_long_ms:.2f} ms" in kinds["planning_too_long"]


@pytest.mark.parametrize("counted_ms", [None, 0.5])
def test_a_server_that_did_nothing_has_no_planning(
    monkeypatch: pytest.MonkeyPatch, counted_ms: float | None
) -> None:
    monkeypatch.setattr(planning, "planning_ms", lambda *_: counted_ms)
    monkeypatch.setattr(planning, "compiling_ms", lambda *_: None)
    # A load that failed at once: the difference of two times was below 0.
    idle = replace(where(), server_ms=-0.001)
    split = with_planning(idle, None, None, [])  # type: ignore[arg-type]
    assert split.planning_ms == (None if counted_ms is None else 0.0)
