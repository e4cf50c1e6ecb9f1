"""The counted runs of one experiment by variant: contrasts, their reasons, and confounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.analysis.compare import Comparison, compare, log_ratios, predict_pairs
from pgdyno.analysis.compare_findings import (
    CompareFindings,
    ContrastFindings,
    Pair,
    PlanChange,
    StatementChange,
    VariantFindings,
)
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.devices import device_findings
from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.scaling_out import ScalingOut, scaling_out
from pgdyno.analysis.split_verdicts import why_mean_withheld, why_withheld
from pgdyno.analysis.where import WhereTheTimeGoes, mean_over_runs
from pgdyno.analysis.where_difference import Difference, difference
from pgdyno.answer.answer import Measurements
from pgdyno.answer.compare_words import RoundsEstimate, because_words, round_words, verdict_sentence
from pgdyno.answer.confounds import between_variants, confounds, state_words
from pgdyno.answer.devices import QUANTITIES, devices_of_runs
from pgdyno.answer.nodes import nodes_answer
from pgdyno.answer.own import own_answer
from pgdyno.answer.served import cost_of, served_by
from pgdyno.answer.statement_changes import explaining_plans, statement_changes
from pgdyno.answer.time_split import time_split
from pgdyno.loop.history import UNITS, measured
from pgdyno.loop.journal import Visit, excluded, resumed_count, stopped_by, variants
from pgdyno.loop.losses import price_of_loss
from pgdyno.plan.designs.compare import Standing, better_of
from pgdyno.plan.history import History
from pgdyno.quantities import counted, duration_text
from pgdyno.spec.designs import METRICS, Metric
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import Variant

_HOLDS_RATE_RATIO = 0.99
# Settings for the place of a server. They do not change how it works.
_PLACES = frozenset(
    {"port", "listen_addresses", "cluster_name", "unix_socket_directories", "data_directory"}
    | {"config_file", "hba_file", "ident_file", "external_pid_file"}
)
Contrasts = tuple[ContrastFindings, ...]
_CERTAIN = ("lower", "higher")
_ALSO_NAMED: Mapping[str, tuple[Metric, ...]] = {"tps": ("p99", "p50")}


class Compared:
    """The counted runs of one experiment, by variant.

    Args: only, the variants that are compared; None: all.
    """

    def __init__(self, seen: Measurements, *, only: Sequence[PlannedVariant] | None = None) -> None:
        folder, numbers = seen.folder, seen.numbers
        self._experiment = seen.experiment
        self._rounds = seen.rounds
        self._numbers = numbers
        self._valid = seen.valid
        self._excluded = excluded(folder)
        self._losses = price_of_loss().losses_by_variant(folder)
        self._facts = folder.facts() or {}
        self._stopped_by = stopped_by(folder)
        self._resumed = resumed_count(folder)
        self._variants = variants(folder) if only is None else tuple(only)
        self.metric: Metric = seen.experiment.metric()
        self.history: History = tuple(
            measured(visit, numbers[visit.planned.number]) for visit in self._rounds
        )
        self._splits = {variant: self._split(variant) for variant in self._variants}

    @property
    def excluded_ids(self) -> frozenset[str]:
        """Return the variants that could not be measured."""
        return frozenset(self._excluded)

    @property
    def usable(self) -> list[PlannedVariant]:
        """Return the variants that could be measured."""
        return [variant for variant in self._variants if variant.id not in self._excluded]

    def findings(
        self,
        *,
        contrasts: Contrasts = (),
        steps: Contrasts = (),
        effects: tuple[Effect, ...] = (),
        added: Sequence[Variant] = (),
    ) -> CompareFindings:
        """Return the answer with the comparisons of the design.

        Args: added, the changes that each pass adds to the previous pass.
        """
        by_variant = {variant: self._runs_of(variant) for variant in self._variants}
        usable, resumed = self.usable, self._resumed
        return CompareFindings(
            metric=self.metric,
            unit=UNITS[self.metric],
            reference=usable[0].name if usable else "",
            variants=tuple(self._variant(variant) for variant in self._variants),
            contrasts=contrasts,
            rounds=len({visit.planned.round for visit in self._rounds}),
            stopped_by=self._stopped_by or "interrupted",
            effects=effects,
            steps=steps,
            confounds=tuple(
                confounds(
                    self._experiment,
                    by_variant,
                    resumed_count=resumed,
                    disks={variant: self._disks_of(variant) for variant in by_variant},
                    steps=added,
                )
            ),
            state=tuple(
                words
                for variant, runs in by_variant.items()
                if (words := state_words(variant.name, runs))
            ),
            settings=self._settings(),
            devices=device_findings(
                [
                    devices_of_runs(variant.name, runs, self._numbers, self._server_of(variant))
                    for variant, runs in by_variant.items()
                ],
                QUANTITIES,
            ),
            scaling_out=self._scaling_out(),
        )

    def _scaling_out(self) -> ScalingOut | None:
        """Return how throughput grows with the workers of the variants' servers."""
        order = self.usable
        runs = [[visit.stored for visit in self._runs_of(variant)] for variant in order]
        counts = [
            max((nodes_answer(run).worker_count(run) for run in of_variant), default=0)
            for of_variant in runs
        ]
        if better_of(self.metric) != "more" or not all(counts):
            return None
        names = (variant.name for variant in order)
        return scaling_out(list(zip(names, counts, strict=True)), self.table(order))

    def _server_of(self, variant: PlannedVariant) -> Mapping[str, Any]:
        """Return the facts of the variant's server as stored, empty if it never started."""
        server: Mapping[str, Any] = (
            self._facts.get("variants", {}).get(variant.id, {}).get("server", {})
        )
        return server

    def _disks_of(self, variant: PlannedVariant) -> tuple[str, ...]:
        """Return the disks of the variant's data, for example ("nvme0n1",); none if not known."""
        storage = self._server_of(variant).get("data_storage") or {}
        return tuple(storage.get("disks") or ())

    def _runs_of(self, variant: PlannedVariant) -> list[Visit]:
        return [visit for visit in self._rounds if visit.planned.cell.variant == variant]

    def _split(self, variant: PlannedVariant) -> WhereTheTimeGoes | None:
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

    def _shown_split(self, variant: PlannedVariant) -> WhereTheTimeGoes | None:
        split = self._splits[variant]
        return None if split is None or why_mean_withheld(split) else split

    def _variant(self, variant: PlannedVariant) -> VariantFindings:
        facts = self._facts.get("variants", {}).get(variant.id, {})
        runs = self._runs_of(variant)
        values = [m.metrics for m in self.history if m.run.cell.variant == variant]
        metrics: dict[str, Estimate] = {
            name: mean_between_runs(
                [metrics_of_run[name] for metrics_of_run in values], UNITS[name]
            )
            for name in METRICS
            if values and all(name in metrics_of_run for metrics_of_run in values)
        }
        holds = None
        if self._experiment.workload.rate_tps is not None and runs:
            counts = [self._numbers[visit.planned.number].counts for visit in runs]
            offered = sum(run_counts.scheduled for run_counts in counts)
            holds = (
                sum(run_counts.completed for run_counts in counts) >= _HOLDS_RATE_RATIO * offered
            )
        return VariantFindings(
            name=variant.name,
            changes=tuple(variant.spec.changes().items()),
            target=str(facts.get("target_line", "")),
            cannot_start=self._excluded.get(variant.id, ""),
            runs=len(runs),
            runs_valid=sum(self._valid[visit.planned.number] for visit in runs),
            metrics=metrics,
            where=self._shown_split(variant),
            weakened=tuple(facts.get("weakened", ())),
            holds_rate=holds,
            served=served_by(
                runs,
                self._numbers,
                {m.run.number: m.metrics.get("cpu_per_tx") for m in self.history},
            ),
            losses=self._losses.get(variant.id, ()),
            cost=cost_of(variant.spec, None if holds is False else metrics.get("tps")),
            by_round=tuple(
                (m.run.round, m.metrics[self.metric])
                for m in self.history
                if m.run.cell.variant == variant and self.metric in m.metrics
            ),
        )

    def _settings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the settings that differ between the servers of the variants, as read back."""
        seen = [self._server_of(variant).get("settings", {}) for variant in self._variants]
        read = [settings for settings in seen if settings]
        return tuple(
            (name, tuple(str(settings.get(name, "")) for settings in seen))
            for name in sorted({name for settings in read for name in settings})
            if name not in _PLACES and len({settings.get(name) for settings in read}) > 1
        )

    def table(self, order: Sequence[PlannedVariant]) -> list[list[float]]:
        """Return the metric by round and variant, of the rounds that visited all variants."""
        by_round: dict[int, dict[PlannedVariant | None, float]] = {}
        for run in self.history:
            if self.metric in run.metrics:
                by_round.setdefault(run.run.round, {})[run.run.cell.variant] = run.metrics[
                    self.metric
                ]
        return [
            [values[variant] for variant in order]
            for _, values in sorted(by_round.items())
            if all(variant in values for variant in order)
        ]

    def contrast(
        self,
        variant: PlannedVariant,
        reference: PlannedVariant,
        deciding: Comparison,
        *,
        standing: Standing | None = None,
    ) -> ContrastFindings:
        """Return one variant against a reference, with its reasons.

        Args: deciding, the comparison of the deciding metric; standing, its state in the design,
        because a budget may have ended the contrast early; None for a design without looks.
        """
        every = self._comparisons(variant, reference, deciding)
        noise = [n for n, of in every.items() if of.ratio.is_of_noise and n != self.metric]
        comparisons = {name: of for name, of in every.items() if name not in noise}
        apart, why_not_split = self._difference(variant, reference)
        both = self._runs_of(reference), self._runs_of(variant)
        runs = [*both[0], *both[1]]
        changed = between_variants(*both, names=(reference.name, variant.name))
        is_direction = deciding.verdict not in ("no difference", "cannot tell")
        reasons = explaining_plans(*both, self._numbers, changed) if is_direction else ()
        because = because_words(apart, reasons) if is_direction else ""
        worse = variant if deciding.verdict in ("slower", "higher") else reference
        because = self._with_pooler(because, worse) if is_direction else ""
        also: dict[str, Comparison] = {
            name: comparisons[name]
            for name in _ALSO_NAMED.get(self.metric, ())
            if name in comparisons
            # The tail is enough, unless only the median is certain.
            and (name != "p50" or (not is_direction and comparisons[name].verdict in _CERTAIN))
        }
        holds = self._variant(variant).holds_rate
        rounds = counted(deciding.pair_count, "round")
        effort = f"{rounds}, {counted(len(runs), 'run')}, {self._spent(runs)}"
        left_ns = standing.left_ns if standing is not None else None
        pairs = self._pairs(variant, reference)
        return ContrastFindings(
            variant=variant.name,
            reference=reference.name,
            deciding=deciding,
            comparisons=comparisons,
            of_noise=tuple(noise),
            pairs=pairs,
            difference=apart,
            why_not_split=why_not_split,
            because=because,
            plan_changes=changed,
            sentence=verdict_sentence(
                variant.name,
                reference.name,
                self.metric,
                deciding,
                others=also,
                rounds=round_words(pairs, deciding, self.metric),
                because=because,
                effort=effort,
                left_ns=left_ns,
                # Only `compare` has --rounds.
                enough=None
                if standing is None
                else _enough(pairs, deciding, sum(visit.took_ns for visit in runs)),
                can_hold=holds is not False,
            ),
            is_settled=(
                standing.is_settled if standing is not None else deciding.verdict != "cannot tell"
            ),
            left_ns=left_ns,
            statements=self._statements(variant, reference, deciding, changed),
        )

    def _with_pooler(self, because: str, worse: PlannedVariant) -> str:
        """Return the reasons, first that the pooler of the worse variant lets clients wait."""
        served = self._variant(worse).served
        if served is None or not served.pooler_words:
            return because
        return "; ".join(
            filter(None, (f"because {served.pooler_words}", because.removeprefix("because ")))
        )

    def _statements(
        self,
        variant: PlannedVariant,
        reference: PlannedVariant,
        deciding: Comparison,
        plans: Sequence[PlanChange],
    ) -> tuple[StatementChange, ...]:
        """Return the statements of the load, if its program counts them."""
        program = self._experiment.program
        if not program.counts_statements:
            return ()
        was, became = self._runs_of(reference), self._runs_of(variant)
        adds, judged = own_answer(program), None
        for visits in (was, became):
            own = adds.together([(v.stored, self._numbers[v.planned.number]) for v in visits])
            texts = None if own is None else adds.judged_texts(own)
            judged = texts if judged is None or texts is None else judged & texts
        return statement_changes(
            was,
            became,
            self._numbers,
            plans,
            looks=deciding.looks,
            level_ratio=deciding.level_ratio,
            judged=judged,
        )

    def _comparisons(
        self, variant: PlannedVariant, reference: PlannedVariant, deciding: Comparison
    ) -> dict[str, Comparison]:
        """Return the comparison of every metric, with the interval of the deciding comparison."""
        by_metric: dict[str, Comparison] = {}
        for name in METRICS:
            pairs = self._values(variant, reference, name)
            if not pairs:
                continue
            by_metric[name] = compare(
                log_ratios([a for _, a, _ in pairs], [b for _, _, b in pairs]),
                looks=deciding.looks,
                better=better_of(name),
                level=deciding.level_ratio,
                margin_ratio=deciding.margin_ratio,
            )
        return {**by_metric, self.metric: deciding}

    def _values(
        self, variant: PlannedVariant, reference: PlannedVariant, metric: str
    ) -> list[tuple[int, float, float]]:
        """Return round, reference and variant of every round that measured both."""
        by_round: dict[int, dict[PlannedVariant | None, float]] = {}
        for run in self.history:
            if metric in run.metrics:
                by_round.setdefault(run.run.round, {})[run.run.cell.variant] = run.metrics[metric]
        return [
            (number, values[reference], values[variant])
            for number, values in sorted(by_round.items())
            if reference in values and variant in values
        ]

    def _pairs(self, variant: PlannedVariant, reference: PlannedVariant) -> tuple[Pair, ...]:
        return tuple(
            Pair(number, a, b) for number, a, b in self._values(variant, reference, self.metric)
        )

    def _difference(
        self, variant: PlannedVariant, reference: PlannedVariant
    ) -> tuple[Difference | None, str]:
        """Return where the latencies differ, or why the parts do not explain it; "" if unknown."""
        a, b = self._splits[reference], self._splits[variant]
        if a is None or b is None:
            return None, ""
        for name, split in ((reference.name, a), (variant.name, b)):
            if why_not := why_mean_withheld(split):
                return None, f"{why_not} of {name}"
        apart = difference(a, b)
        why_not = why_withheld("difference", apart.latency_ms.value, apart.residual_ms)
        return (None, why_not) if why_not else (apart, "")

    def _spent(self, runs: Sequence[Visit]) -> str:
        return duration_text(sum(visit.took_ns for visit in runs))


def _enough(pairs: Sequence[Pair], deciding: Comparison, took_ns: int) -> RoundsEstimate | None:
    """Return what would decide at its last look if the scatter of rounds and their time stay.

    Args: took_ns, of the rounds so far.
    """
    if deciding.verdict != "cannot tell" or deciding.looks != "fixed" or len(pairs) < 2:
        return None
    more = predict_pairs(
        log_ratios([p.reference_value for p in pairs], [p.variant_value for p in pairs]),
        looks="fixed",
        level=deciding.level_ratio,
        margin_ratio=deciding.margin_ratio,
    )
    if more is None:
        return None
    rounds = len(pairs) + more
    return RoundsEstimate(rounds, took_ns * rounds // len(pairs))
