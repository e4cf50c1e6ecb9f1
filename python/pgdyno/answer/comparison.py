"""From the runs of variants to the answer: contrasts, their reasons, what cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analysis.compare import (
    Better,
    Comparison,
    compare,
    family_level,
    is_reversed,
    log_ratios,
)
from pgdyno.analysis.compare_findings import (
    CompareFindings,
    ContrastFindings,
    Pair,
    VariantFindings,
)
from pgdyno.analysis.contrasts import Effect, factorial, passes
from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.rounding import counted
from pgdyno.analysis.where import WhereTheTimeGoes, mean_over_runs
from pgdyno.analysis.where_difference import Difference, difference
from pgdyno.answer.compare_words import because_words, verdict_sentence
from pgdyno.answer.confounds import between_variants, confounds, state_words
from pgdyno.answer.served import cost_of, served_by
from pgdyno.answer.time_split import time_split
from pgdyno.errors import AnalysisError
from pgdyno.loop.history import UNITS, measured
from pgdyno.loop.journal import Visit, excluded, resumed_count, stopped_by
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.plan.compare import Standing, standings
from pgdyno.plan.history import History
from pgdyno.spec.designs import (
    METRICS,
    MORE_IS_BETTER,
    CompareDesign,
    FactorialDesign,
    Metric,
    PassesDesign,
)
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.units import duration_text
from pgdyno.store.folder import ExperimentFolder

_HOLDS_RATE_RATIO = 0.99
# Settings that say where a server is, not how it works.
_PLACES = frozenset(
    {"port", "listen_addresses", "cluster_name", "unix_socket_directories", "data_directory"}
    | {"config_file", "hba_file", "ident_file", "external_pid_file"}
)
_ALSO_NAMED: Mapping[str, tuple[Metric, ...]] = {"tps": ("p99",)}


class Compared:
    """The counted runs of one experiment, by variant."""

    def __init__(
        self,
        folder: ExperimentFolder,
        experiment: Experiment,
        rounds: Sequence[Visit],
        numbers: Mapping[int, LoadNumbers],
        valid: Mapping[int, bool],
    ) -> None:
        self._experiment = experiment
        self._rounds = rounds
        self._numbers = numbers
        self._valid = valid
        self._excluded = excluded(folder)
        self._facts = folder.facts() or {}
        self._stopped_by = stopped_by(folder)
        self._resumed = resumed_count(folder)
        self._metric = experiment.metric()
        self._history: History = tuple(
            measured(
                visit.planned,
                visit.stored,
                took_ns=visit.took_ns,
                numbers=numbers[visit.planned.number],
            )
            for visit in rounds
        )
        self._splits = {i: self._split(i) for i in range(len(experiment.all_variants()))}

    def findings(self) -> CompareFindings:
        """Return the answer of the experiment's design."""
        design = self._experiment.design
        contrasts: tuple[ContrastFindings, ...] = ()
        steps: tuple[ContrastFindings, ...] = ()
        effects: tuple[Effect, ...] = ()
        if isinstance(design, CompareDesign):
            contrasts = self._compared()
        elif isinstance(design, PassesDesign):
            contrasts, steps = self._passes()
        elif isinstance(design, FactorialDesign):
            effects = self._effects(design)
        usable = [i for i in self._variant_range() if i not in self._excluded]
        by_variant = {i: self._runs_of(i) for i in self._variant_range()}
        return CompareFindings(
            metric=self._metric,
            unit=UNITS[self._metric],
            reference=self._name(usable[0]) if usable else "",
            variants=tuple(self._variant(i) for i in self._variant_range()),
            contrasts=contrasts,
            rounds=len({visit.planned.round for visit in self._rounds}),
            stopped_by=self._stopped_by or "interrupted",
            effects=effects,
            steps=steps,
            confounds=tuple(confounds(self._experiment, by_variant, resumed_count=self._resumed)),
            state=tuple(
                words
                for i, runs in by_variant.items()
                if (words := state_words(self._name(i), runs))
            ),
            settings=self._settings(),
        )

    def _variant_range(self) -> range:
        return range(len(self._experiment.all_variants()))

    def _name(self, variant: int) -> str:
        return self._experiment.variant(variant).name

    def _runs_of(self, variant: int) -> list[Visit]:
        return [visit for visit in self._rounds if visit.planned.cell.variant == variant]

    def _split(self, variant: int) -> WhereTheTimeGoes | None:
        splits = [
            split
            for visit in self._runs_of(variant)
            if (
                split := time_split(
                    visit.stored, self._numbers[visit.planned.number], with_intervals=False
                )
            )
            is not None
        ]
        return mean_over_runs(splits) if splits else None

    def _variant(self, variant: int) -> VariantFindings:
        facts = self._facts.get("variants", {}).get(str(variant), {})
        runs = self._runs_of(variant)
        values = [m.metrics for m in self._history if m.run.cell.variant == variant]
        metrics: dict[str, Estimate] = {
            name: mean_between_runs([one[name] for one in values], UNITS[name])
            for name in METRICS
            if values and all(name in one for one in values)
        }
        holds = None
        if self._experiment.workload.rate_tps is not None and runs:
            counts = [self._numbers[visit.planned.number].counts for visit in runs]
            offered = sum(one.scheduled for one in counts)
            holds = sum(one.completed for one in counts) >= _HOLDS_RATE_RATIO * offered
        return VariantFindings(
            name=self._name(variant),
            changes=tuple(self._experiment.variant(variant).changes().items()),
            target=str(facts.get("target_line", "")),
            cannot_start=self._excluded.get(variant, ""),
            runs=len(runs),
            runs_valid=sum(self._valid[visit.planned.number] for visit in runs),
            metrics=metrics,
            where=self._splits[variant],
            weakened=tuple(facts.get("weakened", ())),
            holds_rate=holds,
            served=served_by(runs, self._numbers),
            cost=cost_of(
                self._experiment.variant(variant), None if holds is False else metrics.get("tps")
            ),
            by_round=tuple(
                (m.run.round, m.metrics[self._metric])
                for m in self._history
                if m.run.cell.variant == variant and self._metric in m.metrics
            ),
        )

    def _settings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the settings that the servers of the variants do not share, as read back."""
        known = self._facts.get("variants", {})
        seen = [
            known.get(str(i), {}).get("server", {}).get("settings", {})
            for i in self._variant_range()
        ]
        read = [one for one in seen if one]
        return tuple(
            (name, tuple(str(one.get(name, "")) for one in seen))
            for name in sorted({name for one in read for name in one})
            if name not in _PLACES and len({one.get(name) for one in read}) > 1
        )

    def _compared(self) -> tuple[ContrastFindings, ...]:
        found = standings(self._experiment, self._history, frozenset(self._excluded))
        return tuple(
            self._contrast(one.variant, one.reference, one.comparison, standing=one)
            for one in found
            if one.comparison is not None
        )

    def _passes(self) -> tuple[tuple[ContrastFindings, ...], tuple[ContrastFindings, ...]]:
        order = [i for i in self._variant_range() if i not in self._excluded]
        table = self._table(order)
        if len(table) < 2:
            return (), ()
        better: Better = "more" if self._metric in MORE_IS_BETTER else "less"
        found = passes([self._name(i) for i in order], table, better=better)
        to_base, steps = [], []
        for place, one in enumerate(found, 1):
            to_base.append(self._contrast(order[place], order[0], one.to_base))
            steps.append(self._contrast(order[place], order[place - 1], one.to_previous))
        return tuple(to_base), tuple(steps)

    def _effects(self, design: FactorialDesign) -> tuple[Effect, ...]:
        order = [i for i in self._variant_range() if i not in self._excluded]
        table = self._table(order)
        factors = {f.name: [level.name for level in f.levels] for f in design.factors}
        cells = [self._experiment.levels_of(i) for i in order]
        try:
            return factorial(factors, cells, table)
        except AnalysisError:
            return ()  # Too few rounds, or a cell that could not start makes it unbalanced.

    def _table(self, order: Sequence[int]) -> list[list[float]]:
        """Return the metric by round and variant, of the rounds that visited all."""
        by_round: dict[int, dict[int | None, float]] = {}
        for one in self._history:
            if self._metric in one.metrics:
                by_round.setdefault(one.run.round, {})[one.run.cell.variant] = one.metrics[
                    self._metric
                ]
        return [
            [found[i] for i in order]
            for _, found in sorted(by_round.items())
            if all(i in found for i in order)
        ]

    def _contrast(
        self,
        variant: int,
        reference: int,
        deciding: Comparison,
        *,
        standing: Standing | None = None,
    ) -> ContrastFindings:
        comparisons = self._comparisons(variant, reference, deciding)
        apart = self._difference(variant, reference)
        runs = [*self._runs_of(reference), *self._runs_of(variant)]
        changed = between_variants(
            self._runs_of(reference),
            self._runs_of(variant),
            names=(self._name(reference), self._name(variant)),
        )
        is_direction = deciding.verdict not in ("no difference", "cannot tell")
        because = because_words(apart, changed) if is_direction else ""
        also: dict[str, Comparison] = {
            name: comparisons[name]
            for name in _ALSO_NAMED.get(self._metric, ())
            if name in comparisons
        }
        holds = self._variant(variant).holds_rate
        rounds = counted(deciding.pair_count, "round")
        effort = f"{rounds}, {counted(len(runs), 'run')}, {self._spent(runs)}"
        left_ns = standing.left_ns if standing is not None else None
        return ContrastFindings(
            variant=self._name(variant),
            reference=self._name(reference),
            deciding=deciding,
            comparisons=comparisons,
            pairs=self._pairs(variant, reference),
            difference=apart,
            because=because,
            plan_changes=changed,
            sentence=verdict_sentence(
                self._name(variant),
                self._name(reference),
                self._metric,
                deciding,
                others=also,
                because=because,
                effort=effort,
                left_ns=left_ns,
                can_hold=holds is not False,
            ),
            is_settled=standing.is_settled if standing is not None else True,
            left_ns=left_ns,
        )

    def _comparisons(
        self, variant: int, reference: int, deciding: Comparison
    ) -> dict[str, Comparison]:
        """Return every metric's comparison, at the level and by the looks of the deciding one."""
        design = self._experiment.design
        usable = len(self._variant_range()) - len(self._excluded)
        is_watched = isinstance(design, CompareDesign)
        found: dict[str, Comparison] = {}
        for name in METRICS:
            pairs = self._values(variant, reference, name)
            if not pairs:
                continue
            found[name] = compare(
                log_ratios([a for _, a, _ in pairs], [b for _, _, b in pairs]),
                looks="sequential" if is_watched else "fixed",
                better="more" if name in MORE_IS_BETTER else "less",
                level=family_level(usable) if is_watched else deciding.level_ratio,
                margin_ratio=deciding.margin_ratio,
            )
        return {**found, self._metric: deciding}

    def _values(self, variant: int, reference: int, metric: str) -> list[tuple[int, float, float]]:
        """Return round, reference and variant of every round that measured both."""
        by_round: dict[int, dict[int | None, float]] = {}
        for one in self._history:
            if metric in one.metrics:
                by_round.setdefault(one.run.round, {})[one.run.cell.variant] = one.metrics[metric]
        return [
            (number, found[reference], found[variant])
            for number, found in sorted(by_round.items())
            if reference in found and variant in found
        ]

    def _pairs(self, variant: int, reference: int) -> tuple[Pair, ...]:
        return tuple(
            Pair(number, a, b, is_reversed(number - 1))
            for number, a, b in self._values(variant, reference, self._metric)
        )

    def _difference(self, variant: int, reference: int) -> Difference | None:
        a, b = self._splits[reference], self._splits[variant]
        return difference(a, b) if a is not None and b is not None else None

    def _spent(self, runs: Sequence[Visit]) -> str:
        return duration_text(sum(visit.took_ns for visit in runs))
