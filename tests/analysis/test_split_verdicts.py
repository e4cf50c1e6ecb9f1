"""Rules about the split of an answer into parts."""

from __future__ import annotations

import pytest
from tests.fixtures.prove import Figure

from pgdyno.analysis.split_verdicts import why_withheld


@pytest.mark.parametrize(
    ("answer_ms", "rest_ms", "overlap_ratio", "words"),
    [
        (68.0, 54.9, 0.5, "no measured part is the reason for 81 % of the difference"),
        (40.0, -47.0, 0.5, "the measured parts exceed the difference by 118 %"),
        (-40.0, 47.0, 0.5, "the measured parts exceed the difference by 118 %"),
        (-68.0, -54.9, 0.5, "no measured part is the reason for 81 % of the difference"),
        (68.0, 10.0, 0.5, ""),
        (-40.0, 10.0, 0.5, ""),
        (100.0, -20.0, 0.15, "the measured parts exceed the difference by 20 %"),
        (
            0.001,
            -1.0,
            0.5,
            "the part of the difference that is not known is larger than the difference",
        ),
        (0.0, 1.0, 0.5, ""),
    ],
)
def test_a_split_whose_rest_is_most_of_the_answer_is_withheld(
    answer_ms: float, rest_ms: float, overlap_ratio: float, words: str, figure: Figure
) -> None:
    reason = why_withheld("difference", answer_ms, rest_ms, overlap_ratio=overlap_ratio)
    truth = "withheld with the reason" if words else "printed"
    split = f"the split of a difference of {answer_ms:g} ms, of which no part has {rest_ms:g} ms"
    figure(split, truth=truth, seen=reason or "printed")
    assert reason == words
