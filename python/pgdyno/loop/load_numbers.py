"""Computes throughput and latency of one stored run, with intervals, from the engine's records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.findings import PERCENTILES, Latency, ScriptFindings, StatementFindings
from pgdyno.analysis.histogram import Histogram
from pgdyno.analysis.within_run import latency as latency_estimates
from pgdyno.analysis.within_run import throughput
from pgdyno.engine.records import Counts, ScriptShape, Summary, TimeDistribution
from pgdyno.errors import AnalysisError
from pgdyno.store.stored_run import StoredHistogram, StoredRun

PERCENT_OF = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
assert tuple(PERCENT_OF) == PERCENTILES
_SEED = 20_260_101
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class LoadNumbers:
    """The engine's measurements in the measured phase of one run."""

    summary: Summary
    scripts: tuple[ScriptShape, ...]
    began_ns: int
    ended_ns: int
    counts_100ms: npt.NDArray[np.int64]
    """Completed transactions of each whole interval, shape (n,) in time order."""
    interval_ns: int
    tps: Estimate
    latency: Latency
    latency_by_second: tuple[StoredHistogram, ...] | None = None
    """Of the measured phase, in time order; None if no caller needed it."""

    @property
    def seconds(self) -> float:
        """Length of the measured phase."""
        return (self.ended_ns - self.began_ns) / 1e9

    @property
    def span_ns(self) -> tuple[int, int]:
        """Begin and end of the measured phase, Unix ns."""
        return self.began_ns, self.ended_ns

    @property
    def has_unfinished(self) -> bool:
        """True if some transactions never ended: their ages are lower bounds of their latencies."""
        return bool(self.summary.unfinished_ages_ns)

    @property
    def counts(self) -> Counts:
        """Counts of the measured phase."""
        return self.summary.counts


def load_numbers(stored: StoredRun, *, with_intervals: bool = True) -> LoadNumbers:
    """Return throughput and latency of a complete run.

    Args: with_intervals False skips the bootstrap of the latencies: if a run is one of several, it
    counts as one value, and the interval comes from the differences between the runs.
    Raises: AnalysisError if no transaction completed; StoreError if the run never measured.
    """
    summary = Summary.model_validate_json(stored.summary_text)
    require_completed(summary)
    span = summary.span("measure")
    began_ns, ended_ns = (span.began_ns, span.ended_ns) if span else stored.measured_span_ns()
    by_script, interval_ns = _whole_counts(stored)
    scripts = tuple(ScriptShape.model_validate(shape) for shape in stored.hello.get("scripts", ()))
    # What runs in the background is in no total.
    waited_for = [place for place, script in enumerate(scripts) if not script.is_background]
    counts = by_script[:, waited_for].sum(axis=1) if scripts else by_script.sum(axis=1)
    by_second = tuple(measured_seconds(stored, "latency")) if with_intervals else None
    return LoadNumbers(
        summary=summary,
        scripts=scripts,
        began_ns=began_ns,
        ended_ns=ended_ns,
        counts_100ms=counts,
        interval_ns=interval_ns,
        tps=_tps(counts, interval_ns, summary.counts.completed, ended_ns - began_ns),
        latency=_plain_latency(summary)
        if by_second is None
        else _latency([as_histogram(second) for second in by_second], summary.unfinished_ages_ns),
        latency_by_second=by_second,
    )


def require_completed(summary: Summary) -> None:
    """Raise AnalysisError with the failures if no transaction completed."""
    if summary.counts.completed:
        return
    if not summary.failures:
        raise AnalysisError(
            "No transaction completed within the measured time.",
            hint="set a duration longer than one transaction; if the load ends by itself, set"
            " --warmup 0s",
        )
    ranked = sorted(summary.failures.items(), key=lambda item: -item[1])
    codes = ", ".join(f"{code}: {count:,}" for code, count in ranked)
    left_open = "end the transaction that BEGIN starts with END or COMMIT"
    said = (summary.failure_messages or {}).get(ranked[0][0], "")
    raise AnalysisError(
        f"No transaction completed: {summary.counts.failed:,} failed ({codes})."
        + (f" {said}." if said else ""),
        hint=left_open
        if ranked[0][0] == "XXopen_block"
        else "correct the script, or the data that it works on",
    )


def script_findings(stored: StoredRun, numbers: LoadNumbers) -> tuple[ScriptFindings, ...]:
    """Return each script of the run that completed a transaction, with its statements."""
    by_script, interval_ns = _whole_counts(stored)
    findings = []
    for index, (shape, script) in enumerate(
        zip(numbers.scripts, numbers.summary.scripts, strict=True)
    ):
        if script.counts.completed == 0:
            continue
        spent_ns = numbers.ended_ns - numbers.began_ns
        # The engine keeps no separate distribution for the only script.
        only = None if len(numbers.scripts) == 1 else index
        is_known = only is None and numbers.latency_by_second and not numbers.has_unfinished
        findings.append(
            ScriptFindings(
                name=shape.name,
                weight=shape.weight,
                transactions=script.counts.completed,
                failures=dict(script.failures),
                tps=_tps(by_script[:, index], interval_ns, script.counts.completed, spent_ns),
                latency=numbers.latency
                if is_known
                else _latency(latency_seconds(stored, only), ()),
                statements=statement_findings(stored, shape, index),
                program=shape.program,
                rolled_back_count=script.counts.rolled_back,
                retry_count=script.counts.retries,
                counted=dict(script.counted),
                is_background=shape.is_background,
            )
        )
    return tuple(findings)


def type_latencies_ms(numbers: LoadNumbers) -> dict[str, float]:
    """Return the percentiles of each transaction type of a program, such as "new-order.p90".

    Limits: transactions that never ended are not among them.
    """
    by_name: dict[str, float] = {}
    for index, shape in enumerate(numbers.scripts):
        distribution = numbers.summary.distribution("latency", index) if shape.program else None
        if distribution is None or distribution.count == 0:
            continue
        whole = of_distribution(distribution)
        by_name[f"{shape.name}.mean"] = whole.mean_ns / _NS_PER_MS
        for name, percent in PERCENT_OF.items():
            by_name[f"{shape.name}.{name}"] = whole.percentile_ns(percent) / _NS_PER_MS
    return by_name


def latency_seconds(stored: StoredRun, script: int | None = None) -> list[Histogram]:
    """Return the latencies of the measured phase, one distribution a second, in time order."""
    return [as_histogram(second) for second in measured_seconds(stored, "latency", script)]


def measured_seconds(
    stored: StoredRun, measured: str, script: int | None = None, statement: int | None = None
) -> list[StoredHistogram]:
    """Return the distributions of the measured phase as stored, in time order."""
    histograms = stored.histograms(measured, script, statement)
    return [histogram for histogram in histograms if histogram.phase == "measure"]


def as_histogram(stored: StoredHistogram) -> Histogram:
    """Convert a stored distribution for computing."""
    return Histogram(stored.buckets, stored.counts, stored.sum_ns, stored.min_ns, stored.max_ns)


def of_distribution(distribution: TimeDistribution) -> Histogram:
    """Convert the distribution of a record for computing."""
    return Histogram.from_buckets(
        distribution.buckets,
        sum_ns=distribution.sum_ns,
        min_ns=distribution.min_ns,
        max_ns=distribution.max_ns,
    )


def _whole_counts(stored: StoredRun) -> tuple[npt.NDArray[np.int64], int]:
    """Return completed transactions by interval and script of the measured phase.

    The last, shorter interval is left out.
    """
    intervals = stored.intervals()
    measured = np.asarray(intervals["phase"]) == "measure"
    lengths = intervals["interval_ns"][measured]
    if lengths.size == 0:
        return np.zeros((0, 1), dtype=np.int64), 100_000_000
    usual = int(np.median(lengths))
    whole = np.abs(lengths - usual) <= usual // 100
    return intervals["completed_by_script"][measured][whole].astype(np.int64), usual


def _tps(
    counts: npt.NDArray[np.int64], interval_ns: int, completed: int, spent_ns: int
) -> Estimate:
    mean = completed * 1e9 / spent_ns if spent_ns else 0.0
    # With few transactions, all of them may end in the last interval, which is not a whole one.
    if counts.size < 8 or not counts.any():
        return without_interval(mean, "tps")
    return throughput(counts, interval_ns)


def _latency(seconds: list[Histogram], unfinished_ages_ns: tuple[int, ...]) -> Latency:
    estimates = latency_estimates(
        seconds, tuple(PERCENT_OF.values()), seed=_SEED, unfinished_ages_ns=unfinished_ages_ns
    )
    return Latency(
        mean=estimates.mean.scaled(1 / _NS_PER_MS, "ms"),
        percentiles={
            name: estimates.percentile[percent].scaled(1 / _NS_PER_MS, "ms")
            for name, percent in PERCENT_OF.items()
        },
        max_ms=estimates.max_ns / _NS_PER_MS,
    )


def _plain_latency(summary: Summary) -> Latency:
    """Return latency from the whole phase's distribution, without intervals."""
    distribution = summary.distribution("latency")
    if distribution is None or distribution.count == 0:
        raise AnalysisError("no transaction was completed, so there is no latency")
    whole = of_distribution(distribution)
    ages = np.asarray(summary.unfinished_ages_ns, dtype=np.int64)
    percentiles = {}
    for name, percent in PERCENT_OF.items():
        value_ns, is_censored = whole.percentile_with_unfinished(percent, ages)
        plain = Estimate(value_ns / _NS_PER_MS, None, None, 1, "ms", "none", is_censored)
        percentiles[name] = plain
    return Latency(
        mean=without_interval(whole.mean_ns / _NS_PER_MS, "ms"),
        percentiles=percentiles,
        max_ms=max(whole.max_ns, int(ages.max(initial=0))) / _NS_PER_MS,
    )


def statement_findings(
    stored: StoredRun, shape: ScriptShape, script: int
) -> tuple[StatementFindings, ...]:
    """Return the statements of a script that were executed; `script` is its place in the run."""
    found_by = {
        (row["script"], row["statement"]): TimeDistribution.model_validate(row)
        for row in stored.statements
        if row["script"] == script
    }
    measured = [
        (statement, found_by.get((script, index)))
        for index, statement in enumerate(shape.statements)
    ]
    total_ns = sum(distribution.sum_ns for _, distribution in measured if distribution is not None)
    rows = []
    for statement, distribution in measured:
        if distribution is None or distribution.count == 0:
            continue
        histogram = of_distribution(distribution)
        rows.append(
            StatementFindings(
                line=statement.line,
                text=statement.text,
                calls=distribution.count,
                mean_ms=distribution.sum_ns / distribution.count / _NS_PER_MS,
                p50_ms=histogram.percentile_ns(50) / _NS_PER_MS,
                p99_ms=histogram.percentile_ns(99) / _NS_PER_MS,
                share_ratio=distribution.sum_ns / total_ns if total_ns else 0.0,
            )
        )
    return tuple(rows)
