"""The design of a tuning: the search says which candidate runs next; variants are made of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pgdyno.analysis.capacity import Target, Trial
from pgdyno.errors import AnalysisError
from pgdyno.features.tune import storage, trial
from pgdyno.features.tune.catalogue import catalogue
from pgdyno.features.tune.machine import Machine
from pgdyno.features.tune.memory import allowed_bytes
from pgdyno.features.tune.server_settings import defaults_of
from pgdyno.features.tune.space import Dimension, check_risks, dimensions
from pgdyno.features.tune.spec import TuneDesign
from pgdyno.features.tune.spread import are_apart
from pgdyno.features.tune.stages import Search
from pgdyno.features.tune.trial import BASE, Candidate, StageName, Step
from pgdyno.features.tune.tuning import Tuning
from pgdyno.plan.design import NONE, WaveDesign
from pgdyno.plan.history import History, Measured, elapsed_ns, rounds, why_no_answer
from pgdyno.plan.visits import pilot_missing, visit
from pgdyno.quantities import percent, signed
from pgdyno.spec.condition import condition_from, memory_limit_from
from pgdyno.spec.designs import MORE_IS_BETTER, Metric
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop, server_id
from pgdyno.spec.setting_rules import MAJORS

# The order gives each stage its seeds, so it never changes.
_STAGES: tuple[StageName, ...] = ("search", "proof", "attribution", "final", "second", "alone")
_STAGE_ROUNDS = 100_000
_STAGE_WORDS = {
    "proof": "proof: the winner against your settings, with fresh runs",
    "second": "proof: the winner was refuted, so another candidate is measured again",
    "attribution": "proof: the winner without each of its settings",
    "alone": "proof: what is sure of the winner, and this with each other setting",
    "final": "proof: what is left of the winner, once more",
}
# If the first runs all lack the metric, it cannot be measured on this server.
_LOOKS = 2
_BASE_ID = "0"
_MINUTE_NS = 60_000_000_000


@dataclass
class _Memo:
    """The tuning of the last call and the runs it took in: a history that grew is not replayed."""

    key: str
    tuning: Tuning
    runs: list[tuple[str, int, float | None]] = field(default_factory=list)


_last: list[_Memo] = []


class Tune(WaveDesign[TuneDesign]):
    """Pairs against the best settings so far, then a proof with fresh runs."""

    model = TuneDesign

    @property
    def budget_ns(self) -> int:
        """Return the time that search and proof take together."""
        return self.asked.budget_ns

    @cached_property
    def metric(self) -> Metric:
        """Return the deciding metric; each run that was measured is asked for it."""
        return self.experiment.metric()

    @property
    def is_more_better(self) -> bool:
        """Return whether more of the deciding metric is better."""
        return self.metric in MORE_IS_BETTER

    @property
    def is_at_once(self) -> bool:
        """Return whether several equal servers run at the same time."""
        return bool(self.asked.at_once) and len(self.experiment.server.numbers) > 1

    def settled(self) -> Experiment:
        """Return the experiment with `at_once`; results of earlier versions lack it: in turn."""
        if self.asked.at_once is not None:
            return self.experiment
        dsns = [server.dsn for server in self.experiment.server.each]
        design = self.asked.model_copy(update={"at_once": len(dsns) > 1 and are_apart(dsns)})
        return self.experiment.model_copy(update={"design": design})

    @property
    def major(self) -> int:
        """Return the major version that the settings are looked up for."""
        scratch = self.experiment.server.scratch
        named = scratch.version if scratch is not None else None
        return self.asked.major or (int(named.split(".")[0]) if named else MAJORS[-1])

    @property
    def now(self) -> dict[str, str]:
        """Return the present value of each setting that is searched."""
        known = self.whole_now
        return {name: known[name] for name in self.asked.settings_searched() if name in known}

    @property
    def whole_now(self) -> dict[str, str]:
        """Return the present value of every setting, as far as it is known."""
        settings = defaults_of(self.major) | dict(self.experiment.server.settings)
        return settings | storage.choices_now(self.experiment, self.major) | self.asked.now

    def space(self) -> tuple[Dimension, ...]:
        """Return what is searched. Raises: SpecError, RefusedError."""
        if self.experiment.server.scratch is None:
            storage.refuse_on_own_server(tuple(self.now))
        machine = Machine(self.major, 100)
        return dimensions(self.asked.settings, machine, self.now, check_risks(self.asked.classes))

    def next_wave(
        self, history: History, excluded: frozenset[str] = NONE
    ) -> tuple[PlannedRun, ...] | Stop:
        """Return the next run of each server, if they run at the same time, else the next run."""
        base = self.experiment.planned_variants()[0]
        if base.id in excluded:
            return Stop("the server as it is cannot be measured")
        left = [n for n in self.experiment.server.numbers if server_id(n) not in excluded]
        if not left:
            return Stop("every server was lost")
        if missing := pilot_missing(self.experiment, history, [base]):
            return (replace(missing, server_number=left[0]),)
        done = rounds(history)
        first = done[:_LOOKS]
        if len(first) == _LOOKS and all(self.metric not in run.metrics for run in first):
            return Stop(f"{self.metric} cannot be measured here")
        tuning = self.tuning(history, excluded)
        steps = tuning.wave()
        if why := self.why_not_known(history) or self.why_no_candidate_counts(history):
            return Stop(why)
        if not steps:
            return Stop(tuning.reason)
        runs = [self._run_of(step, history) for step in steps]
        return tuple(
            replace(run, number=run.number + place, runs_at_once=len(runs))
            for place, run in enumerate(runs)
        )

    def _run_of(self, step: Step, history: History) -> PlannedRun:
        number = self.rounds_before(step.stage) + step.round
        run = visit(
            self.experiment, history, variant=self.variant_of(step.candidate), round_number=number
        )
        return replace(run, server_number=step.server_number)

    @staticmethod
    def rounds_before(stage: StageName) -> int:
        """Return what is added to a round of the stage, so that no seed is used twice."""
        return _STAGES.index(stage) * _STAGE_ROUNDS

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return how many runs the budget allows, as far as can be said now."""
        done = rounds(history)
        if not done:
            usual_ns = self.experiment.workload.duration_ns + (
                self.experiment.workload.warmup_ns or 0
            )
            return max(1, self.asked.budget_ns // usual_ns)
        if self.why_not_known(history) or self.tuning(history, excluded).next() is None:
            return len(history)
        each_ns = max(1, elapsed_ns(done) // len(done))
        left_ns = self.asked.budget_ns - elapsed_ns(history)
        return len(history) + max(1, left_ns // each_ns)

    def outlook(self, history: History, excluded: frozenset[str] = NONE) -> str:
        """Return "trial 14, best +21 % over yours, 12 min left with the proof"."""
        if not rounds(history):
            return ""
        if why := self.why_not_known(history):
            return f"the tuning ends: {why}"
        tuning = self.tuning(history, excluded)
        if not isinstance(tuning.stage, Search):
            return _STAGE_WORDS[tuning.stage.name]
        best, words = tuning.promised(), "nothing better yet"
        if best.log_ratios:
            sign = 1 if self.is_more_better else -1
            words = f"best {signed(100 * math.expm1(sign * best.mean), 0)} % over yours"
        left_ns = self.asked.budget_ns - elapsed_ns(history)
        left = max(0, round(left_ns / _MINUTE_NS))
        return f"trial {len(tuning.trials)}: {words}, {left} min left with the proof"

    def why_not_known(self, history: History) -> str:
        """Return why this machine cannot tell whether a latency target is kept, or "".

        Where the target is a limit, a disturbed run that met it is as good as another. Where the
        latency itself is compared, each disturbed run says nothing.
        """
        target = self.slo
        if target is None:
            return ""
        is_goal = self.is_slo_the_goal
        return why_no_answer(
            rounds(history),
            lambda seen: is_goal or not self._meets(target, seen),
            runs="runs",
            spoils=f"says nothing about {target.name}" if is_goal else "missed the target",
        )

    def why_no_candidate_counts(self, history: History) -> str:
        """Return why the server as it is cannot be compared within the latency target, or ""."""
        target = self.slo
        first = [run for run in rounds(history) if _id(run) == _BASE_ID and not run.disturbed_by]
        first = first[:_LOOKS]
        if target is None or self.is_slo_the_goal or len(first) < _LOOKS:
            return ""
        if any(self._meets(target, run) for run in first):
            return ""
        seen_ms = first[0].latency_ms.get(target.name, math.nan)
        return f"your settings do not meet {self.asked.slo} with this load ({seen_ms:.3g} ms)"

    def priced(
        self, history: History, excluded: frozenset[str] = NONE
    ) -> tuple[PlannedVariant, ...]:
        """Return the settings that are proposed, if they weaken durability."""
        tuning = self.tuning(history, excluded)
        tuning.next()
        proved = tuning.proved()
        candidate = proved[0] if proved is not None else tuning.best
        known = catalogue()
        weaker = [
            name
            for name, value in candidate.settings.items()
            if name in known
            and known[name].risk == "durability"
            and value != self.whole_now.get(name)
        ]
        return (self.variant_of(candidate),) if weaker else ()

    def slo_held(self, history: History, stage: StageName, variant_id: str) -> tuple[int, int]:
        """Return how many runs of a variant in a stage met the latency target, and how many ran."""
        target, before = self.slo, self.rounds_before(stage)
        ran = [
            run
            for run in rounds(history)
            if _id(run) == variant_id and before < run.run.round <= before + _STAGE_ROUNDS
        ]
        return sum(target is not None and self._meets(target, run) for run in ran), len(ran)

    @property
    def slo(self) -> Target | None:
        """Return the latency target, None without one."""
        asked = self.asked.target
        return None if asked is None else Target(asked.figure, asked.limit)

    @property
    def is_slo_the_goal(self) -> bool:
        """Return whether the latency of the target is lowered, rather than kept below a limit."""
        is_open = self.experiment.workload.rate_tps is not None
        target = self.asked.target
        return target is not None and not target.of and is_open and self.asked.metric is None

    @staticmethod
    def _meets(target: Target, seen: Measured) -> bool:
        latency_ms = seen.latency_ms.get(target.name, math.inf)
        rate_tps = seen.run.cell.rate_tps or seen.tps
        return target.is_met(Trial(rate_tps, seen.achieved_ratio, latency_ms))

    def tuning(self, history: History, excluded: frozenset[str] = NONE) -> Tuning:
        """Return the state of the tuning after these runs.

        Raises: AnalysisError if the runs do not follow from the plan, as in a result of another
        version whose search was different.
        """
        key = self.experiment.model_dump_json(by_alias=True)
        done = rounds(history)
        runs = [(_id(run), run.run.server_number, self._goal(run)) for run in done]
        memo = _last[0] if _last else None
        if memo is None or memo.key != key or memo.runs != runs[: len(memo.runs)]:
            memo = _Memo(key, self._begun())
        while steps := memo.tuning.wave():
            place = len(memo.runs)
            keys = {(self.variant_of(s.candidate).id, s.server_number): s for s in steps}
            step = keys.get(runs[place][:2]) if place < len(runs) else None
            if step is not None:
                memo.runs.append(runs[place])
                self._take(memo.tuning, step, runs[place][2], done[place])
            else:
                still_runs = {server for _, server, _ in runs[place:]}
                if not self._leave_out(memo.tuning, keys, excluded, still_runs):
                    break
        # When a tuning ends early, runs that took place at the same time may be left.
        if len(runs) - len(memo.runs) >= max(1, len(self.experiment.server.numbers)):
            number = done[len(memo.runs)].run.number
            raise AnalysisError(
                f"This version of pgdyno would have planned another run than run {number} of this"
                " tuning, so it cannot judge the tuning.",
                hint="use the version of pgdyno that measured it; the store has every run",
            )
        _last[:] = [memo]
        return memo.tuning

    @staticmethod
    def _leave_out(
        tuning: Tuning,
        steps: Mapping[tuple[str, int], Step],
        excluded: frozenset[str],
        still_runs: Collection[int],
    ) -> bool:
        """Give up a lost server, or else an excluded candidate; return False if there is none.

        Args: steps, by the id of the variant and the server; still_runs, the servers that have a
        later run in the store, so they were lost only after it.
        """
        for (variant, server), step in steps.items():
            if server_id(server) in excluded and server not in still_runs:
                tuning.lose(server)
                return True
            if variant in excluded and step.candidate is not tuning.base:
                tuning.give_up(step)
                return True
        return False

    def variant_of(self, candidate: Candidate) -> PlannedVariant:
        """Return the variant of a candidate: one of the spec's, or a new one."""
        planned = self.experiment.planned_variants()
        if candidate.name == BASE:
            return planned[0]
        known = next((variant for variant in planned[1:] if variant.name == candidate.name), None)
        if known is not None:
            return known
        name = candidate.name
        return PlannedVariant(name.replace(" ", "-"), storage.variant_of(name, candidate.settings))

    def _begun(self) -> Tuning:
        baselines = [
            Candidate(variant.name, dict(variant.spec.settings))
            for variant in self.experiment.planned_variants()[1:]
        ]
        budget_ns = self.asked.budget_ns
        return Tuning(
            self.space(),
            self.now,
            baselines,
            budget_ns=budget_ns,
            seed=self.order_seed,
            refusal=self._refusal,
            servers=self.experiment.server.numbers,
            is_at_once=self.is_at_once,
        )

    def _refusal(self, candidate: Candidate) -> str:
        """Return why a candidate must not run: its settings allow more memory than `keep` does."""
        limit, ram_bytes = self.asked.memory_limit_ratio, self.asked.ram_bytes
        if limit is None or ram_bytes is None:
            return ""
        share = allowed_bytes(self.whole_now | dict(candidate.settings), self.major) / ram_bytes
        if share < limit:
            return ""
        return (
            f"its settings allow {percent(share)} of the memory, and {percent(limit)} is the limit"
        )

    def _take(self, tuning: Tuning, step: Step, goal: float | None, seen: Measured) -> None:
        why = ""
        if step.candidate.name != BASE:
            why = next((text for text in self.asked.keep if self._breaks(text, seen)), "")
            if (
                self.slo is not None
                and not self.is_slo_the_goal
                and not self._meets(self.slo, seen)
            ):
                why = why or str(self.asked.slo)
        value = None if why else goal
        said = f"it does not keep {why}" if why else ""
        if seen.tps == 0 and step.candidate.name != BASE and step.stage == "search":
            said = "it completed no transaction in a run"
        took_ns, run_count = round(seen.elapsed_ns), seen.run.runs_at_once
        tuning.take(trial.Measured(step, value, took_ns, said, run_count))

    def _breaks(self, text: str, seen: Measured) -> bool:
        if memory_limit_from(text) is not None:
            return False  # Checked before the run.
        condition = condition_from(text)
        values = {**seen.latency_ms, **seen.metrics, "tps": seen.tps}
        return condition.name in values and not condition.is_met(values[condition.name])

    def _goal(self, seen: Measured) -> float | None:
        value = seen.metrics.get(self.metric, 0.0)
        if value <= 0:
            return None
        return math.log(value) if self.is_more_better else -math.log(value)


def _id(seen: Measured) -> str:
    variant = seen.run.cell.variant
    assert variant is not None, "every run of a tuning has a variant"
    return variant.id
