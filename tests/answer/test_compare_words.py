"""Verdicts and reasons in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.plan.simulated_server import carry_out, noisy
from tests.plan.simulated_server import comparison as asked
from tests.report.compare_examples import CHANGE, DIFFERENCE, comparison, ratio

from pgdyno.analysis.compare import Verdict
from pgdyno.analysis.compare_findings import Pair
from pgdyno.analysis.estimate import without_interval
from pgdyno.analysis.rounding import change_text
from pgdyno.answer.compare_words import (
    RoundsEstimate,
    because_words,
    round_words,
    verdict_sentence,
)
from pgdyno.plan.designs.compare import Compare


def sentence(verdict: Verdict, **changes: object) -> str:
    options: dict[str, object] = {
        "others": {},
        "because": "",
        "effort": "12 rounds, 24 runs, 31 min",
        "rounds": "",
        "left_ns": None,
        "enough": None,
        "can_hold": True,
        **changes,
    }
    contrast = comparison(verdict, ratio(1.371, 1.35, 1.394))
    return verdict_sentence("4GB", "128MB", "tps", contrast, **options)  # type: ignore[arg-type]


def test_a_verdict_says_numbers_reason_and_effort() -> None:
    others = {"p99": comparison("lower", ratio(0.72, 0.67, 0.78))}
    assert sentence("faster", others=others, because="because of rain") == (
        "4GB is faster than 128MB: tps +37.1 % (35.0 to 39.4), p99 -28.0 % (-33.0 to -22.0); "
        "because of rain; 12 rounds, 24 runs, 31 min."
    )


def test_no_difference_says_how_large_one_could_be() -> None:
    assert sentence("no difference").startswith("4GB and 128MB differ by no more than 2 %: tps")


def test_an_undecided_comparison_estimates_the_missing_time() -> None:
    said = sentence("cannot tell", left_ns=840_000_000_000)
    assert said.startswith("cannot tell yet whether 4GB and 128MB differ")
    assert "about 14 min more" in said


def test_an_undecided_end_says_how_many_rounds_would_decide_and_how_long_they_take() -> None:
    said = sentence("cannot tell", enough=RoundsEstimate(520, 36_000_000_000_000))
    assert "520 rounds in 10.0 h would decide (start again with --rounds 520)" in said


def test_rounds_that_agree_without_a_verdict_are_named() -> None:
    values = ((1000.0, 1250.0), (1600.0, 1900.0), (1100.0, 1600.0))
    pairs = [Pair(number, *pair) for number, pair in enumerate(values, 1)]
    wide = comparison("cannot tell", ratio(1.3, 0.9, 1.8))
    assert round_words(pairs, wide, "tps") == (
        "tps was higher in all 3 rounds; the interval is wide because this machine's speed changed"
        " by 60 %"
    )
    faster = comparison("faster", ratio(1.3, 1.05, 1.8))
    assert round_words(pairs, faster, "tps").startswith(
        # The least is 18.75 %.
        "all 3 rounds agree: at least 18 % faster in each"
    )
    down = [*pairs, Pair(4, 1000.0, 990.0)]
    assert "rounds" not in round_words(down, wide, "tps")


def test_a_note_says_that_the_rate_was_not_held() -> None:
    assert "4GB cannot hold the rate" in sentence("faster", can_hold=False)


def test_the_reason_names_only_parts_that_are_sure_and_go_the_same_way() -> None:
    assert because_words(DIFFERENCE, ()) == (
        "because IO:WALSync fell by 0.90 ms per transaction (1.00 ms less in total)"
    )


def test_a_changed_plan_is_the_first_reason() -> None:
    assert because_words(DIFFERENCE, (CHANGE, replace(CHANGE, line=9))) == (
        "because tx4.sql:2 changed its plan: Index Scan i -> Seq Scan t, and 1 more"
    )


def test_a_reason_needs_a_part_whose_change_is_certain() -> None:
    unsure = tuple(part for part in DIFFERENCE.parts if part.name == "CPU")
    assert because_words(replace(DIFFERENCE, parts=unsure), ()) == ""
    assert because_words(None, ()) == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (ratio(1.371, 1.35, 1.394), "+37.1 % (35.0 to 39.4)"),
        (ratio(0.5, 0.2, 4.0), "-50 % (-80 to +300)"),
        (ratio(1.0001, 0.9990, 1.0012), "0.01 % (-0.10 to +0.12)"),
        (without_interval(1.03, "1"), "+3.0 % (no interval yet)"),
        (ratio(208.04, 155.4, 278.5), "210 times (160 to 280)"),
        (ratio(12.0, 8.0, 18.0), "+1,100 % (700 to 1,700)"),
        (ratio(1.29, 1.003, 1.65), "+29 % (0.3 to 65)"),
        (ratio(1.29, 0.997, 1.65), "+29 % (-0.3 to +65)"),
        (ratio(0.71, 0.35, 0.9996), "-29 % (-65 to -0.04)"),
        (ratio(1.0, 0.7, 1.3), "0 % (-30 to +30)"),
    ],
)
def test_a_ratio_is_shown_as_a_change(change: object, text: str) -> None:
    assert change_text(change).lstrip("+") == text.lstrip("+")  # type: ignore[arg-type]


def test_the_outlook_is_shown_only_after_whole_rounds() -> None:
    history = carry_out(asked(), noisy(11, truth=(1000, 1050))).history
    assert Compare(asked()).outlook(history[:3]) == ""
    after = Compare(asked()).outlook(history[:12])
    assert after.startswith("round 6: B tps +")
    assert "decided in about" in after
    assert Compare(asked()).outlook(history).endswith(", decided")


def test_the_outlook_says_that_the_budget_is_too_small() -> None:
    history = carry_out(asked(), noisy(11, truth=(1000, 1050))).history[:12]
    short = Compare(asked(budget="100s")).outlook(history)
    assert "more than the rest of the budget" in short


def test_a_part_below_a_tenth_is_not_a_reason() -> None:
    small = tuple(part for part in DIFFERENCE.parts if part.name == "IO:WALSync")
    whole = replace(DIFFERENCE, latency_ms=DIFFERENCE.latency_ms.scaled(20, "ms"), parts=small)
    assert because_words(whole, ()) == ""
