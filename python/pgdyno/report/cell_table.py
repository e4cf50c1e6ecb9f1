"""The tables of all variants: the grid of a factorial, and rates, latencies, fairness."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.analysis.compare_findings import CompareFindings, VariantFindings, VariantMeans
from pgdyno.analysis.estimate import Estimate
from pgdyno.programs.registry import own_metrics
from pgdyno.quantities import short
from pgdyno.report import numbers
from pgdyno.report.block_charts import figure_text, number_text
from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.forest import metric_name, place_of

# Changes of a variant that affect the fairness between clients, or the path to the server.
_SERVING = frozenset({"clients", "idle", "active", "pooler", "script"})
_REACHING = frozenset({"path", "dsn", "pooler"})
Pick = Callable[[VariantFindings], Estimate | None]
Show = Callable[[Estimate], str]


def cell_table(compared: CompareFindings) -> TableBlock | None:
    """Return the table, None if variants differ neither in their clients nor in their path."""
    measured = [variant for variant in compared.variants if variant.runs]
    changed = {name for variant in measured for name, _ in variant.changes}
    if not changed & (_SERVING | _REACHING):
        return None
    number, duration = numbers.value_text, numbers.duration_text
    own = {
        name: metric.words
        for name, metric in own_metrics().items()
        if any(name in variant.metrics for variant in measured)
    }
    columns: list[tuple[str, str, Pick, Show]] = [
        *((words, f"metrics.{name}", _metric(name), number) for name, words in own.items()),
        ("tps", "metrics.tps", _metric("tps"), number),
        ("p50 ms", "metrics.p50", _metric("p50"), number),
        ("p99 ms", "metrics.p99", _metric("p99"), number),
        ("max ms", "served.latency_max_ms", _served(lambda served: served.maximum), number),
    ]
    costs = {variant.cost.unit for variant in measured if variant.cost}
    columns += [(unit, "cost", lambda variant: variant.cost, number) for unit in costs]
    note = ""
    if changed & _REACHING:
        # A socket takes microseconds and a network milliseconds, so each has its unit.
        round_trip = _served(lambda served: served.round_trip)
        columns.append(("round trip", "served.round_trip_ms", round_trip, duration))
    if changed & _SERVING:
        least = _served(lambda served: served.completed_min)
        most = _served(lambda served: served.completed_max)
        columns += [
            ("least", "served.completed_by_client_min", least, number),
            ("most", "served.completed_by_client_max", most, number),
            ("Gini", "served.gini", _served(lambda served: served.gini), number),
        ]
        note = (
            "least and most: transactions of the clients with fewest and most in a run; Gini: 0 "
            "if all clients completed the same number, near 1 if one client completed everything"
        )
    rows = tuple(
        (
            variant.name,
            *(
                _shown(pick(variant), show, f"{place_of(compared, variant.name)}.{quantity}")
                for _, quantity, pick, show in columns
            ),
        )
        for variant in measured
    )
    return TableBlock(
        "Side by side: means over the runs",
        (TableColumn(""), *(TableColumn(name) for name, _, _, _ in columns)),
        rows,
        below=note,
        short_row_count=len(rows),
        heading="side by side",
    )


def level_table(compared: CompareFindings) -> TableBlock | None:
    """Return the deciding metric of every cell of a factorial; None for other designs."""
    grid = compared.grid
    if grid is None or not grid.names:
        return None
    variants = {variant.name: variant for variant in compared.variants}
    levels = dict.fromkeys(level for row in grid.names.values() for level in row)

    def cell(name: str | None) -> str:
        variant = variants.get(name or "")
        if variant is None or compared.metric not in variant.metrics:
            return "-"
        place = f"{place_of(compared, variant.name)}.metrics.{compared.metric}"
        more = "cannot hold the rate" if variant.holds_rate is False else ""
        return number_text(compared.shown(variant, compared.metric), place, more)

    by = " and ".join(filter(None, (grid.others, grid.varied)))
    title = f"{metric_name(compared.metric)} by {by}"
    return TableBlock(
        title,
        (TableColumn(grid.others), *(TableColumn(f"{grid.varied}={level}") for level in levels)),
        tuple((name, *map(cell, map(row.get, levels))) for name, row in grid.names.items()),
        short_row_count=len(grid.names),
        heading=f"cells: {title}",
    )


def mean_cell(estimate: Estimate | None, unit: str = "") -> str:
    """Return a mean with its interval if it has one, "-" without a value."""
    if estimate is None:
        return "-"
    is_tiny = 0 < abs(estimate.value) < 0.0005
    number = short(estimate.value) if is_tiny else numbers.value_text(estimate)
    value = f"{number}{unit and ' '}{unit}"
    has_interval = estimate.has_interval and not is_tiny
    return f"{value} ({numbers.interval_text(estimate)})" if has_interval else value


def _metric(name: str) -> Pick:
    return lambda variant: variant.metrics.get(name)


def _served(pick: Callable[[VariantMeans], Estimate | None]) -> Pick:
    return lambda variant: None if variant.served is None else pick(variant.served)


def _shown(estimate: Estimate | None, show: Show, quantity: str) -> str:
    return "-" if estimate is None else figure_text(show(estimate), quantity)
