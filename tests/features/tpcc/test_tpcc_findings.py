"""What the specification asks of a TPC-C-like run, judged from counts known beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.analysis.consistency import CheckFindings, ConditionFindings, check_doubts
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import Latency, ScriptFindings
from pgdyno.features.tpcc.findings import TpccFindings, tpcc_doubts, tpcc_findings

COUNTS = {
    "new-order": 4480, "payment": 4320, "order-status": 400, "delivery": 400, "stock-level": 400,
}  # fmt: skip
COUNTED = {
    "new-order": {"lines": 44_800, "remote_lines": 448, "remote_orders": 430},
    "payment": {"remote": 648, "by_last_name": 2592},
    "order-status": {"by_last_name": 240},
}


def within(value: float, half: float, unit: str) -> Estimate:
    return Estimate(value, value - half, value + half, 40, unit, "within_run")


def latency(p90_ms: float, *, half_ms: float = 0.5, max_ms: float = 30_000) -> Latency:
    names = ("p50", "p90", "p95", "p99", "p999")
    latencies = {name: within(p90_ms, half_ms, "ms") for name in names}
    return Latency(within(p90_ms, half_ms, "ms"), latencies, max_ms)


def script(name: str, count: int, p90_ms: float = 20) -> ScriptFindings:
    return ScriptFindings(
        name=name,
        weight=1,
        transactions=count,
        failures={},
        tps=within(count / 60, count / 600, "tps"),
        latency=latency(p90_ms),
        statements=(),
        program="tpcc-like",
        rolled_back_count=45 if name == "new-order" else 0,
        counted=COUNTED.get(name, {}),
    )


def scripts(**changes: int) -> list[ScriptFindings]:
    return [script(name, changes.get(name.replace("-", "_"), n)) for name, n in COUNTS.items()]


def findings(
    some: list[ScriptFindings] | None = None, *, warehouses: int = 400, think: float = 0.0
) -> TpccFindings:
    tpcc = tpcc_findings(
        scripts() if some is None else some,
        within(10_000 / 60, 5, "tps"),
        warehouses=warehouses,
        think_ratio=think,
        options={"mode": "pipeline"},
        check=None,
    )
    assert tpcc is not None
    return tpcc


def kinds(tpcc: TpccFindings) -> list[str]:
    return [doubt.kind for doubt in tpcc_doubts(tpcc)]


def test_nopm_are_new_orders_a_minute_with_their_interval() -> None:
    tpcc = findings()
    assert tpcc.nopm.value == pytest.approx(4480)
    assert tpcc.nopm.low == pytest.approx(4032)
    assert tpcc.tpm.value == pytest.approx(10_000)
    assert tpcc.way == "pipeline mode, read committed"


def test_a_run_as_specified_has_no_doubt() -> None:
    tpcc = findings()
    assert kinds(tpcc) == []
    assert {
        transaction_type.name: transaction_type.mix for transaction_type in tpcc.types
    } == dict.fromkeys(COUNTS, "ok")
    assert all(transaction_type.limit == "ok" for transaction_type in tpcc.types)
    assert [share.share.value for share in tpcc.shares] == pytest.approx(
        [45 / 4480, 0.01, 0.15, 0.6, 0.6]
    )


def test_the_share_of_the_maximum_needs_full_keying_and_think_times() -> None:
    assert findings().of_maximum is None
    share = findings(think=1).of_maximum
    assert share is not None
    assert share.value == pytest.approx(4480 / (12.86 * 400))


def test_more_than_the_warehouses_can_give_is_doubted() -> None:
    tpcc = findings(warehouses=10)
    [doubt] = tpcc_doubts(tpcc)
    assert doubt.kind == "tpcc_above_maximum"
    assert "10 warehouses" in doubt.message
    assert "349 warehouses" in doubt.message


def test_less_than_the_warehouses_must_give_is_doubted_with_full_pauses_alone() -> None:
    # 4,480 NOPM, at most 4,928: 9 per warehouse are 5,400 with 600 warehouses, 4,500 with 500.
    [doubt] = tpcc_doubts(findings(warehouses=600, think=1))
    assert doubt.kind == "tpcc_below_minimum"
    assert "600 warehouses must give by the specification (5,400, which is 9 per" in doubt.message
    assert kinds(findings(warehouses=500, think=1)) == []
    assert kinds(findings(warehouses=600, think=0.5)) == []


def test_a_share_below_the_minimum_counts_only_beyond_chance() -> None:
    few = findings(scripts(stock_level=300))
    assert kinds(few) == ["tpcc_mix"]
    near = findings(scripts(stock_level=390))
    assert [transaction_type.mix for transaction_type in near.types][-1] == "open"
    assert kinds(near) == []


@pytest.mark.parametrize(
    ("p90_ms", "half_ms", "max_ms", "verdict"),
    [
        (4900, 50, 9000, "ok"),
        (5100, 50, 9000, "missed"),
        (4990, 50, 9000, "open"),
        (4990, 50, 4999, "ok"),
    ],
)
def test_a_limit_is_judged_on_the_whole_interval(
    p90_ms: float, half_ms: float, max_ms: float, verdict: str
) -> None:
    slow = replace(
        script("new-order", 4480), latency=latency(p90_ms, half_ms=half_ms, max_ms=max_ms)
    )
    tpcc = findings([slow, *scripts()[1:]])
    assert tpcc.types[0].limit == verdict
    assert kinds(tpcc) == (["tpcc_limit"] if verdict == "missed" else [])


def test_nothing_is_remote_with_one_warehouse() -> None:
    names = [share.name for share in findings(warehouses=1).shares]
    assert names == ["rollback", "payments_by_name", "statuses_by_name"]


def test_a_share_that_is_not_chance_is_doubted() -> None:
    payment = replace(script("payment", 4320), counted={"remote": 0, "by_last_name": 2592})
    tpcc = findings([scripts()[0], payment, *scripts()[2:]])
    [doubt] = tpcc_doubts(tpcc)
    assert doubt.kind == "tpcc_shares"
    assert "Payment at another warehouse 0 % instead of 15 %" in doubt.message


def test_deferred_deliveries_are_in_no_share() -> None:
    behind = replace(
        script("deferred-delivery", 400),
        is_background=True,
        counted={"delivered_orders": 3990, "skipped_districts": 10},
    )
    tpcc = findings([*scripts(), behind])
    assert tpcc.types[-1].share is None
    assert tpcc.types[0].share is not None
    assert tpcc.types[0].share.value == pytest.approx(0.448)
    assert (tpcc.delivered_order_count, tpcc.skipped_district_count) == (3990, 10)


def test_a_run_without_new_orders_has_no_tpcc_findings() -> None:
    nothing = tpcc_findings(
        scripts()[1:], within(1, 0.1, "tps"), warehouses=1, think_ratio=0, options={}, check=None
    )
    assert nothing is None


def test_violated_conditions_make_one_verdict_and_name_their_warehouses() -> None:
    check = CheckFindings(
        (
            ConditionFindings(1, "w_ytd = sum(d_ytd)", {7: 1}),
            ConditionFindings(2, "holds", {}),
            ConditionFindings(3, "other", {1: 2, 2: 2, 3: 1, 4: 1}),
        ),
        0.5,
    )
    [doubt] = check_doubts(check, "tpcc", "warehouse")
    assert doubt.verdict == "not_valid"
    assert "1 (w_ytd = sum(d_ytd)): 1 violation, warehouse 7;" in doubt.message
    assert "6 violations, warehouse 1, 2, 3, ..." in doubt.message
    [unknown] = check_doubts(CheckFindings((), 0, "the server is gone"), "tpcc", "")
    assert unknown.verdict == "doubt"
    assert list(check_doubts(None, "", "")) == []
