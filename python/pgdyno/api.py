"""pgdyno from Python: carries out an experiment or opens a stored result, with typed answers.

These functions print nothing. Errors are those of `pgdyno.errors`, with the next step in `.hint`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.analysis.compare import Comparison, Verdict
from pgdyno.analysis.compare_findings import (
    OF_NOISE,
    ContrastFindings,
    Pair,
    PlanChange,
    VariantFindings,
)
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings, RunFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where_difference import Difference
from pgdyno.answer.table import COLUMNS, rows_of
from pgdyno.cli.measure import keep
from pgdyno.cli.show import document_again, require_runs, result_kind_of
from pgdyno.designs import answer_of, answer_so_far, blocks_of, design_of, document_of, page_of
from pgdyno.errors import PgdynoError, SpecError
from pgdyno.loop.drive import carry_out
from pgdyno.loop.journal import experiment_of
from pgdyno.measure.run_progress import RunProgress
from pgdyno.process import cleanup, signals
from pgdyno.report.blocks import BlockAnswer
from pgdyno.report.html import answer_page
from pgdyno.report.notebook import answer_fragment
from pgdyno.server.conninfo import resolve
from pgdyno.spec.experiment import Experiment, Permissions
from pgdyno.spec.file import read_spec
from pgdyno.store.experiment import Store
from pgdyno.store.export import relation_of, relation_of_rows
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.schema import tables

if TYPE_CHECKING:
    import pandas

_OPPOSITE: dict[Verdict, Verdict] = {
    "faster": "slower",
    "slower": "faster",
    "lower": "higher",
    "higher": "lower",
}


def run(
    spec: str | Path,
    *,
    store: str | Path | None = None,
    permissions: Permissions | None = None,
    said: Callable[[str], None] | None = None,
) -> Result:
    """Carry out the experiment of a spec file, keep it in the store, and return its result.

    Args: store, the results folder, as --store; permissions on your own server (default: none);
    said, a function that is called with a line for each step.
    Raises: SpecError with every mistake in the file. If an error ends the experiment early, this
    error, after the measurements were stored (`.hint` says where).
    """
    experiment = read_spec(Path(spec)).experiment
    server = resolve(conninfo=experiment.server.dsn) if experiment.server.scratch is None else None
    with _signals():
        outcome = carry_out(
            experiment,
            design_of(experiment),
            verb=experiment.design.kind,
            resolved=server,
            permissions=permissions or Permissions(),
            store=Store.default(store),
            progress=_CallerProgress(said),
        )
    findings = answer_so_far(outcome.folder, outcome.error)
    if outcome.folder is not None and findings is not None:
        keep(outcome.folder, findings)
    if outcome.error is not None:
        raise outcome.error
    assert outcome.folder is not None, "without an error there is a result"
    return Result(outcome.folder)


def open(handle: str | int | Path = "last", *, store: str | Path | None = None) -> Result:
    """Return a stored result.

    Args: handle, its number, its name, its folder, or "last".
    Raises: StoreError that lists the existing results.
    """
    return Result(Store.default(store).find(str(handle)))


def results(*, store: str | Path | None = None) -> list[Result]:
    """Return every result of a store, the oldest first."""
    return [Result(ExperimentFolder(stored.folder)) for stored in Store.default(store).list()]


class Result:
    """One result in the store; each part is read when it is first used.

    A watch and crashes are no experiments: they have `document()`, `page()`, `runs` and their
    tables, but no `findings`.
    """

    def __init__(self, folder: ExperimentFolder) -> None:
        self._folder = folder

    @property
    def number(self) -> int:
        """The number of the result in the store."""
        return self._folder.number

    @property
    def name(self) -> str:
        """The name of the result."""
        return self._folder.name

    @property
    def folder(self) -> Path:
        """The folder with all measurements."""
        return self._folder.folder

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment, as in its spec file. Raises: SpecError for a watch and crashes."""
        require_runs(self._folder)
        return experiment_of(self._folder)

    @cached_property
    def findings(self) -> ExperimentFindings:
        """The whole answer, typed; every report is made from these findings.

        Raises: SpecError for a watch and crashes, which have a document only.
        """
        require_runs(self._folder)
        return answer_of(self._folder)

    @property
    def sentence(self) -> str:
        """The answer in words; "" if a watch or a crash was interrupted before it had one."""
        if not self._folder.is_experiment:
            return str((self._folder.analysis() or {}).get("sentence", ""))
        return self.findings.sentence

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons to distrust the answer, or to read it with care."""
        if not self._folder.is_experiment:
            return ()
        run = self.findings.run
        return (*self.findings.doubts, *(run.doubts if run is not None else ()))

    @property
    def run(self) -> RunFindings:
        """The detailed run of a bench or a sweep. Raises: SpecError if there is none."""
        if self.findings.run is None:
            raise SpecError(
                f"#{self.number} is a {self.findings.kind} without a detailed run.",
                hint="compare() and variant() have the measured values",
            )
        return self.findings.run

    @property
    def kind(self) -> str:
        """The verb or design of the result, such as "compare" or "watch"."""
        return self._folder.verb

    def variant(self, name: str) -> VariantFindings:
        """Return the findings of one variant. Raises: SpecError that lists the names."""
        variants = self.findings.compare.variants if self.findings.compare is not None else ()
        for variant in variants:
            if variant.name == name:
                return variant
        names = ", ".join(variant.name for variant in variants) or "none"
        raise SpecError(f"#{self.number} has no variant {name!r}.", hint=f"there are: {names}")

    def compare(self, variant: str, reference: str) -> Contrast:
        """Return `variant` against `reference`.

        If the design compared the two the other way round, ratios and verdicts are inverted.
        Raises: SpecError that lists the contrasts if the design did not compare the two.
        """
        findings = self.findings.compare
        contrasts = (*findings.contrasts, *findings.steps) if findings is not None else ()
        for contrast in contrasts:
            if (contrast.variant, contrast.reference) == (variant, reference):
                return Contrast(contrast)
            if (contrast.reference, contrast.variant) == (variant, reference):
                return Contrast(contrast, is_turned=True)
        listed = "; ".join(
            f"{contrast.variant} against {contrast.reference}" for contrast in contrasts
        )
        raise SpecError(
            f"#{self.number} did not compare {variant!r} against {reference!r}.",
            hint=f"it has: {listed or 'no contrasts'}",
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each run: variant, load, every metric, as in `pgdyno export`.

        Of a watch and crashes, a row has only the number of its run.
        """
        if not self._folder.is_experiment:
            return [{"run": run.number} for run in self._folder.runs()]
        return rows_of(self._folder, self.experiment)

    @property
    def runs(self) -> Any:
        """`rows()` as an Arrow stream: a DuckDB relation, which polars and pyarrow also read."""
        return relation_of_rows(self.rows(), COLUMNS)

    @property
    def intervals(self) -> Any:
        """What the engine counted in each interval of every run, as an Arrow stream."""
        return self.telemetry("intervals")

    def telemetry(self, name: str) -> Any:
        """Return a table of all runs as an Arrow stream, such as "waits" or "histograms".

        Raises: SpecError that lists the tables; StoreError if no run has this one.
        """
        if name not in tables():
            raise SpecError(
                f"There is no table {name!r}.", hint=f"there are: {', '.join(tables())}"
            )
        return relation_of(self._folder.runs(), tables()[name])

    def to_dataframe(self) -> pandas.DataFrame:
        """Return `rows()` as a DataFrame; units and meanings are in its `attrs["units"]`.

        Raises: SpecError if pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise SpecError(
                "to_dataframe() needs pandas, which is not installed.",
                hint="pip install pandas; or use rows(), or pgdyno export --format parquet",
            ) from error
        frame = pandas.DataFrame(self.rows(), columns=[column.name for column in COLUMNS])
        frame.attrs["units"] = {column.name: column.unit for column in COLUMNS}
        return frame

    def document(self) -> dict[str, Any]:
        """Return the document that --json prints."""
        if not self._folder.is_experiment:
            return document_again(self._folder)
        return document_of(self.findings)

    def page(self) -> str:
        """Return the report: one offline HTML page."""
        if not self._folder.is_experiment:
            return answer_page(self._answer(), self._folder.remarks())
        return page_of(self.findings)

    def _answer(self) -> BlockAnswer:
        if not self._folder.is_experiment:
            return result_kind_of(self._folder).answer(self._folder)
        return blocks_of(self.findings)

    def __repr__(self) -> str:
        return f"<pgdyno.Result #{self.number} {self.name!r}>"

    def _repr_html_(self) -> str:
        try:
            return answer_fragment(self._answer())
        except PgdynoError as error:
            # An interrupted result may have no answer; a notebook shows why and not a traceback.
            said = f"{self!r}: {error.message}", error.hint or ""
            return "".join(f"<p>{escape(text)}</p>" for text in said if text)


@dataclass(frozen=True)
class Contrast:
    """Two variants compared; each metric is a `Comparison`: its ratio, interval and verdict.

    `is_turned`: the design compared the two the other way round.
    """

    findings: ContrastFindings
    is_turned: bool = False

    @property
    def tps(self) -> Comparison:
        """Throughput."""
        return self.metric("tps")

    @property
    def p50(self) -> Comparison:
        """Median latency."""
        return self.metric("p50")

    @property
    def p99(self) -> Comparison:
        """The 99th percentile of latency."""
        return self.metric("p99")

    @property
    def cpu_per_tx(self) -> Comparison:
        """CPU time of the server's backends per transaction."""
        return self.metric("cpu_per_tx")

    @property
    def wal_per_tx(self) -> Comparison:
        """WAL bytes per transaction."""
        return self.metric("wal_per_tx")

    @property
    def deciding(self) -> Comparison:
        """The metric that decides."""
        return self._turned(self.findings.deciding)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the deciding metric."""
        return self.deciding.verdict

    @property
    def sentence(self) -> str:
        """The verdict in words, for the direction that was measured."""
        return self.findings.sentence

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The two runs of every round, as measured: `reference_value` and `variant_value`."""
        return self.findings.pairs

    @property
    def difference(self) -> Difference | None:
        """The parts of a transaction's time that differ, as measured."""
        return self.findings.difference

    @property
    def plan_changes(self) -> tuple[PlanChange, ...]:
        """Statements whose plan differs."""
        return self.findings.plan_changes

    def metric(self, name: str) -> Comparison:
        """Return the comparison of one metric. Raises: SpecError that lists the metrics."""
        comparison = self.findings.comparisons.get(name)
        if name in self.findings.of_noise:
            raise SpecError(f"{name} is not compared: {OF_NOISE}.", hint="measure more rounds")
        if comparison is None:
            raise SpecError(
                f"{name} was not measured for both {self.findings.variant} and "
                f"{self.findings.reference}.",
                hint=f"there are: {', '.join(self.findings.comparisons)}",
            )
        return self._turned(comparison)

    def _turned(self, comparison: Comparison) -> Comparison:
        if not self.is_turned:
            return comparison
        ratio = comparison.ratio
        ends = (ratio.high, ratio.low)
        low, high = (1 / end if end else None for end in ends)
        turned = Estimate(1 / ratio.value, low, high, ratio.n, ratio.unit, ratio.scope)
        verdict = _OPPOSITE.get(comparison.verdict, comparison.verdict)
        return replace(comparison, ratio=turned, verdict=verdict)


class _CallerProgress(RunProgress):
    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say

    def said(self, text: str) -> None:
        """Pass on a step."""
        if self._say is not None:
            self._say(text)


@contextmanager
def _signals() -> Iterator[None]:
    """Handle Ctrl-C during a measurement; at the end remove everything that was created."""
    is_main = threading.current_thread() is threading.main_thread()
    begun = cleanup.mark()  # What the caller's process registered earlier is not removed.
    with signals.handled() if is_main else nullcontext():
        try:
            yield
        finally:
            with signals.shielded():
                problems = cleanup.run_all(since=begun)
    if problems:
        raise PgdynoError(f"Clean-up failed: {'; '.join(problems)}.", hint="remove it by hand")
