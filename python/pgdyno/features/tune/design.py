"""The design of a tuning: the search says which candidate runs next; its variant is made here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pgdyno.errors import AnalysisError
from pgdyno.features.tune import storage, trial
from pgdyno.features.tune.arms import PAIRS_PLANNED
from pgdyno.features.tune.latency_target import LOOKS, LatencyTarget, variant_id
from pgdyno.features.tune.memory import allowed_bytes
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.space import Dimension, check_risks, dimensions
from pgdyno.features.tune.spec import TuneDesign
from pgdyno.features.tune.trial import BASE, Candidate, Length, TrialStep
from pgdyno.features.tune.tuning import Tuning
from pgdyno.plan.design import NONE, Design
from pgdyno.plan.history import History, Measured, elapsed_ns, pilots, rounds
from pgdyno.plan.visits import WARMUP_LEAST_NS, pilot_missing, visit
from pgdyno.quantities import counted, duration_text, percent, signed
from pgdyno.settings.formula import Machine
from pgdyno.settings.rule import MAJORS, rule_of
from pgdyno.settings.table import catalogue
from pgdyno.settings.value import defaults_of
from pgdyno.spec.condition import condition_from, memory_limit_from
from pgdyno.spec.designs import MORE_IS_BETTER, Metric
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop
from pgdyno.spec.run_needs import NEEDS

# Characters that an id does not have, because files are named after it.
_UNUSUAL = re.compile(r"[^A-Za-z0-9._=,-]+")
# Values that the progress shows.
_SHOWN = 3
# The metrics that a turn within a load can show, and the needs that all turns of a load share.
_OF_TURNS, _NEEDS_OF_TURNS = ("tps", "wal_per_tx"), (None, "full-page images")
# A turn lasts so long, or longer if fewer than this number of transactions would end in it.
_TURN_NS, _TURN_MAX_NS, _TURN_COUNT = 2_500_000_000, 4_000_000_000, 20
_TURN_WAL_MAX_NS = 10_000_000_000
# A setting with such a need has runs that last this part of the time, at most a minute.
_SLOW_NEEDS, _LONG_SHARE, _LONG_MAX_NS = ("checkpoint", "autovacuum"), 24, 60_000_000_000
# One checkpoint more or less does not change a run with this number much.
_CHECKPOINTS_OF_RUN = 4
# From the end of a run to the load of the next one.
_AROUND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Ran:
    """A run, or a turn of a load, as the tuning sees it. `refused`: why the server refused it."""

    variant: str
    round: int
    goal: float | None
    took_ns: int
    seen: Measured = field(compare=False)
    in_turns: bool = False
    refused: str = ""


@dataclass
class _Memo:
    """The tuning of the last call and the runs it took in: a history that grew is not replayed."""

    key: str
    tuning: Tuning
    runs: list[_Ran] = field(default_factory=list)


_last: list[_Memo] = []


def long_run_ns(budget_ns: int) -> int:
    """Return how long a run may be that shall contain what its setting needs."""
    return min(budget_ns // _LONG_SHARE, _LONG_MAX_NS)


class Tune(Design[TuneDesign]):
    """Rounds of your settings, the best so far and candidates, until the time is over."""

    model = TuneDesign

    @property
    def budget_ns(self) -> int:
        """Return the time that all runs take together."""
        return self.asked.runs_ns

    @cached_property
    def metric(self) -> Metric:
        """Return the deciding metric; each run that was measured is asked for it."""
        return self.experiment.metric()

    @property
    def is_more_better(self) -> bool:
        """Return whether more of the deciding metric is better."""
        return self.metric in MORE_IS_BETTER

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

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the next run."""
        base = self.experiment.planned_variants()[0]
        if base.id in excluded:
            return Stop("the server as it is cannot be measured")
        if missing := pilot_missing(self.experiment, history, [base]):
            return missing
        # If the first runs all lack the metric, it cannot be measured on this server.
        first = rounds(history)[:LOOKS]
        if len(first) == LOOKS and all(self.metric not in run.metrics for run in first):
            return Stop(f"{self.metric} cannot be measured here")
        tuning = self.tuning(history, excluded)
        step = tuning.next()
        if why := self.target.why_ended(history):
            return Stop(why)
        if step is None:
            return Stop(tuning.reason)
        at_begin = tuning.best if step.in_turns else step.candidate
        variant = self.variant_of(at_begin)
        run = visit(self.experiment, history, variant=variant, round_number=step.round)
        if step.length == "long run":
            run = replace(run, measure_ns=self._long_ns_after(history))
        if not step.in_turns:
            return replace(run, restarts=tuning.round_restarts)
        turns = tuple(self.variant_of(due.candidate) for due in tuning.due())
        turn_ns = self._turn_ns(history)
        reason = f"{len(turns)} turns of {duration_text(turn_ns)}"
        return replace(
            run,
            purpose="turns",
            turns=turns,
            turn_ns=turn_ns,
            measure_ns=len(turns) * turn_ns,
            reason=reason,
        )

    @property
    def long_ns(self) -> int:
        """Return the length of a run that shall contain checkpoints or a vacuum.

        Where the load itself forces checkpoints, it is the time of some of them.
        """
        long_ns = long_run_ns(self.asked.budget_ns)
        needs = {NEEDS.get(name) for name in self.asked.settings_searched()}
        if self.asked.checkpoint_every_ns is not None and "autovacuum" not in needs:
            long_ns = min(long_ns, _CHECKPOINTS_OF_RUN * self.asked.checkpoint_every_ns)
        return max(self.experiment.workload.duration_ns, long_ns)

    def _long_ns_after(self, history: History) -> int:
        """Return the length of the long runs that are there, also if the budget was changed.

        Only pairs of runs of one length may share an interval.
        """
        usual_ns = self.experiment.workload.duration_ns
        ran = (seen.run for seen in rounds(history) if seen.run.purpose == "round")
        return next((run.measure_ns for run in ran if run.measure_ns != usual_ns), self.long_ns)

    @property
    def slow(self) -> frozenset[str]:
        """Return the settings whose effect needs a long run; none if runs count executions."""
        workload = self.experiment.workload
        if workload.transactions_per_client is not None or self.metric == "duration":
            return frozenset()
        # The first run told whether a long run has a checkpoint.
        has_none = bool(self.asked.together) and self.asked.checkpoint_every_ns is None
        needs = _SLOW_NEEDS[has_none:]
        return frozenset(name for name, need in NEEDS.items() if need in needs)

    def at_once(self, names: Iterable[str]) -> frozenset[str]:
        """Return the settings that act at once, so that their values can take turns in a load.

        None, if whole runs are needed: for another metric, for conditions on a run, for prepared
        statements, whose plans stay, and on the user's own server.
        """
        workload = self.experiment.workload
        if (
            self.experiment.server.scratch is None
            or self.metric not in _OF_TURNS
            or (self.metric == "tps" and workload.rate_tps is not None)
            or workload.transactions_per_client is not None
            or workload.protocol == "prepared"
            or self.asked.slo is not None
            or any(memory_limit_from(text) is None for text in self.asked.keep)
        ):
            return frozenset()
        rules = {name: rule_of(name, self.major) for name in names}
        return frozenset(
            name
            for name, rule in rules.items()
            if rule is not None and rule.needs == "session" and NEEDS.get(name) in _NEEDS_OF_TURNS
        )

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return how many runs the budget allows, as far as can be said now."""
        if not history:
            usual_ns = self.experiment.workload.duration_ns + (
                self.experiment.workload.warmup_ns or 0
            )
            return max(1, self.asked.runs_ns // usual_ns)
        is_over = (
            self.target.why_not_known(history) or self.tuning(history, excluded).next() is None
        )
        if rounds(history) and is_over:
            return len(history)
        each_ns = max(1, elapsed_ns(history) // len(history))
        left_ns = self.asked.runs_ns - elapsed_ns(history)
        return len(history) + max(1, left_ns // each_ns)

    def outlook(self, history: History, excluded: frozenset[str] = NONE) -> str:
        """Return "best work_mem=64MB +31 % (4 pairs); 256MB -7 % (2 pairs); 3 min left".

        Before the first round: which values have time, if not all have.
        """
        if len(pilots(history)) == len(history):
            plan = self.plan_words(history)
            return f"plan    {plan}" if plan else ""
        if why := self.target.why_not_known(history):
            return f"the tuning ends: {why}"
        tuning = self.tuning(history, excluded)
        step = tuning.next()
        if step is None or not tuning.begins_round:
            return ""
        left_ns = max(0, self.asked.runs_ns - elapsed_ns(history))
        return f"{self._seen_so_far(tuning)}; {duration_text(left_ns)} left"

    def plan_words(self, history: History = ()) -> str:
        """Return which values have time for enough pairs, or what a first interval costs.

        "" if all values have time.
        """
        if pilot_missing(self.experiment, history, self.experiment.planned_variants()[:1]):
            history = ()
        tuning = self.tuning(history)
        over_ns = tuning.budget_ns - self._left_ns(history)
        if over_ns > 0:
            return (
                f"an interval needs {PAIRS_PLANNED} pairs, which take about"
                f" {duration_text(over_ns)} more than the budget, which ends them"
            )
        if count := len(self.asked.together):
            return f"first {count} values of formulas together, then what each of them brings"
        names = [seen.name for seen in tuning.trials]
        if not tuning.postponed_count:
            return ""
        first = names[: -tuning.postponed_count]
        return (
            f"{len(first)} of {len(names)} values, because fewer than {PAIRS_PLANNED} pairs tell"
            f" hardly anything: {', '.join(first)}; all need about"
            f" {duration_text(tuning.time_untried_ns())} of runs"
        )

    def _seen_so_far(self, tuning: Tuning) -> str:
        sign = 1 if self.is_more_better else -1

        def words(name: str, mean_ratio: float, pairs: int) -> str:
            # A single pair shows mostly noise.
            change = f" {signed(100 * math.expm1(sign * mean_ratio), 0)} %" * (pairs > 1)
            return f"{name}{change} ({counted(pairs, 'pair')})"

        said = []
        if (gain := tuning.gain()) is not None:
            said.append(f"better: {words(tuning.best.name, gain.mean_ratio, gain.pair_count)}")
        ran = [seen for seen in tuning.trials if seen.effect.pair_count]
        still = [seen for seen in ran if seen.decision in ("not known", "worse", "no better")]
        still.sort(key=lambda seen: -seen.effect.mean_ratio)
        for seen in still[:_SHOWN]:
            said.append(words(seen.name, seen.effect.mean_ratio, seen.effect.pair_count))
        return "; ".join(said) or "no pair yet"

    def priced(
        self, history: History, excluded: frozenset[str] = NONE
    ) -> tuple[PlannedVariant, ...]:
        """Return the settings that are proposed, if they weaken durability."""
        tuning = self.tuning(history, excluded)
        tuning.next()
        known = catalogue()
        weaker = [
            name
            for name, value in tuning.best.settings.items()
            if name in known
            and known[name].risk == "durability"
            and value != self.whole_now.get(name)
        ]
        return (self.variant_of(tuning.best),) if weaker else ()

    @cached_property
    def target(self) -> LatencyTarget:
        """Return the latency target of `slo`, which may be without a limit."""
        return LatencyTarget.of(self.experiment, self.asked)

    def tuning(self, history: History, excluded: frozenset[str] = NONE) -> Tuning:
        """Return the state of the tuning after these runs.

        Another version may have planned its rounds in another order: what they measured counts.
        Raises: AnalysisError if the runs have settings for which this version never asks.
        """
        # A plan before the pilots has more time.
        key = f"{elapsed_ns(pilots(history))} {self.experiment.model_dump_json(by_alias=True)}"
        runs = [ran for run in history for ran in self._ran(run)]
        memo = _last[0] if _last else None
        if memo is None or memo.key != key or memo.runs != runs[: len(memo.runs)]:
            memo = _Memo(key, self._begun(history))
        self._replay(memo, runs, excluded)
        if len(runs) > len(memo.runs):
            # Its budget was another one: the time of its runs is certain.
            taken_ns = sum(ran.took_ns for ran in runs)
            memo = _Memo(key, self._begun(history, least_ns=taken_ns))
            self._replay(memo, runs, excluded)
        if len(runs) > len(memo.runs):
            number = runs[len(memo.runs)].seen.run.number
            raise AnalysisError(
                f"This version of pgdyno would have planned another run than run {number} of this"
                " tuning, so it cannot judge the tuning.",
                hint="use the version of pgdyno that measured it; the store has every run, and the"
                " page of the answer as it was then",
            )
        _last[:] = [memo]
        return memo.tuning

    def _replay(self, memo: _Memo, runs: Sequence[_Ran], excluded: frozenset[str]) -> None:
        """Let the tuning take in the runs, as far as it can have asked for them."""
        while due := memo.tuning.due():
            ran = runs[len(memo.runs)] if len(memo.runs) < len(runs) else None
            # A run that is repeated comes after the others of its round.
            steps = {(self.variant_of(step.candidate).id, step.round): step for step in due}
            step = steps.get((ran.variant, ran.round)) if ran is not None else None
            given_up = [own for (variant, _), own in steps.items() if variant in excluded]
            if step is not None and ran is not None:
                memo.runs.append(ran)
                self._take(memo.tuning, step, ran)
            elif given_up:
                memo.tuning.give_up(given_up[0])
            elif planned := self._planned_then(memo.tuning, runs[len(memo.runs) :]):
                memo.tuning.replan(planned)
            else:
                break

    def variant_of(self, candidate: Candidate) -> PlannedVariant:
        """Return the variant of a candidate."""
        if candidate.name == BASE:
            return self.experiment.planned_variants()[0]
        name = _UNUSUAL.sub("-", candidate.name)
        return PlannedVariant(name, storage.variant_of(candidate.name, candidate.settings))

    def _planned_then(self, tuning: Tuning, left: Sequence[_Ran]) -> list[TrialStep]:
        """Return the next round as it was carried out; nothing if it has unknown settings."""
        if not left:
            return []
        known = {self.variant_of(candidate).id: candidate for candidate in tuning.known()}
        first = left[0]
        together = [
            ran
            for ran in left
            if (ran.seen is first.seen if first.in_turns else ran.round == first.round)
        ]
        if any(ran.variant not in known for ran in together):
            return []
        usual_ns = self.experiment.workload.duration_ns
        is_long = first.seen.run.measure_ns != usual_ns or self.long_ns == usual_ns
        length: Length = "turn" if first.in_turns else "long run" if is_long else "run"
        return [TrialStep(ran.round, known[ran.variant], length) for ran in together]

    def _ran(self, seen: Measured) -> Iterator[_Ran]:
        """Yield a run of a round, or each turn of a load, with its part of the time."""
        run = seen.run
        if run.purpose == "round":
            yield _Ran(variant_id(seen), run.round, self._goal(seen.metrics), seen.elapsed_ns, seen)
        members = len(set(run.turns))
        for place, (variant, turn) in enumerate(zip(run.turns, seen.turns, strict=True)):
            yield _Ran(
                variant.id,
                run.round + place // members,
                self._goal(turn.metrics),
                seen.elapsed_ns // len(run.turns),
                seen,
                in_turns=True,
                refused=turn.refused,
            )

    def _begun(self, history: History, *, least_ns: int = 0) -> Tuning:
        """Return the tuning at its beginning; the pilot is a part of the time."""
        space, defaults = self.space(), defaults_of(self.major)
        searched = (*(dimension.name for dimension in space), *self.asked.together)
        workload = self.experiment.workload
        warm_ns = WARMUP_LEAST_NS if workload.warmup_ns is None else workload.warmup_ns
        restarting = [
            name
            for name in {*searched, *self.asked.rules}
            if (rule := rule_of(name, self.major)) is not None and rule.needs == "restart"
        ]
        asked = Question(
            space,
            self.whole_now,
            self._left_ns(history),
            self.order_seed,
            self.asked.rules,
            {dimension.name: (defaults.get(dimension.name, ""),) for dimension in space},
            restarting=frozenset(restarting),
            together=self.asked.together,
            at_once=self.at_once(searched),
            slow=self.slow,
            step_ns={
                "turn": self._turn_ns(history),
                "run": workload.duration_ns + warm_ns + _AROUND_NS,
                "long run": self._long_ns_after(history) + warm_ns + _AROUND_NS,
            },
            refusal=self._refusal,
        )
        # A tuning without an interval tells nothing. The time of counted runs is not known.
        is_counted = workload.transactions_per_client is not None or self.metric == "duration"
        needed_ns = 0 if is_counted else asked.least_ns
        return Tuning(replace(asked, budget_ns=max(asked.budget_ns, needed_ns, least_ns)))

    def _left_ns(self, history: History) -> int:
        """Return what the pilots leave of the budget."""
        return self.asked.runs_ns - elapsed_ns(pilots(history))

    def _turn_ns(self, history: History) -> int:
        """Return how long a turn lasts, by the throughput of the pilot.

        WAL per transaction depends on the time since the checkpoint, so a turn lasts from one
        checkpoint that the load forces to the next.
        """
        tps = max((pilot.tps for pilot in pilots(history)), default=0.0)
        wanted_ns = round(1e9 * _TURN_COUNT / tps) if tps else _TURN_NS
        turn_ns = min(max(_TURN_NS, wanted_ns), _TURN_MAX_NS)
        if self.metric == "wal_per_tx":
            turn_ns = max(turn_ns, min(self.asked.checkpoint_every_ns or 0, _TURN_WAL_MAX_NS))
        return turn_ns

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

    def _take(self, tuning: Tuning, step: TrialStep, ran: _Ran) -> None:
        seen = ran.seen
        if ran.in_turns:
            why = f"refused by the server: {ran.refused}" if ran.refused else ""
            is_tried = step.candidate.name not in (BASE, tuning.best.name)
            result = trial.TrialResult(step, ran.goal, ran.took_ns, why if is_tried else "")
            tuning.take(result)
            return
        why = ""
        if step.candidate.name != BASE:
            why = next((text for text in self.asked.keep if self._breaks(text, seen)), "")
            if not (self.target.is_goal or self.target.is_met(seen)):
                why = why or self.target.text
        said = f"it does not keep {why}" if why else ""
        if seen.tps == 0 and step.candidate.name != BASE:
            said = said or "it completed no transaction in a run"
        tuning.take(trial.TrialResult(step, None if said else ran.goal, ran.took_ns, said))

    def _breaks(self, text: str, seen: Measured) -> bool:
        if memory_limit_from(text) is not None:
            return False  # Checked before the run.
        condition = condition_from(text)
        values = {**seen.latency_ms, **seen.metrics, "tps": seen.tps}
        return condition.name in values and not condition.is_met(values[condition.name])

    def _goal(self, metrics: Mapping[str, float]) -> float | None:
        value = metrics.get(self.metric, 0.0)
        if value <= 0:
            return None
        return math.log(value) if self.is_more_better else -math.log(value)
