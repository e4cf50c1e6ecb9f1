"""The course of a tuning: which run is due, what was decided, and what is missing. Pure.

Each candidate changes one setting of the best settings so far, so every gain belongs to a setting.
Candidates whose settings act at once take turns within one load, so a pair takes two turns of some
seconds. The others need separate runs, with the state of the server that a run begins with. A
round has your settings, the best settings, and candidates, in random order; a load has several
rounds. After a load, or a round of runs, the intervals decide: a candidate that is better becomes
the best settings, one that is worse or no better is done. The candidate that may still be the best
is measured most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.analysis.compare import shuffled
from pgdyno.features.tune.arms import (
    ABREAST,
    Arm,
    Look,
    Noise,
    error_of_generation,
    share_error,
)
from pgdyno.features.tune.space import Dimension, Point, values_to_try, widest_gap
from pgdyno.features.tune.trial import (
    BASE,
    Candidate,
    Length,
    PairEffect,
    Trial,
    TrialResult,
    TrialStep,
    candidate_of,
)

TIME_OVER, DECIDED = "the time is over", "every value was decided"
INTERRUPTED = "the tuning was interrupted"
# About how many turns a load has; at least two of each candidate, so that each gets an interval.
_TURNS, _REPEATS_MIN = 20, 2
# The candidate with the highest mean plus this number of standard errors is measured next.
_OPTIMISM = 1.5
# A value this number of standard deviations above zero is measured again before untried ones.
_OUTSTANDING = 4.0
# An arm fails if its first runs all lack the metric: a single short run may lack it.
_MISSING_MAX = 3
# What a turn and a run take if nothing else is known.
_STEP_NS: Mapping[Length, int] = {
    "turn": 2_500_000_000,
    "run": 8_000_000_000,
    "long run": 30_000_000_000,
}
# If the first candidates fail without exception, the cause is not in their values.
_FAILURES_MAX = 6
# The times of the planned looks, as shares of the budget: what is found by then is the base of what
# follows. If there is one setting, nothing follows, so all is decided at the end.
_LOOKS, _LOOKS_OF_ONE = (0.33, 0.66, 1.0), (1.0,)


@dataclass(frozen=True, slots=True)
class Question:
    """What a tuning searches.

    `now`: the value of each setting on the server as it is. `rules`: values of published rules,
    which are tried first. `hints`: further values worth trying, by setting. `restarting`: the
    settings that need a restart. `at_once`: those that act at once, so they take turns within a
    load. `slow`: those that act over time, so they need long runs. `step_ns`: what a turn or a run
    takes, as far as it is known before the first.
    `refusal`: why a candidate must not run, "" if it may.
    """

    space: Sequence[Dimension]
    now: Point
    budget_ns: int
    seed: int
    rules: Point
    hints: Mapping[str, Sequence[str]]
    restarting: frozenset[str] = frozenset()
    at_once: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    step_ns: Mapping[Length, int] = field(default_factory=lambda: dict(_STEP_NS))
    refusal: Callable[[Candidate], str] = lambda _candidate: ""


class Tuning:
    """The state of one tuning. The same runs in the same order lead to the same state."""

    def __init__(self, question: Question) -> None:
        self.base = Candidate(BASE, {})
        self.best = self.base
        self.reason = ""
        self.has_failed = False
        self.adopted: list[Arm] = []
        self._asked = question
        self._by_name = {dimension.name: dimension for dimension in question.space}
        is_list = len(question.space) == 1 and question.space[0].scale == "choice"
        self._is_only = is_list
        self._shares = _LOOKS_OF_ONE if self._is_only else _LOOKS
        self._looks_done = 0
        self._arms: list[Arm] = []
        self._earlier: list[Arm] = []
        self._rounds: list[tuple[bool, dict[str, float]]] = []
        self._round_count = 0
        self._queue: list[TrialStep] = []
        self._members: list[Candidate] = []
        self._goals: dict[str, float | None] = {}
        self._took_ns: Counter[Length] = Counter()
        self._counts: Counter[Length] = Counter()
        self._generation = 0
        self._ask(self._new())

    def due(self) -> tuple[TrialStep, ...]:
        """Return what is left of the present round; nothing when it is over (see `reason`)."""
        if not self._queue and not self.reason:
            self._queue = self._planned()
        return tuple(self._queue)

    def next(self) -> TrialStep | None:
        """Return the next run, None when the tuning is over."""
        return next(iter(self.due()), None)

    def take(self, measured: TrialResult) -> None:
        """Take in a run of the present round."""
        step = measured.step
        self._queue.remove(step)
        self._took_ns[step.length] += measured.took_ns
        self._counts[step.length] += bool(measured.took_ns)
        self._goals[step.candidate.name] = measured.goal_ratio
        if measured.goal_ratio is None and measured.why:
            self._fail(step.candidate, measured.why)
        if all(other.round != step.round for other in self._queue):
            self._close_round(in_turns=step.in_turns)

    def give_up(self, step: TrialStep, why: str = "it did not run: see the notes") -> None:
        """Note that the candidate of the run that is due cannot be measured."""
        self.take(TrialResult(step, None, 0, why))

    def finish(self, reason: str) -> None:
        """Look for the last time, because nothing more can be measured."""
        self._decide("planned")
        better = [arm for arm in self._arms if arm.decision == "better"]
        if better:
            self._adopt(max(better, key=lambda arm: arm.mean_ratio), is_last=True)
        self.reason = reason

    @property
    def begins_round(self) -> bool:
        """Return whether no run of the present round was taken in yet."""
        return not self._goals

    @property
    def round_restarts(self) -> bool:
        """Return whether the present round changes a setting that needs a restart."""
        changed = {name for candidate in self._members for name in candidate.settings}
        return not self._asked.restarting.isdisjoint(changed)

    def noise(self, *, in_turns: bool) -> Noise:
        """Return the scatter of a pair of turns or of runs, from all of these pairs so far."""
        arms = [*self._earlier, *self._arms]
        return Noise.of(arm for arm in arms if arm.in_turns == in_turns)

    def step_ns(self, length: Length) -> float:
        """Return what a turn or a run takes on average, with its part of everything around it."""
        if count := self._counts[length]:
            return self._took_ns[length] / count
        return self._asked.step_ns[length]

    @property
    def left_ns(self) -> float:
        """Return what is left of the budget; after turns, runs of the result are to follow."""
        spent_ns = sum(self._took_ns.values())
        takes_turns = any(arm.in_turns for arm in [*self._earlier, *self._arms])
        last_ns = 2 * self.step_ns("run") if takes_turns else 0
        return self._asked.budget_ns - spent_ns - last_ns

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return what is known of each value, the last comparison of each that has pairs."""
        last: dict[tuple[str, str], Arm] = {}
        for arm in [*self._earlier, *self._arms]:
            key = (arm.setting, arm.value)
            if key not in last or arm.log_ratios or arm.failure:
                last[key] = arm
        noises = {kind: self.noise(in_turns=kind) for kind in (True, False)}
        return tuple(arm.trial(noises[arm.in_turns]) for arm in last.values())

    @property
    def is_decided(self) -> bool:
        """Return whether every value was decided, so that no time was missing."""
        return all(trial.decision not in ("not known", "not tried") for trial in self.trials)

    @property
    def has_compared(self) -> bool:
        """Return whether some value was compared."""
        return any(trial.effect.pair_count for trial in self.trials if not trial.failure)

    def gain(self) -> PairEffect | None:
        """Return the best settings against yours; None if nothing better was found.

        With one adopted setting, all its pairs count. With several, those of the rounds that had
        both; if there are fewer than three, the sum of the single gains.
        """
        if not self.adopted:
            return None
        first = self.adopted[0]
        if len(self.adopted) == 1:
            return self._together(first)
        in_turns = all(arm.in_turns for arm in self.adopted)
        ratios = self._pairs(self.best.name, BASE, in_turns=in_turns)
        if len(ratios) > 2:
            fresh = Arm("", "", self.best, self.base, first.error_ratio, 1, log_ratios=ratios)
            return fresh.effect(self.noise(in_turns=in_turns))
        single = [arm.decided_by for arm in self.adopted if arm.decided_by is not None]
        means, halves = (
            sum(getattr(effect, name) for effect in single) for name in ("mean_ratio", "half_ratio")
        )
        return PairEffect(means, halves, min(effect.pair_count for effect in single))

    def time_missing_ns(self) -> int | None:
        """Return how much more time would decide what is open; None if it cannot be told."""
        open_arms = [arm for arm in self._arms if arm.is_open]
        if not open_arms or not any(self._counts.values()):
            return None
        missing_ns = 0.0
        for length in dict.fromkeys(arm.length for arm in open_arms):
            noise = self.noise(in_turns=length == "turn")
            pairs = [arm.pairs_missing(noise) for arm in open_arms if arm.length == length]
            if None in pairs:
                return None
            count = sum(pair for pair in pairs if pair is not None)
            steps = count + math.ceil(count / ABREAST) * (1 + bool(self.adopted))
            missing_ns += steps * self.step_ns(length)
        return round(missing_ns)

    def rounds_with(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the rounds of whole runs that measured a candidate and your settings."""
        return tuple(
            number
            for number, (in_turns, goals) in enumerate(self._rounds, start=1)
            if candidate.name in goals and BASE in goals and not in_turns
        )

    def _together(self, arm: Arm) -> PairEffect:
        """Return the effect of the only adopted setting, with the pairs since it was adopted."""
        noise = self.noise(in_turns=arm.in_turns)
        decided = arm.decided_by or arm.effect(noise)
        whole = Arm(arm.setting, arm.value, arm.candidate, self.base, arm.error_ratio, 1)
        whole.log_ratios = self._pairs(arm.candidate.name, BASE, in_turns=arm.in_turns)
        effect = whole.effect(noise)
        # A later disturbance may hide what was decided; the interval that decided is reported then.
        return effect if effect.is_above_zero else decided

    def _pairs(self, name: str, against: str, *, in_turns: bool) -> list[float]:
        return [
            goals[name] - goals[against]
            for kind, goals in self._rounds
            if name in goals and against in goals and kind == in_turns
        ]

    def _planned(self) -> list[TrialStep]:
        """Return the runs of the next round; none when the tuning is over."""
        self._look_if_due()
        open_arms = [arm for arm in self._arms if arm.is_open]
        tried = [arm for arm in [*self._earlier, *self._arms] if arm.failure or arm.log_ratios]
        if len(tried) >= _FAILURES_MAX and all(arm.failure for arm in tried):
            self.has_failed = True
            return self._last(f"each of the first {len(tried)} candidates failed")
        if not open_arms and self.left_ns > 0 and (further := self._further()):
            self._ask(further)
            open_arms = [arm for arm in self._arms if arm.is_open]
        if not open_arms:
            return self._last(DECIDED if tried else "there is nothing to measure")
        ranked = self._ranked(open_arms)
        for kind in dict.fromkeys(arm.kind for arm in ranked):
            if steps := self._affordable([arm for arm in ranked if arm.kind == kind]):
                return steps
        return self._last(TIME_OVER)

    def _always(self, *, in_turns: bool) -> list[Candidate]:
        """Return your settings and the best; within a load, yours if that takes no restart."""
        if in_turns and not self._asked.at_once.issuperset(self.best.settings):
            return [self.best]
        return list({known.name: known for known in (self.base, self.best)}.values())

    def _affordable(self, alike: list[Arm]) -> list[TrialStep]:
        """Return a load or a round of runs with these arms, none if the time is too short."""
        in_turns = alike[0].in_turns
        always = self._always(in_turns=in_turns)
        step_ns = self.step_ns(alike[0].length)
        # A quarter of a run more than the budget is better than a pair less.
        steps = int((self.left_ns + step_ns / 4) // step_ns)
        if not any(self._counts.values()):
            steps = max(steps, ABREAST + len(always))
        repeats = _REPEATS_MIN if in_turns else 1
        count = min(ABREAST, steps // repeats - len(always))
        if count < 1:
            return []
        arms = self._chosen(alike, count)
        if in_turns:
            repeats = max(repeats, min(_TURNS, steps) // (len(arms) + len(always)))
        return self._rounds_of(arms, repeats)

    def _rounds_of(self, arms: list[Arm], count: int) -> list[TrialStep]:
        """Return the steps of rounds with these arms, each in another order."""
        length = arms[0].length if arms else "run"
        always = self._always(in_turns=length == "turn")
        self._members = [*always, *(arm.candidate for arm in arms)]
        self._goals = {}
        steps = []
        for _ in range(count):
            self._round_count += 1
            ordered = shuffled(self._members, self._asked.seed, self._round_count)
            steps += [TrialStep(self._round_count, member, length) for member in ordered]
        return steps

    def _last(self, reason: str) -> list[TrialStep]:
        """Finish; after turns, return whole runs of the result, because they have all counters."""
        self.finish(reason)
        return self._rounds_of([], 1) if self._counts["turn"] else []

    def _ranked(self, open_arms: list[Arm]) -> list[Arm]:
        """Return the arms, the most promising first."""
        noises = {kind: self.noise(in_turns=kind) for kind in (True, False)}

        def promise(arm: Arm) -> tuple[float, float]:
            have, noise = len(arm.log_ratios) + arm.missing_count, noises[arm.in_turns]
            if not have:
                hint = math.inf if arm.hint_ratio is None else arm.hint_ratio
                return hint + _OPTIMISM * noise.deviation_ratio, 0.0
            if not noise.is_known:
                return -have, arm.mean_ratio
            return arm.mean_ratio + _OPTIMISM * noise.deviation_ratio / math.sqrt(have), 0.0

        return sorted(open_arms, key=promise, reverse=True)

    def _chosen(self, alike: list[Arm], count: int) -> list[Arm]:
        """Return the candidates of a round from those of a kind, the most promising first."""
        # The best so far has a pair in each round, so that a large gain is decided soon.
        ahead = [arm for arm in alike if arm.mean_ratio > 0]
        leader = max(ahead, key=_mean_of, default=None)
        is_listed_next = any(
            not arm.log_ratios and arm.setting in self._by_name and self._is_list(arm.setting)
            for arm in alike[:count]
        )
        if leader is None or leader in alike[:count] or count < 2:
            return alike[:count]
        if is_listed_next and not self._stands_out(leader):
            return alike[:count]
        return [*alike[: count - 1], leader]

    def _stands_out(self, arm: Arm) -> bool:
        """Return whether a second pair will probably decide about this arm."""
        scatter = self.noise(in_turns=arm.in_turns).of_arm(arm)
        return scatter.is_known and arm.mean_ratio > _OUTSTANDING * scatter.deviation_ratio

    def _is_list(self, setting: str) -> bool:
        return self._by_name[setting].scale == "choice"

    def _look_if_due(self) -> None:
        """Carry out the planned look whose time has come; the last one is that of `finish`."""
        spent_ns = sum(self._took_ns.values())
        due = sum(spent_ns >= share * self._asked.budget_ns for share in self._shares if share < 1)
        if due > self._looks_done:
            self._looks_done = due
            self._decide("planned")
            self._follow()

    def _decide(self, look: Look) -> None:
        for in_turns in (True, False):
            arms = [arm for arm in self._arms if arm.in_turns == in_turns]
            noise = self.noise(in_turns=in_turns)
            for arm in arms:
                arm.decide(noise, look)

    def _close_round(self, *, in_turns: bool) -> None:
        """Keep the round that was just finished, and decide what it shows."""
        goals = {name: goal for name, goal in self._goals.items() if goal is not None}
        self._rounds.append((in_turns, goals))
        if self.reason:
            return
        for arm in self._arms:
            if arm.candidate.name not in self._goals:
                continue
            if arm.candidate.name in goals and arm.against.name in goals:
                arm.log_ratios.append(goals[arm.candidate.name] - goals[arm.against.name])
                arm.decision = "not known" if arm.decision == "not tried" else arm.decision
            else:
                arm.missing_count += 1
                if arm.missing_count >= _MISSING_MAX and not arm.log_ratios:
                    arm.failure = arm.failure or "the metric could not be measured"
        self._goals = {}
        if not self._queue:
            self._decide("early")
            self._follow()

    def _follow(self) -> None:
        """Go on from the best value that is certainly better, if there is one."""
        better = [arm for arm in self._arms if arm.decision == "better"]
        if better:
            self._adopt(max(better, key=lambda arm: arm.mean_ratio))

    def _adopt(self, arm: Arm, *, is_last: bool = False) -> None:
        """Make a value part of the best settings; the other values become new questions."""
        self.adopted.append(arm)
        self.best = arm.candidate
        old = [other for other in self._arms if other is not arm]
        self._earlier.append(arm)
        if is_last:
            return
        self._earlier += old
        self._arms = []
        self._ask([*self._inherited(old), *self._new()])

    def _ask(self, arms: list[Arm]) -> None:
        """Ask these questions, too; all are against the best settings of now."""
        for arm in arms:
            arm.failure = self._asked.refusal(arm.candidate)
        share_error(arms, error_of_generation(self._generation, is_only=self._is_only))
        self._generation += 1
        self._arms += arms

    def _inherited(self, before: Sequence[Arm]) -> list[Arm]:
        """Return the undecided arms, against the best settings of now."""
        arms = []
        for old in before:
            if old.failure or old.decision in ("worse", "no better"):
                continue
            arm = self._arm(old.setting, old.value)
            if self.adopted and old.setting == self.adopted[-1].setting:
                names = old.candidate.name, self.best.name
                arm.log_ratios = self._pairs(*names, in_turns=arm.in_turns)
                arm.decision = "not known" if arm.log_ratios else "not tried"
            elif old.log_ratios:
                arm.hint_ratio = old.mean_ratio
            arms.append(arm)
        return arms

    def _new(self) -> list[Arm]:
        """Return the values to try: at first of every setting, later near one that pays."""
        arms, asked = [], self._asked
        listed: dict[str, tuple[str, ...]] = {}
        for dimension in asked.space:
            name = dimension.name
            hints = [*filter(None, [asked.rules.get(name)]), *asked.hints.get(name, ())]
            if not self.adopted:
                listed[name] = values_to_try(dimension, asked.now[name], (), hints)
            elif name == self.adopted[-1].setting and dimension.scale != "choice":
                tried = [arm.value for arm in self._earlier if arm.setting == name]
                present = self.best.settings[name]
                near = [asked.now[name], *(value for value in tried if value != present)]
                listed[name] = values_to_try(dimension, present, near, ())
        # The first value of each setting, then the second of each.
        for place in range(max(map(len, listed.values()), default=0)):
            arms += [
                self._arm(name, values[place])
                for name, values in listed.items()
                if place < len(values)
            ]
        return arms

    def _further(self) -> list[Arm]:
        """Return a value of each range in the widest gap that no value was tried in."""
        arms = []
        for dimension in self._asked.space:
            name = dimension.name
            tried = [arm.value for arm in [*self._earlier, *self._arms] if arm.setting == name]
            value = widest_gap(dimension, [self._asked.now[name], *tried])
            if value is not None:
                arms.append(self._arm(name, value))
        return arms

    def _arm(self, setting: str, value: str) -> Arm:
        changed = {**self.best.settings, setting: value}
        kept = {n: v for n, v in changed.items() if v != self._asked.now.get(n)}
        return Arm(
            setting,
            value,
            candidate_of(kept),
            self.best,
            0.0,
            len(self._shares),
            restarts=setting in self._asked.restarting,
            length=self._length_of(setting),
        )

    def _length_of(self, setting: str) -> Length:
        if setting in self._asked.at_once:
            return "turn"
        return "long run" if setting in self._asked.slow else "run"

    def _fail(self, candidate: Candidate, why: str) -> None:
        """Note that a candidate failed; without your settings or the best ones nothing goes on."""
        if candidate.name in (BASE, self.best.name):
            self.has_failed = True
            self._queue = []
            self.reason = f"{candidate.name} can no longer be measured: {why}"
        for arm in self._arms:
            if arm.candidate.name == candidate.name:
                arm.failure = why


def _mean_of(arm: Arm) -> float:
    return arm.mean_ratio
