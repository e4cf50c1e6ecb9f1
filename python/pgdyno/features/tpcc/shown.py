"""A TPC-C-like run as blocks for every form of the answer: lines, tiles, tables, JSON keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno import quantities
from pgdyno.analysis.consistency import CheckFindings
from pgdyno.analysis.findings import RunFindings
from pgdyno.features.tpcc.findings import TpccFindings, TypeFindings, Verdict
from pgdyno.quantities import fixed
from pgdyno.report import numbers
from pgdyno.report.blocks import (
    Block,
    BlockSection,
    DocumentKeys,
    FirstCharts,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tile,
    number_tile,
)
from pgdyno.report.documents import latency_document
from pgdyno.report.words import failures_text

Row = tuple[str, ...]
_TYPE_COLUMNS = (
    TableColumn("type"),
    TableColumn("count"),
    TableColumn("share"),
    TableColumn("p50", "ms"),
    TableColumn("p90", "ms"),
    TableColumn("limit of p90"),
    TableColumn("p99", "ms"),
    TableColumn("failed", meaning="failed, retried, rolled back", is_words=True),
)
_SHARE_COLUMNS = tuple(map(TableColumn, ("share", "specified", "measured", "interval", "counted")))
_CHECK_COLUMNS = (
    TableColumn("condition"),
    TableColumn("rule", is_name=True),
    TableColumn("violations"),
    TableColumn("warehouses", is_last_to_fit=True),
)
_SKEW_COLUMNS = tuple(map(TableColumn, ("skew of the run's rows", "rows", "chi-square", "verdict")))
_VERDICTS: dict[Verdict, str] = {"ok": "ok", "missed": "MISSED", "open": "cannot tell"}


def shown_of(run: RunFindings) -> BlockSection:
    """Return what the program adds to the answer of a run."""
    own: TpccFindings = run.program.own
    return BlockSection(
        title="TPC-C-like run",
        anchor="tpcc",
        short="TPC-C",
        lead=f"{nopm_words(own, with_unit=True)}. NOPM counts completed New-Orders per minute, with"
        " those that the specification rolls back. It is not tpmC: that name belongs to audited"
        " results.",
        blocks=(
            *_tiles(run, own),
            *_blocks(own),
            FirstCharts(("nopm", "types")),
            DocumentKeys(_document(own)),
        ),
    )


def _blocks(own: TpccFindings) -> Iterator[Block]:
    """Yield NOPM, the types, the shares of the mix, and the check of the data."""
    yield LabelledLine("NOPM", nopm_words(own))
    yield LabelledLine("tpm", numbers.estimate_text(own.tpm))
    words = delivery_words(own)
    yield TableBlock(
        "Transaction types",
        _TYPE_COLUMNS,
        tuple(_type_rows(own)),
        note="limits of the specification, for the 90th percentile",
        below=f"Deliveries: {words}." if words else "",
        short_row_count=len(own.types),
        is_of_types=True,
    )
    if words:
        yield LabelledLine("delivery", words)
    drawn = ", ".join(
        f"{row[0]} {row[2]} ({row[1]})" + " DIFFERS" * share.is_off
        for share, row in zip(own.shares, _share_rows(own), strict=True)
    )
    if drawn:
        yield LabelledLine("drawn", f"{drawn}; in brackets: specified")
    if own.shares:
        note = "and what the specification asks for"
        yield TableBlock("What was drawn", _SHARE_COLUMNS, tuple(_share_rows(own)), note)
    if own.check is not None:
        yield LabelledLine("consistency", _check_words(own.check))
        if own.check.conditions:
            yield TableBlock(
                "Consistency after the run",
                _CHECK_COLUMNS,
                tuple(_check_rows(own.check)),
                summary=f"Consistency of the data: {_check_words(own.check)}",
                is_open=bool(own.check.violated),
            )
    if own.drawn:
        skew = "; ".join(f"{draw.words}: {draw.verdict_words}" for draw in own.drawn)
        yield LabelledLine("skew", skew)
        note = "in the orders that the run made, against NURand of the specification"
        yield TableBlock("Skew of customers and items", _SKEW_COLUMNS, tuple(_skew_rows(own)), note)


def _tiles(run: RunFindings, own: TpccFindings) -> Iterator[Tile]:
    """Yield NOPM, the 90th percentile of New-Order, all transactions, and the check."""
    yield number_tile("New-Orders", own.nopm, quantities.counted(run.clients, "terminal"))
    for kind in own.types[:1]:
        yield number_tile(f"p90 of {kind.words}", kind.latency.percentiles["p90"])
    yield number_tile("all types", own.tpm, own.way)
    check = own.check
    if check is not None and not check.why_not:
        held, total = len(check.conditions) - len(check.violated), len(check.conditions)
        yield Tile(
            "consistency",
            f"{held} of {total}",
            range_text=quantities.seconds(check.duration_s),
            tone="bad" if check.violated else "good",
        )


def _type_rows(own: TpccFindings) -> Iterator[Row]:
    """Yield one row for each type; background types have no share."""
    for kind in own.types:
        share = "background"
        if kind.share is not None:
            share = _percent(kind.share.value)
            if kind.minimum_ratio is not None and kind.mix != "ok":
                least = quantities.percent(kind.minimum_ratio)
                share += f" ({_VERDICTS[kind.mix]}: at least {least})"
        p50, p90, p99 = (
            numbers.value_text(kind.latency.percentiles[name]) for name in ("p50", "p90", "p99")
        )
        count, failed = quantities.count(kind.count), _failed_words(kind)
        yield kind.words, count, share, p50, p90, _limit_words(kind), p99, failed


def nopm_words(findings: TpccFindings, *, with_unit: bool = False) -> str:
    """Return NOPM with its interval, its share of the maximum, and the kind of load."""
    words = numbers.estimate_text(findings.nopm, with_unit=with_unit)
    if findings.of_maximum is not None and findings.warehouses:
        percents = findings.of_maximum.scaled(100, "%")
        share = f"{numbers.value_text(percents)} % ({numbers.interval_text(percents)})"
        these = quantities.counted(findings.warehouses, "warehouse")
        words += f", {share} of the most that {these} can give with keying and think times"
    return f"{words}; {findings.way}"


def _limit_words(kind: TypeFindings) -> str:
    """Return "5 s ok" or "5 s MISSED": the limit of the 90th percentile, and whether it holds."""
    return f"{kind.limit_s:g} s {_VERDICTS[kind.limit]}"


def _failed_words(kind: TypeFindings) -> str:
    """Return failures, retries and rollbacks of one type."""
    words = failures_text(dict(kind.failures))
    if kind.retry_count:
        words += f", {quantities.count(kind.retry_count)} retried"
    if kind.rolled_back_count:
        words += f", {quantities.count(kind.rolled_back_count)} rolled back on purpose"
    return words


def _share_rows(findings: TpccFindings) -> Iterator[Row]:
    for share in findings.shares:
        percents = share.share.scaled(100, "%")
        yield (
            share.words,
            quantities.percent(share.expected_ratio),
            f"{numbers.value_text(percents)} %",
            numbers.interval_text(percents),
            f"{quantities.count(share.count)} of {quantities.count(share.of_count)}",
        )


def delivery_words(findings: TpccFindings) -> str:
    """Return how many orders were delivered, and how many districts had no order to deliver."""
    if not findings.delivered_order_count and not findings.skipped_district_count:
        return ""
    words = quantities.counted(findings.delivered_order_count, "order") + " delivered"
    if any(kind.share is None for kind in findings.types):
        words += " in the background (the row Delivery has the time to queue them)"
    if findings.skipped_district_count:
        words += f"; {quantities.count(findings.skipped_district_count)} times no order was open"
    return words


def _check_words(check: CheckFindings) -> str:
    """Return the verdict of the check of the data after the run."""
    if check.why_not:
        return f"not checked: {check.why_not}"
    total, violated = len(check.conditions), check.violated
    spent = quantities.seconds(check.duration_s)
    if not violated:
        return f"{total} of {total} conditions hold after the run ({spent})"
    which = ", ".join(str(condition.number) for condition in violated)
    return f"VIOLATED after the run: condition {which}; the others of {total} hold ({spent})"


def _check_rows(check: CheckFindings) -> Iterator[Row]:
    for condition in check.conditions:
        places = sorted(condition.violations)
        shown = ", ".join(map(str, places[:5])) + ", ..." * (len(places) > 5)
        count = sum(condition.violations.values())
        yield (
            str(condition.number),
            condition.rule,
            quantities.count(count) if count else "holds",
            shown,
        )


def _skew_rows(findings: TpccFindings) -> Iterator[Row]:
    for draw in findings.drawn:
        chi_square = "" if draw.chi_square_value is None else fixed(draw.chi_square_value, 1)
        yield draw.words, quantities.count(draw.count), chi_square, draw.verdict_words


def _percent(ratio: float) -> str:
    """Return a share with one decimal, so that it can be compared with a minimum of 43 %."""
    return f"{fixed(100 * ratio, 1)} %"


def _document(own: TpccFindings) -> dict[str, Any]:
    """Return the keys of the JSON document: NOPM, types, shares of the mix, data check."""
    check = own.check
    return {
        "nopm": own.nopm.to_json(),
        "tpm": own.tpm.to_json(),
        "warehouses": own.warehouses,
        "think_ratio": own.think_ratio,
        "options": dict(own.options),
        "nopm_of_maximum": None if own.of_maximum is None else own.of_maximum.to_json(),
        "types": [_type_document(kind) for kind in own.types],
        "drawn": [
            {
                "name": share.name,
                "specified": share.expected_ratio,
                "measured": share.share.to_json(),
                "count": share.count,
                "of": share.of_count,
                "differs": share.is_off,
            }
            for share in own.shares
        ],
        "delivered_orders": own.delivered_order_count,
        "skipped_districts": own.skipped_district_count,
        "check": None if check is None else _check_document(own, check),
    }


def _check_document(own: TpccFindings, check: CheckFindings) -> dict[str, Any]:
    return {
        "violations": {
            str(condition.number): sum(condition.violations.values())
            for condition in check.conditions
        },
        "warehouses": {
            str(condition.number): sorted(condition.violations) for condition in check.violated
        },
        "seconds": check.duration_s,
        "drawn": [draw.as_document() for draw in own.drawn],
        "not_checked_because": check.why_not or None,
    }


def _type_document(kind: TypeFindings) -> dict[str, Any]:
    return {
        "name": kind.name,
        "count": kind.count,
        "rolled_back": kind.rolled_back_count,
        "failures": dict(kind.failures),
        "retries": kind.retry_count,
        "share": None if kind.share is None else kind.share.value,
        "share_minimum": kind.minimum_ratio,
        "mix": kind.mix,
        "latency_ms": latency_document(kind.latency),
        "p90_limit_ms": kind.limit_s * 1e3,
        "p90": kind.limit,
    }
