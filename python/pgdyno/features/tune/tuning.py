"""The course of a tuning: which run is due, what was decided, and what is missing. Pure.

The first candidate has all values of the formulas, if there are any: the sum of their effects is
the largest. If it is better, each of its settings is set back in turn, which shows what that
setting brings. Every other candidate changes one setting of the best settings so far, so its gain
belongs to a setting.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pgdyno.analysis.compare import shuffled
from pgdyno.features.tune.arms import (
    ABREAST,
    MARGIN_RATIO,
    PAIRS_PLANNED,
    Arm,
    Look,
    Noise,
    error_of_generation,
    share_error,
)
from pgdyno.features.tune.choosing import chosen, likely, ranked
from pgdyno.features.tune.proposals import (
    Value,
    first_values,
    further_values,
    near_values,
    set_arm,
)
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.trial import (
    BASE,
    LENGTHS,
    NAME_MAX,
    SET,
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
# An arm fails if its first runs all lack the metric: a single short run may lack it.
_MISSING_MAX = 3
# If the first candidates fail without exception, the cause is not in their values.
_FAILURES_MAX = 6
# The times of the planned looks, as shares of the budget: what is found by then is the base of what
# follows. If there is one setting, nothing follows, so all is decided at the end.
_LOOKS, _LOOKS_OF_ONE = (0.33, 0.66, 1.0), (1.0,)
# The values of formulas have the time until the first look, and more until they have enough pairs.
_LOOKS_OF_SET = (0.6, 1.0)


class Tuning:
    """The state of one tuning. The same runs in the same order lead to the same state."""

    def __init__(self, question: Question) -> None:
        self.base = Candidate(BASE, {})
        self.best = self.base
        self.reason = ""
        self.has_failed = False
        self._asked = question
        has_set = len(question.together) > 1
        alone = _LOOKS_OF_ONE if question.is_one_list else _LOOKS
        self._shares: Sequence[float] = _LOOKS_OF_SET if has_set else alone
        self._looks_done = 0
        self._arms: list[Arm] = []
        self._earlier: list[Arm] = []
        # Values for which there is no time yet.
        self._later: list[Arm] = []
        self._rounds: list[tuple[Length, dict[str, float]]] = []
        self._round_count = 0
        self._queue: list[TrialStep] = []
        self._members: list[Candidate] = []
        self._goals: dict[str, float | None] = {}
        self._took_ns: Counter[Length] = Counter()
        self._counts: Counter[Length] = Counter()
        self._generation = 0
        # What made settings the best ones: a value, or the formulas.
        self.adopted: list[Arm] = []
        first = self._alone(first_values(question))
        self._set = set_arm(question, self.base, len(self._shares)) if has_set else None
        if self._set is None:
            self._offer(first)
        else:
            self._ask([self._set])
            self._later = first

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
            self._close_round(step.length)

    def known(self) -> Iterator[Candidate]:
        """Yield every candidate that was asked for."""
        yield from (self.base, self.best)
        for arm in [*self._earlier, *self._arms, *self._later]:
            yield from (arm.candidate, arm.against)

    def replan(self, steps: Sequence[TrialStep]) -> None:
        """Expect these runs instead of those that are due: another version planned them."""
        names = {step.candidate.name for step in steps}
        if early := [arm for arm in self._later if arm.candidate.name in names]:
            self._later = [arm for arm in self._later if arm not in early]
            self._ask(early)
        self._queue, self._goals = list(steps), {}
        self._members = list({step.candidate.name: step.candidate for step in steps}.values())
        self._round_count = max(step.round for step in steps)

    def give_up(self, step: TrialStep) -> None:
        """Note that the candidate of the run that is due cannot be measured."""
        self.take(TrialResult(step, None, 0, "it did not run: see the notes"))

    def finish(self, reason: str) -> None:
        """Look for the last time, because nothing more can be measured."""
        self._decide("planned")
        self._follow(is_last=True)
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

    def noise(self, length: Length) -> Noise:
        """Return the scatter of a pair, from all pairs of this length so far.

        Pairs of another length scatter otherwise: a longer run averages over what a shorter one
        shows by chance, and it may contain a checkpoint.
        """
        arms = [*self._earlier, *self._arms]
        return Noise.of(arm for arm in arms if arm.length == length)

    def step_ns(self, length: Length) -> float:
        """Return what a turn or a run takes on average, with its part of everything around it."""
        if count := self._counts[length]:
            return self._took_ns[length] / count
        return self._asked.step_ns[length]

    @property
    def left_ns(self) -> float:
        """Return what is left of the budget; after turns, runs of the result are to follow.

        If the best value is one that takes turns, it and your settings need a run each.
        """
        turns = [arm for arm in [*self._earlier, *self._arms] if arm.in_turns]
        runs = len(self._always(in_turns=False)) if turns and self._lacks_runs else 0
        best = likely([arm for arm in self._arms if arm.is_open], self._noises)
        runs = 2 if best is not None and best.in_turns else runs
        spent_ns = sum(self._took_ns.values())
        return self._asked.budget_ns - spent_ns - runs * self.step_ns("run")

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return what is known of each value, the last comparison of each that has pairs."""
        last: dict[tuple[str, str], Arm] = {}
        for arm in [*self._earlier, *self._arms, *self._later]:
            key = (arm.setting, arm.value)
            if key not in last or arm.log_ratios or arm.failure:
                last[key] = arm
        return tuple(arm.trial(self._noises[arm.length]) for arm in last.values())

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

        After one step from your settings, all its pairs count. After several, those of the rounds
        that had both; if there are fewer than three, the sum of the single gains.
        """
        if not self.adopted:
            return None
        first = self.adopted[0]
        if len(self.adopted) == 1:
            return self._of_one(first)
        lengths = {arm.length for arm in self.adopted}
        length = lengths.pop() if len(lengths) == 1 else "run"
        ratios = self._pairs(self.best.name, BASE, length)
        if len(ratios) > 2:
            fresh = Arm("", "", self.best, self.base, first.error_ratio, 1, log_ratios=ratios)
            return fresh.effect(self.noise(length))
        single = [arm.decided_by for arm in self.adopted if arm.decided_by is not None]
        means, halves = (
            sum(getattr(effect, name) for effect in single) for name in ("mean_ratio", "half_ratio")
        )
        return PairEffect(means, halves, min(effect.pair_count for effect in single))

    def proposed(self) -> Iterator[tuple[str, str, PairEffect | None]]:
        """Yield each setting of the best settings with its value, and what it brings, if proved.

        A setting of the formulas brings what is lost when it alone is set back.
        """
        back = {
            t.setting: t.effect for t in self.trials if t.role == "back" and t.decision == "worse"
        }
        for arm in self.adopted:
            single = {arm.setting: arm.value}
            for name, value in (arm.candidate.settings if arm.role == "set" else single).items():
                if self.best.settings.get(name) != value:
                    continue
                lost = back.get(name)
                if arm.role == "set":
                    yield (
                        name,
                        value,
                        None if lost is None else replace(lost, mean_ratio=-lost.mean_ratio),
                    )
                else:
                    yield name, value, arm.trial(self.noise(arm.length)).effect

    def time_missing_ns(self) -> int | None:
        """Return how much more time would decide what is open; None if it cannot be told."""
        open_arms = [arm for arm in self._arms if arm.is_open]
        if not open_arms or not any(self._counts.values()):
            return None
        missing_ns = 0.0
        for length in dict.fromkeys(arm.length for arm in open_arms):
            noise = self.noise(length)
            pairs = [arm.pairs_missing(noise) for arm in open_arms if arm.length == length]
            if None in pairs:
                return None
            count = sum(pair for pair in pairs if pair is not None)
            steps = count + math.ceil(count / ABREAST) * (1 + bool(self.adopted))
            missing_ns += steps * self.step_ns(length)
        return round(missing_ns)

    @property
    def budget_ns(self) -> int:
        """Return the time of all rounds."""
        return self._asked.budget_ns

    @property
    def postponed_count(self) -> int:
        """Return how many values have to wait, because there is no time for enough pairs."""
        return len(self._later)

    def time_untried_ns(self) -> int:
        """Return what the planned pairs of all values take that were not tried."""
        names = {trial.name for trial in self.trials if trial.decision == "not tried"}
        arms = {f"{arm.setting}={arm.value}": arm for arm in [*self._arms, *self._later]}
        return round(self._planned_ns(arm for name, arm in arms.items() if name in names))

    @property
    def _lacks_runs(self) -> bool:
        """Return whether no round of whole runs has the best settings, and yours."""
        return not self.rounds_with(self.best)

    def rounds_with(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the rounds of whole runs that measured a candidate and your settings."""
        return tuple(
            number
            for number, (length, goals) in enumerate(self._rounds, start=1)
            if candidate.name in goals and BASE in goals and length != "turn"
        )

    def _of_one(self, arm: Arm) -> PairEffect:
        """Return the effect of the only step, with the pairs since it was adopted."""
        noise = self.noise(arm.length)
        decided = arm.decided_by or arm.effect(noise)
        whole = Arm(arm.setting, arm.value, arm.candidate, self.base, arm.error_ratio, 1)
        whole.log_ratios = self._pairs(arm.candidate.name, BASE, arm.length)
        effect = whole.effect(noise)
        # A later disturbance may hide what was decided; the interval that decided is reported then.
        return effect if effect.is_above_zero else decided

    def _pairs(self, name: str, against: str, length: Length) -> list[float]:
        return [
            goals[name] - goals[against]
            for kind, goals in self._rounds
            if name in goals and against in goals and kind == length
        ]

    def _planned(self) -> list[TrialStep]:
        """Return the runs of the next round; none when the tuning is over."""
        self._look_if_due()
        open_arms = [arm for arm in self._arms if arm.is_open]
        tried = [arm for arm in [*self._earlier, *self._arms] if arm.failure or arm.log_ratios]
        if len(tried) >= _FAILURES_MAX and all(arm.failure for arm in tried):
            self.has_failed = True
            return self._last(f"each of the first {len(tried)} candidates failed")
        if self._is_set_due and (steps := self._affordable(self._arms[:1])):
            return steps
        if all(arm is self._set for arm in open_arms) and self.left_ns > 0:
            seen = [*self._earlier, *self._arms]
            more = self._again(self._later) or self._alone(further_values(self._asked, seen))
            # Without time for enough pairs of another value, the formulas have the rest.
            if not open_arms or self._planned_ns([*open_arms, *more[:1]]) <= self.left_ns:
                self._offer(more)
            open_arms = [arm for arm in self._arms if arm.is_open]
        if not open_arms:
            return self._last(DECIDED if tried else "there is nothing to measure")
        in_order = ranked(open_arms, self._noises)
        kinds = [arm.kind for arm in in_order]
        leader = likely(open_arms, self._noises)
        if leader is not None and leader.candidate not in self._members:
            # What is probably better has a pair in every second round, before untried settings.
            kinds.insert(0, leader.kind)
        for kind in dict.fromkeys(kinds):
            if steps := self._affordable([arm for arm in in_order if arm.kind == kind]):
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
        always = len(self._always(in_turns=in_turns))
        step_ns = self.step_ns(alike[0].length)
        # A quarter of a run more than the budget is better than a pair less.
        steps = int((self.left_ns + step_ns / 4) // step_ns)
        is_set_short = alike[0].role == "set" and len(alike[0].log_ratios) < PAIRS_PLANNED
        if is_set_short or not any(self._counts.values()):
            steps = max(steps, ABREAST + always)
        repeats = _REPEATS_MIN if in_turns else 1
        count = min(ABREAST, steps // repeats - always)
        if count < 1:
            return []
        arms = chosen(alike, count, self._asked, self._noises)
        if in_turns:
            repeats = max(repeats, min(_TURNS, steps) // (len(arms) + always))
        return self._rounds_of(arms, repeats)

    def _rounds_of(self, arms: list[Arm], count: int) -> list[TrialStep]:
        """Return the steps of rounds with these arms, each in another order."""
        length = arms[0].length if arms else "run"
        always = self._always(in_turns=length == "turn")
        compared = [known for arm in arms for known in (arm.against, arm.candidate)]
        self._members = list({known.name: known for known in (*always, *compared)}.values())
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
        return self._rounds_of([], 1) if self._counts["turn"] and self._lacks_runs else []

    def _look_if_due(self) -> None:
        """Carry out the planned look whose time has come; the last one is that of `finish`."""
        spent_ns = sum(self._took_ns.values())
        due = sum(spent_ns >= share * self._asked.budget_ns for share in self._shares if share < 1)
        if due > self._looks_done:
            self._looks_done = due
            self._decide("planned")
            self._follow()

    def _decide(self, look: Look) -> None:
        noises = self._noises
        for arm in self._arms:
            arm.decide(noises[arm.length], look)

    def _close_round(self, length: Length) -> None:
        """Keep the round that was just finished, and decide what it shows."""
        goals = {name: goal for name, goal in self._goals.items() if goal is not None}
        self._rounds.append((length, goals))
        if self.reason:
            return
        for arm in self._arms:
            if not {arm.candidate.name, arm.against.name} <= self._goals.keys():
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

    def _follow(self, *, is_last: bool = False) -> None:
        """Go on from the best value that is certainly better, or from all formulas."""
        better = [arm for arm in self._arms if arm.decision == "better"]
        if better:
            self._adopt(max(better, key=lambda arm: arm.mean_ratio), is_last=is_last)

    def _adopt(self, arm: Arm, *, is_last: bool = False) -> None:
        """Make a candidate the best settings; the other values become new questions."""
        self.adopted.append(arm)
        self.best = arm.candidate
        old = [other for other in self._arms if other is not arm]
        self._earlier += [arm, *([] if is_last else old)]
        if is_last:
            return
        self._arms = []
        better: list[Arm] = []
        less: list[Arm] = []
        for before in self._inherited(old, arm):
            is_hopeful = (before.hint_ratio or 0.0) > math.log1p(MARGIN_RATIO)
            (better if is_hopeful or before.log_ratios else less).append(before)
        better.sort(key=lambda before: -(before.hint_ratio or 0.0))
        near = self._alone(near_values(self._asked, arm, self._earlier))
        self._offer([*self._back(arm), *better, *self._again(self._later), *near, *less])

    def _back(self, adopted: Arm) -> list[Arm]:
        """Return the questions what each setting of the formulas brings: it is set back alone."""
        if adopted.role != "set":
            return []
        # What was searched comes first: there is evidence that it matters.
        settings = adopted.candidate.settings
        names = dict.fromkeys((*(dimension.name for dimension in self._asked.space), *settings))
        return self._alone((name, self._asked.now[name]) for name in names if name in settings)

    def _offer(self, arms: list[Arm]) -> None:
        """Ask about the first of these values, those for which there is time; keep the others."""
        count = 1
        while count < len(arms) and self._planned_ns(arms[: count + 1]) <= self.left_ns:
            count += 1
        self._later = self._again(arms[count:])
        self._ask(arms[:count])

    def _planned_ns(self, arms: Iterable[Arm]) -> float:
        """Return what the planned pairs of these values take, with the runs of your settings."""
        return sum(
            (PAIRS_PLANNED + (count > ABREAST))
            * (count + math.ceil(count / ABREAST) * len(self._always(in_turns=length == "turn")))
            * self.step_ns(length)
            for (length, _), count in Counter(arm.kind for arm in arms).items()
        )

    def _ask(self, arms: list[Arm]) -> None:
        """Ask these questions, too."""
        for arm in arms:
            arm.failure = self._asked.refusal(arm.candidate)
        is_only = self._asked.is_one_list
        share_error(arms, error_of_generation(self._generation, is_only=is_only))
        self._generation += 1
        self._arms += arms

    def _inherited(self, before: Sequence[Arm], adopted: Arm) -> list[Arm]:
        """Return the undecided values, against the best settings of now."""
        arms = []
        for old in before:
            is_closed = old.failure or old.decision in ("worse", "no better")
            if is_closed or old.role == "set" or self._has(old.setting, old.value):
                continue
            [arm] = self._alone([(old.setting, old.value)])
            if old.setting == adopted.setting:
                names = arm.candidate.name, self.best.name
                arm.log_ratios = self._pairs(*names, arm.length)
                arm.decision = "not known" if arm.log_ratios else "not tried"
            elif old.log_ratios:
                arm.hint_ratio = old.mean_ratio
            arms.append(arm)
        return arms

    def _again(self, arms: Iterable[Arm]) -> list[Arm]:
        """Return the questions about the same values on top of the best settings of now."""
        values = ((arm.setting, arm.value) for arm in arms)
        return self._alone(value for value in values if not self._has(*value))

    def _has(self, setting: str, value: str) -> bool:
        """Return whether the best settings have this value already."""
        return {**self._asked.now, **self.best.settings}.get(setting) == value

    def _alone(self, values: Iterable[Value]) -> list[Arm]:
        """Return the questions about single values on top of the best settings."""
        asked, best = self._asked, self.best
        return [
            Arm(
                setting,
                value,
                self._changed(setting, value),
                best,
                0.0,
                len(self._shares),
                restarts=setting in asked.restarting,
                length=asked.length_of([setting]),
                role="back" if value == asked.now.get(setting) else "alone",
            )
            for setting, value in values
        ]

    def _changed(self, setting: str, value: str) -> Candidate:
        """Return the best settings with a change; on top of the formulas, it is in the name."""
        settings = self._asked.settings_of(self.best.settings, {setting: value})
        name = f"{self.best.name}, {setting}={value}"
        is_set = self.best.name.partition(",")[0] == SET
        return candidate_of(settings, name if is_set and len(name) <= NAME_MAX else "")

    @property
    def _is_set_due(self) -> bool:
        """Return whether the formulas have more pairs before anything else."""
        whole = self._set
        if whole is None or not whole.is_open or self._arms != [whole]:
            return False
        return len(whole.log_ratios) + whole.missing_count < PAIRS_PLANNED or not self._looks_done

    @property
    def _noises(self) -> dict[Length, Noise]:
        return {length: self.noise(length) for length in LENGTHS}

    def _fail(self, candidate: Candidate, why: str) -> None:
        """Note that a candidate failed; without your settings or the best ones nothing goes on."""
        if candidate.name in (BASE, self.best.name):
            self.has_failed = True
            self._queue = []
            self.reason = f"{candidate.name} can no longer be measured: {why}"
        for arm in self._arms:
            if candidate.name in (arm.candidate.name, arm.against.name):
                arm.failure = why
