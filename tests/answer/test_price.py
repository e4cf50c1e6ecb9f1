"""What 1,000 transactions a second cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.generated import generate
from pydantic import ValidationError

from pgdyno.analysis.estimate import Estimate
from pgdyno.answer.served import cost_of
from pgdyno.designs import answer_of, page_of, words_of
from pgdyno.report.compare_blocks import compare_sections
from pgdyno.report.compare_documents import compare_body
from pgdyno.spec.variant import Variant, merged
from pgdyno.spec.variant_text import variant_from
from pgdyno.store.experiment import Store


def test_a_price_becomes_the_cost_of_1000_tps_with_an_interval(tmp_path: Path) -> None:
    prices = ("100 EUR/month", "150 EUR/month")
    folder = generate(Store(tmp_path), rounds=5, effect_ratio=0.2, noise_ratio=0.01, prices=prices)
    findings = answer_of(folder)
    assert findings.compare is not None
    before, after = findings.compare.variants
    assert before.cost is not None
    assert after.cost is not None
    assert before.cost.unit == "EUR/month per 1,000 tps"
    assert before.cost.value == pytest.approx(100_000 / before.metrics["tps"].value)
    assert before.cost.low == pytest.approx(100_000 / (before.metrics["tps"].high or 0))
    assert after.cost.value > before.cost.value  # a fifth faster, half as dear again
    assert "EUR/month per 1,000 tps" in " ".join(words_of(findings).split())
    assert '<th class="l">EUR/month per 1,000 tps</th>' in page_of(findings)
    document = compare_body(findings)
    assert document["variants"][1]["cost"]["unit"] == "EUR/month per 1,000 tps"
    [variants] = [block for block in compare_sections(findings) if block.anchor == "variants"]
    table = variants.tables[0]
    assert "EUR/month per 1,000 tps" in [column.name for column in table.columns]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_the_column_of_costs_needs_a_price(tmp_path: Path) -> None:
    findings = answer_of(generate(Store(tmp_path), rounds=2, effect_ratio=0.2, noise_ratio=0.01))
    assert findings.compare is not None
    assert [variant.cost for variant in findings.compare.variants] == [None, None]
    assert "per 1,000 tps" not in words_of(findings)


def test_a_price_does_not_change_the_server() -> None:
    variant = Variant(name="big", price="0.52 USD/h")
    assert variant.cost == (0.52, "USD/h")
    assert variant.changes() == {}
    assert merged("pass", [variant, Variant(name="x")]).price == "0.52 USD/h"
    assert variant_from("big: price=312 EUR/month").cost == (312.0, "EUR/month")


@pytest.mark.parametrize("text", ["", "312", "EUR 312", "-1 EUR", "0 EUR/month", "much"])
def test_a_wrong_price_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(ValidationError, match="it needs an amount and a unit"):
        Variant(name="x", price=text)


def held(value: float, *, censored: bool = False) -> Estimate:
    high = None if censored else value * 1.25
    return Estimate(value, value * 0.8, high, 9, "tps", "between_runs", censored)


def test_the_cost_of_a_load_turns_its_interval_round() -> None:
    cost = cost_of(Variant(name="x", price="50 EUR/month"), held(500))
    assert cost is not None
    assert (cost.low, cost.value, cost.high) == pytest.approx((80, 100, 125))


def test_an_open_capacity_has_no_cost() -> None:
    assert cost_of(Variant(name="x", price="50 EUR/month"), held(500, censored=True)) is None
    assert cost_of(Variant(name="x", price="50 EUR/month"), None) is None
    assert cost_of(Variant(name="x"), held(500)) is None
