"""A TPC-C-like run as tables of words, for the terminal, the page, Markdown and paper alike."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno import quantities
from pgdyno.analysis.tpcc import CheckFindings, TpccFindings, TypeFindings, Verdict
from pgdyno.quantities import fixed
from pgdyno.report import numbers
from pgdyno.report.text_page import TextPage
from pgdyno.report.words import failures_text

Row = tuple[str, ...]
TYPE_COLUMNS = ("type", "count", "share", "p50 ms", "p90 ms", "limit of p90", "p99 ms")
SHARE_COLUMNS = ("share", "specified", "measured", "interval", "counted")
CHECK_COLUMNS = ("condition", "rule", "violations", "warehouses")
SKEW_COLUMNS = ("skew of the run's rows", "rows", "chi-square", "verdict")
_VERDICTS: dict[Verdict, str] = {"ok": "ok", "missed": "MISSED", "open": "cannot tell"}


def tpcc_lines(page: TextPage, findings: TpccFindings) -> Iterator[str]:
    """Yield NOPM, a small table of types, the shares of the mix, and the check of the data."""
    yield from page.row("NOPM", nopm_words(findings))
    yield from page.row("tpm", numbers.estimate_text(findings.tpm))
    yield from _table((TYPE_COLUMNS, *type_rows(findings)))
    if words := delivery_words(findings):
        yield from page.row("delivery", words)
    drawn = ", ".join(
        f"{row[0]} {row[2]} ({row[1]})" + " DIFFERS" * share.is_off
        for share, row in zip(findings.shares, share_rows(findings), strict=True)
    )
    if drawn:
        yield from page.row("drawn", f"{drawn}; in brackets: specified")
    if findings.check is not None:
        yield from page.row("consistency", check_words(findings.check))
        if findings.check.drawn:
            words = "; ".join(
                f"{draw.words}: {draw.verdict_words}" for draw in findings.check.drawn
            )
            yield from page.row("skew", words)


def nopm_words(findings: TpccFindings, *, with_unit: bool = False) -> str:
    """Return NOPM with its interval, its share of the maximum, and the kind of load."""
    words = numbers.estimate_text(findings.nopm, with_unit=with_unit)
    if findings.of_maximum is not None and findings.warehouses:
        percents = findings.of_maximum.scaled(100, "%")
        share = f"{numbers.value_text(percents)} % ({numbers.interval_text(percents)})"
        these = quantities.counted(findings.warehouses, "warehouse")
        words += f", {share} of the most that {these} can give with keying and think times"
    return f"{words}; {findings.way}"


def type_rows(findings: TpccFindings) -> Iterator[Row]:
    """Yield one row for each type, columns as in `TYPE_COLUMNS`; background types have no share."""
    for kind in findings.types:
        share = "background"
        if kind.share is not None:
            share = _percent(kind.share.value)
            if kind.minimum_ratio is not None and kind.mix != "ok":
                least = quantities.percent(kind.minimum_ratio)
                share += f" ({_VERDICTS[kind.mix]}: at least {least})"
        times = [numbers.value_text(kind.latency.percentiles[name]) for name in ("p50", "p90")]
        p99 = numbers.value_text(kind.latency.percentiles["p99"])
        yield (kind.words, quantities.count(kind.count), share, *times, limit_words(kind), p99)


def limit_words(kind: TypeFindings) -> str:
    """Return "5 s ok" or "5 s MISSED": the limit of the 90th percentile, and whether it holds."""
    return f"{kind.limit_s:g} s {_VERDICTS[kind.limit]}"


def failed_words(kind: TypeFindings) -> str:
    """Return failures, retries and rollbacks of one type."""
    words = failures_text(dict(kind.failures))
    if kind.retry_count:
        words += f", {quantities.count(kind.retry_count)} retried"
    if kind.rolled_back_count:
        words += f", {quantities.count(kind.rolled_back_count)} rolled back on purpose"
    return words


def share_rows(findings: TpccFindings) -> Iterator[Row]:
    """Yield one row for each share, columns as in `SHARE_COLUMNS`."""
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


def check_words(check: CheckFindings) -> str:
    """Return the verdict of the check of the data after the run."""
    if check.why_not:
        return f"not checked: {check.why_not}"
    total, violated = len(check.conditions), check.violated
    spent = quantities.seconds(check.duration_s)
    if not violated:
        return f"{total} of {total} conditions hold after the run ({spent})"
    which = ", ".join(str(condition.number) for condition in violated)
    return f"VIOLATED after the run: condition {which}; the others of {total} hold ({spent})"


def check_rows(check: CheckFindings) -> Iterator[Row]:
    """Yield one row for each condition, columns as in `CHECK_COLUMNS`."""
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


def skew_rows(check: CheckFindings) -> Iterator[Row]:
    """Yield a row for customers and one for items, columns as in `SKEW_COLUMNS`."""
    for draw in check.drawn:
        chi_square = "" if draw.chi_square_value is None else fixed(draw.chi_square_value, 1)
        yield draw.words, quantities.count(draw.count), chi_square, draw.verdict_words


def _percent(ratio: float) -> str:
    """Return a share with one decimal, so that it can be compared with a minimum of 43 %."""
    return f"{fixed(100 * ratio, 1)} %"


def _table(rows: tuple[Row, ...]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *rest = zip(row, widths, strict=True)
        cells = "   ".join(f"{text:>{width}}" for text, width in rest)
        yield f"{first[0]:{first[1]}}   {cells}".rstrip()
