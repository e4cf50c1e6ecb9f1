"""python -m bench.drawing [ROUNDS]: a page's charts as SVG, by our painter and by matplotlib.

Both painters draw the same descriptions (`Chart`, `Forest`), in turn. Prints for each the median of
the CPU time and the bytes. ARCHITECTURE.md gives the reason for three painters from this table.
"""

from __future__ import annotations

import io
import resource
import statistics
import sys
from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.figure import Figure

from pgdyno.analysis.estimate import Estimate
from pgdyno.report import forest, palette, svg
from pgdyno.report.chart import Chart, Line
from pgdyno.report.forest import Forest, ForestGroup, ForestRow
from pgdyno.report.ink import new_figure, style

ROUNDS = 20
_WIDTH_PX = 900
_SEED = 20_261_122


def main(rounds: int) -> int:
    """Draw each chart `rounds` times by each painter and print one row for each painter."""
    painters: dict[str, Callable[[], str]] = {
        "line chart, 3 x 300 points, own SVG": lambda: svg.draw(line_chart(), width=_WIDTH_PX),
        "line chart, 3 x 300 points, matplotlib": lambda: drawn_line_chart(line_chart()),
        "forest plot, 8 rows, own SVG": lambda: "".join(own_forest(forest_plot())),
        "forest plot, 8 rows, matplotlib": lambda: drawn_forest(forest_plot()),
    }
    taken_ms: dict[str, list[float]] = {name: [] for name in painters}
    sizes_bytes = {name: len(paint().encode()) for name, paint in painters.items()}
    for _ in range(rounds):
        for name, paint in painters.items():
            began_ms = cpu_ms()
            paint()
            taken_ms[name].append(cpu_ms() - began_ms)
    print(f"{'':42}CPU ms   kB", flush=True)
    for name, times in taken_ms.items():
        print(f"{name:42}{statistics.median(times):6.1f}{sizes_bytes[name] / 1000:7.1f}")
    return 0


def cpu_ms() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e3


def line_chart() -> Chart:
    """Return a chart like the latency over time of a run of five minutes."""
    rng = np.random.default_rng(_SEED)
    seconds = tuple(float(second) for second in range(300))
    lines = tuple(
        Line(name, palette.at(place), seconds, tuple(rng.lognormal(place, 0.2, 300).tolist()))
        for place, name in enumerate(("p50", "p95", "p99"))
    )
    return Chart("latency", "Latency", "ms", "seconds", lines, y_scale="log")


def forest_plot() -> Forest:
    """Return the plot of a comparison with eight metrics."""
    ratios = [
        Estimate(1 + 0.01 * place, 0.97 + 0.01 * place, 1.03 + 0.01 * place, 8, "1", "between_runs")
        for place in range(8)
    ]
    rows = tuple(ForestRow(f"metric {place}", ratio, "") for place, ratio in enumerate(ratios))
    scale = forest.scale_of(ratios, margin_ratio=0.02)
    return Forest((ForestGroup("B against A", rows),), scale)


def own_forest(shown: Forest) -> Iterable[str]:
    """Yield the markup of the plot as the page has it: a whisker for each row, and the axis."""
    for row in shown.rows:
        yield str(forest.whisker(row.ratio, shown.scale))
    yield str(forest.axis(shown.scale))


def drawn_line_chart(chart: Chart) -> str:
    """Return the SVG that matplotlib writes of a chart."""
    from pgdyno.report import plot

    with style():
        figure = new_figure(9.0, 2.4)
        plot.chart(figure.add_axes((0.07, 0.2, 0.91, 0.7)), chart)
        return written(figure)


def drawn_forest(shown: Forest) -> str:
    """Return the SVG that matplotlib writes of a forest plot."""
    from pgdyno.report import plot

    with style():
        figure = new_figure(9.0, 2.4)
        plot.forest_plot(figure.add_axes((0.3, 0.2, 0.5, 0.7)), shown)
        return written(figure)


def written(figure: Figure) -> str:
    """Return a figure as text of SVG."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
