"""The first sentence of an answer: words of everyday, and the same figures as the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.compare_examples import compared, comparison, ratio

from pgdyno.analysis.compare import Verdict
from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.analysis.estimate import Estimate
from pgdyno.report import in_short


def findings(metric: str, verdict: Verdict, value: Estimate, *, weak: str = "") -> CompareFindings:
    """Return `off` against `on` by one metric; `weak`: a setting that weakens durability."""
    own = compared().compare
    assert own is not None
    [contrast, *_] = own.contrasts
    named = replace(
        contrast, variant="off", reference="on", deciding=comparison(verdict, value), comparisons={}
    )
    variants = tuple(
        replace(own.variants[0], name=name, weakened=(weak,) if weak and name == "off" else ())
        for name in ("on", "off")
    )
    return replace(own, metric=metric, contrasts=(named,), variants=variants)


@pytest.mark.parametrize(
    ("metric", "verdict", "value", "said"),
    [
        (
            *("tps", "faster", ratio(3.1, 2.8, 3.4)),
            "With off the server did 3.10 times (2.80 to 3.40) as many transactions a second as"
            " with on.",
        ),
        (
            *("tps", "faster", ratio(1.12, 1.08, 1.16)),
            "With off the server did 12.0 % (8.0 to 16.0) more transactions a second than with on.",
        ),
        (
            *("tps", "slower", ratio(0.88, 0.84, 0.92)),
            "With off the server did 12.0 % (8.0 to 16.0) fewer transactions a second than with"
            " on.",
        ),
        (
            *("p99", "lower", ratio(0.7, 0.6, 0.8)),
            "With off, the time of the slowest 1 % of answers was 30.0 % (20.0 to 40.0) less than"
            " with on.",
        ),
        (
            *("tps", "no difference", ratio(1.0, 0.99, 1.01)),
            "The number of transactions a second is the same with off and on, as far as it"
            " matters.",
        ),
        (
            *("tps", "cannot tell", ratio(0.94, 0.74, 1.19)),
            "It is not known whether off is better than on: the number of transactions a second"
            " changed by -6 % (-26 to +19).",
        ),
    ],
)
def test_a_comparison_is_one_sentence_without_words_of_the_field(
    metric: str, verdict: Verdict, value: Estimate, said: str
) -> None:
    words = in_short.of_compare(findings(metric, verdict, value))
    # The names "on" and "off" do not say which setting they are of.
    assert words == f"shared_buffers: {said[0].lower()}{said[1:]}"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("synchronous_commit", "a crash can lose the commits of the last 0.6 s"),
        ("fsync", "a crash can damage the whole database"),
        ("full_page_writes", "a crash can damage the whole database"),
    ],
)
def test_a_gain_is_never_without_what_a_crash_takes(setting: str, said: str) -> None:
    words = in_short.of_compare(findings("tps", "faster", ratio(3.1, 2.8, 3.4), weak=setting))
    assert f"; with off, {said}" in words


def test_a_name_with_a_comma_is_quoted() -> None:
    own = findings("tps", "faster", ratio(3.1, 2.8, 3.4))
    named = replace(own.contrasts[0], variant="off, 8 clients", reference="on, 8 clients")
    words = in_short.of_compare(replace(own, contrasts=(named,)))
    assert words.startswith('shared_buffers: with "off, 8 clients" the server did')
    assert words.endswith('as with "on, 8 clients".')


def test_comparisons_that_are_not_decided_are_one_sentence() -> None:
    own = findings("tps", "cannot tell", ratio(0.94, 0.74, 1.19))
    others = [replace(own.contrasts[0], variant=f"off {n}", reference=f"on {n}") for n in (1, 8)]
    words = in_short.of_compare(replace(own, contrasts=tuple(others)))
    assert "it is not known whether off 1 is better than on 1, or off 8 than on 8" in words
    assert "%" not in words


def test_if_the_throughput_does_not_decide_latencies_that_do_are_said() -> None:
    own = findings("tps", "cannot tell", ratio(0.94, 0.74, 1.19))
    others = {
        "p99": comparison("lower", ratio(0.27, 0.23, 0.32)),
        "p50": comparison("higher", ratio(2.4, 2.1, 2.7)),
    }
    words = in_short.of_compare(
        replace(own, contrasts=(replace(own.contrasts[0], comparisons=others),))
    )
    assert "changed by -6 % (-26 to +19), but with off, the time of the slowest 1 %" in words
    assert "0.27 times (0.23 to 0.32) that with on" in words
    assert "and with off, the typical answer time was 2.40 times (2.10 to 2.70)" in words
