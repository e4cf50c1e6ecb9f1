"""Judges a run by the rules of the TPC-C specification: NOPM, mix, latency limits, shares.

Source: TPC-C specification, revision 5.11: rollbacks 2.4.1.4, remote payments 2.5.1.2, remote order
lines 2.4.1.5, last names 2.5.1.2 and 2.6.1.2, lowest and highest throughput a warehouse 4.1.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgdyno.analysis.consistency import CheckFindings
from pgdyno.analysis.estimate import Estimate, proportion
from pgdyno.analysis.findings import Latency, ScriptFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.features.tpcc.load import DEFERRED, NEW_ORDER, PROGRAM
from pgdyno.features.tpcc.nurand import DrawnFindings
from pgdyno.quantities import counted, percent, plain

# New-Orders a minute and warehouse, with full keying and think times (4.1.3).
NOPM_PER_WAREHOUSE_MIN, NOPM_PER_WAREHOUSE_MAX = 9, 12.86
_TYPES = {kind.name: kind for kind in PROGRAM.types}
# A share is wrong, and not only by chance, if it differs by more standard errors from its rule.
_OFF_BY_ERRORS = 5.0

Verdict = Literal["ok", "missed", "open"]
"""`open`: the limit is inside the interval, so only a longer run can decide."""


@dataclass(frozen=True, slots=True)
class TypeFindings:
    """One transaction type and its share of all transactions of terminals.

    `mix`: whether the share reaches its minimum. `limit`: whether the 90th percentile of the
    latency is within its limit. The share is None for a type in the background. The `latency` of a
    deferred delivery counts from the moment at which it was queued.
    """

    name: str
    words: str
    count: int
    rolled_back_count: int
    failures: Mapping[str, int]
    retry_count: int
    share: Estimate | None
    minimum_ratio: float | None
    mix: Verdict
    latency: Latency
    limit_s: float
    limit: Verdict


@dataclass(frozen=True, slots=True)
class ShareFindings:
    """An achieved share and the specified one; `is_off`: their difference is not chance."""

    name: str
    words: str
    expected_ratio: float
    count: int
    of_count: int
    share: Estimate
    is_off: bool


@dataclass(frozen=True, slots=True)
class TpccFindings:
    """A TPC-C-like run.

    `nopm`: completed New-Orders a minute, including those rolled back on purpose. `tpm`: all
    transactions of terminals a minute. `options`: of the program. `of_maximum`: the share of the
    highest possible throughput with full keying and think times, None without these times. `drawn`:
    the skew of the customers and items in the orders that the run made.
    """

    nopm: Estimate
    tpm: Estimate
    warehouses: int | None
    think_ratio: float
    options: Mapping[str, str]
    of_maximum: Estimate | None
    types: tuple[TypeFindings, ...]
    shares: tuple[ShareFindings, ...]
    delivered_order_count: int
    skipped_district_count: int
    check: CheckFindings | None = None
    drawn: tuple[DrawnFindings, ...] = ()

    @property
    def figures(self) -> Mapping[str, Estimate]:
        """Return the metrics of the program by their names."""
        return {"nopm": self.nopm}

    @property
    def way(self) -> str:
        """Return in words how the load was run; runs with different words are not comparable."""
        named = {"mode": "statements", "isolation": "read-committed"} | dict(self.options)
        return f"{named['mode']} mode, {named['isolation'].replace('-', ' ')}"


def tpcc_findings(
    scripts: Sequence[ScriptFindings],
    tps: Estimate,
    *,
    warehouses: int | None,
    think_ratio: float,
    options: Mapping[str, str],
    check: CheckFindings | None,
    drawn: tuple[DrawnFindings, ...] = (),
) -> TpccFindings | None:
    """Return the findings of a TPC-C-like run; None if no New-Order was completed.

    Args: scripts, the transaction types of the run; tps, of all types; warehouses, None = not
    known; think_ratio, the factor of keying and think times.
    """
    by_name = {script.name: script for script in scripts}
    if NEW_ORDER not in by_name:
        return None
    total = sum(script.transactions for script in scripts if not script.is_background)
    nopm = by_name[NEW_ORDER].tps.scaled(60, "NOPM")
    of_maximum = None
    if warehouses and think_ratio == 1:
        of_maximum = nopm.scaled(1 / (NOPM_PER_WAREHOUSE_MAX * warehouses), "1")
    deliveries = [kind.counted for name, kind in by_name.items() if name in (DEFERRED, "delivery")]
    return TpccFindings(
        nopm=nopm,
        tpm=tps.scaled(60, "tpm"),
        warehouses=warehouses,
        think_ratio=think_ratio,
        options=dict(options),
        of_maximum=of_maximum,
        types=tuple(_type(script, total) for script in scripts if script.name in _TYPES),
        shares=tuple(_shares(by_name, has_others=warehouses != 1)),
        delivered_order_count=sum(delivery.get("delivered_orders", 0) for delivery in deliveries),
        skipped_district_count=sum(delivery.get("skipped_districts", 0) for delivery in deliveries),
        check=check,
        drawn=drawn,
    )


def _type(script: ScriptFindings, total: int) -> TypeFindings:
    rule = _TYPES[script.name]
    assert rule.p90_limit_s is not None, "each type has a limit"
    share = None if script.is_background else proportion(script.transactions, total)
    mix: Verdict = "ok"
    if share is not None and rule.least_ratio is not None and share.value < rule.least_ratio:
        assert share.high is not None, "a proportion has both ends"
        mix = "missed" if share.high < rule.least_ratio else "open"
    return TypeFindings(
        name=script.name,
        words=rule.words,
        count=script.transactions,
        rolled_back_count=script.rolled_back_count,
        failures=script.failures,
        retry_count=script.retry_count,
        share=share,
        minimum_ratio=rule.least_ratio,
        mix=mix,
        latency=script.latency,
        limit_s=rule.p90_limit_s,
        limit=_limit_verdict(script.latency, rule.p90_limit_s * 1e3),
    )


def _limit_verdict(latency: Latency, limit_ms: float) -> Verdict:
    """Return whether the whole interval of the 90th percentile is within the limit."""
    p90 = latency.percentiles["p90"]
    if latency.max_ms <= limit_ms:
        return "ok"
    if p90.high is not None and p90.high <= limit_ms and not p90.censored:
        return "ok"
    if p90.low is None and not p90.censored:  # One value, without an interval.
        return "ok" if p90.value <= limit_ms else "missed"
    return "missed" if (p90.low or p90.value) > limit_ms else "open"


def _shares(by_name: Mapping[str, ScriptFindings], *, has_others: bool) -> Iterator[ShareFindings]:
    """Yield the achieved shares.

    Args: has_others, whether there is more than one warehouse; with one, nothing is remote.
    """
    orders, payments, statuses = (
        by_name.get(name) for name in (NEW_ORDER, "payment", "order-status")
    )
    back = None if orders is None else (orders.rolled_back_count, orders.transactions)
    remote_lines = _lines(orders) if has_others else None
    remote_payments = _of(payments, "remote") if has_others else None
    known = (
        ("rollback", "New-Order rolled back", 0.01, back),
        ("remote_lines", "order lines from another warehouse", 0.01, remote_lines),
        ("remote_payments", "Payment at another warehouse", 0.15, remote_payments),
        ("payments_by_name", "Payment by last name", 0.60, _of(payments, "by_last_name")),
        ("statuses_by_name", "Order-Status by last name", 0.60, _of(statuses, "by_last_name")),
    )
    for name, words, expected, drawn in known:
        if drawn is None or not 0 <= drawn[0] <= drawn[1] or drawn[1] == 0:
            continue
        count, of_count = drawn
        share = proportion(count, of_count)
        error = math.sqrt(expected * (1 - expected) / of_count)
        is_off = abs(share.value - expected) > max(_OFF_BY_ERRORS * error, 1 / of_count)
        yield ShareFindings(name, words, expected, count, of_count, share, is_off)


def _of(script: ScriptFindings | None, name: str) -> tuple[int, int] | None:
    """Return how many transactions of a type were of one kind, and how many there were in all."""
    if script is None or name not in script.counted:
        return None
    return script.counted[name], script.transactions


def _lines(orders: ScriptFindings | None) -> tuple[int, int] | None:
    """Return how many order lines came from another warehouse, and how many lines there were."""
    if orders is None or "lines" not in orders.counted:
        return None
    return orders.counted.get("remote_lines", 0), orders.counted["lines"]


def tpcc_doubts(findings: TpccFindings) -> Iterator[Doubt]:
    """Yield a doubt for each rule of the specification that a TPC-C-like run breaks.

    `check_doubts` yields violated consistency conditions, because it needs no other details.
    """
    yield from _above_the_maximum(findings)
    yield from _below_the_minimum(findings)
    missed = [kind for kind in findings.types if kind.limit == "missed"]
    if missed:
        words = ", ".join(f"{kind.words} ({kind.limit_s:g} s)" for kind in missed)
        yield Doubt(
            "tpcc_limit",
            "doubt",
            f"The 90th percentile is above the specification's limit for {words}.",
            "offer less load: fewer terminals, or a higher --think-factor",
        )
    below = [kind for kind in findings.types if kind.mix == "missed"]
    if below:
        words = ", ".join(f"{kind.words} {percent(kind.minimum_ratio or 0)}" for kind in below)
        yield Doubt(
            "tpcc_mix",
            "doubt",
            f"The mix is below the specification's minimum: {words}.",
            "use the deck (--mix deck), or higher weights for these types",
        )
    off = [share for share in findings.shares if share.is_off]
    if off:
        words = ", ".join(
            f"{share.words} {percent(share.share.value)} instead of {percent(share.expected_ratio)}"
            for share in off
        )
        yield Doubt(
            "tpcc_shares",
            "doubt",
            f"Shares differ from the specification by more than chance: {words}.",
            "check which transactions failed: they are counted in no share",
        )


def _above_the_maximum(findings: TpccFindings) -> Iterator[Doubt]:
    if not findings.warehouses:
        return
    maximum = NOPM_PER_WAREHOUSE_MAX * findings.warehouses
    these = counted(findings.warehouses, "warehouse")
    if (findings.nopm.low if findings.nopm.low is not None else findings.nopm.value) <= maximum:
        return
    needed = math.ceil(findings.nopm.value / NOPM_PER_WAREHOUSE_MAX)
    yield Doubt(
        "tpcc_above_maximum",
        "doubt",
        f"{plain(findings.nopm.value)} NOPM are more than {these} can give with the specified "
        f"keying and think times ({plain(maximum)}): this much would need "
        f"{counted(needed, 'warehouse')}.",
        "compare it only with runs of the same options and warehouses; --think-factor 1 is the "
        "specified load",
    )


def _below_the_minimum(findings: TpccFindings) -> Iterator[Doubt]:
    """Yield a doubt if the terminals keep their pauses and load the warehouses too little."""
    if not findings.warehouses or findings.think_ratio != 1:
        return
    minimum = NOPM_PER_WAREHOUSE_MIN * findings.warehouses
    if (findings.nopm.high if findings.nopm.high is not None else findings.nopm.value) >= minimum:
        return
    these = counted(findings.warehouses, "warehouse")
    yield Doubt(
        "tpcc_below_minimum",
        "doubt",
        f"{plain(findings.nopm.value)} NOPM are less than {these} must give by the specification "
        f"({plain(minimum)}, which is {NOPM_PER_WAREHOUSE_MIN} per warehouse).",
        "use 10 terminals per warehouse, fewer warehouses, or find out why transactions take long",
    )
