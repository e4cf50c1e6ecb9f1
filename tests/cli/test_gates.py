"""The message of a failed gate has the values it was judged by, and the next step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report import examples
from tests.report.compare_examples import compared

from pgdyno.analysis.estimate import without_interval
from pgdyno.cli.measure import judged
from pgdyno.spec.condition import condition_from


def test_a_comparison_without_an_interval_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    findings = compared()
    assert findings.compare is not None
    early = tuple(
        replace(
            contrast,
            comparisons={
                name: replace(comparison, ratio=without_interval(comparison.ratio.value, "1"))
                for name, comparison in contrast.comparisons.items()
            },
        )
        for contrast in findings.compare.contrasts
    )
    findings = replace(findings, compare=replace(findings.compare, contrasts=early))
    assert judged([condition_from("tps_ratio>9")], findings)
    said = " ".join(capsys.readouterr().err.split())
    assert "tps_ratio>9 (tps_ratio 1.37, no interval yet)." in said
    assert "needs at least 3 rounds" in said
    assert "n = 1" not in said


def test_a_gate_of_one_script_is_judged_on_that_script() -> None:
    findings = examples.bench()
    assert findings.run is not None
    script = findings.run.scripts[0]
    limit = f"{script.name}.p99<{10 * script.latency.max_ms:.0f}ms"
    assert not judged([condition_from(limit, takes_types=True)], findings)
    for text in (f"{script.name}.p99<1us", "another.p99<60min"):
        assert judged([condition_from(text, takes_types=True)], findings)


def test_the_result_of_a_check_shows_its_interval(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not judged([condition_from("tps>1000")], examples.bench())
    assert judged([condition_from("tps>1890")], examples.bench())
    said = " ".join(capsys.readouterr().err.split())
    assert "CHECK FAILED tps>1890 (tps 1,892 tps, 1,861 to 1,923)." in said
    assert "judged on the unfavourable end" in said
