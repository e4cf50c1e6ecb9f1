"""The search for better settings: a race of pairs, then a proof with new runs. Pure.

Stages: `search` (each candidate runs in pairs against the best so far, until it looks worse or is
surely better), `proof` (the winner, the runner-up and the rules against the server as it was, with
fresh runs), `attribution` (the winner against itself without each setting), `final` (what is left
of the winner, proved once more). Only the last proof is reported as the gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgdyno.analysis.compare import is_reversed
from pgdyno.analysis.intervals import sequential_t
from pgdyno.tune.space import Dimension, Point, Sampler, Tried
from pgdyno.tune.trial import BASE, Candidate, Effect, Measured, Stage, Step, Trial

NOTHING_BETTER = "nothing better was found"
OTHERS = "the others"
PROOF_ROUNDS_MIN = 6
_PROOF_SHARE = 0.25
_ROUNDS_MAX = 20
# A candidate that is undecided after this number of pairs is judged by its mean.
_PAIRS_MAX = 8
# How far below the best a mean must lie, in standard errors, to give a candidate up early. Nothing
# is claimed by that: claims come from the proof.
_GIVEN_UP = 1.3
# A race whose first pairs all lack the metric is a failure. One that lacks it now and then is not:
# a short run may end between two samples.
_MISSING_MAX = 3
_NOISE_RATIO = 0.05
# If the first candidates fail without exception, the cause is not in their values.
_FAILURES_MAX = 6
# Candidates of a proof: yours, the winner, the runner-up, the rules.
_PROVED = 4


@dataclass
class _Race:
    """One candidate against the best so far."""

    challenger: Candidate
    against: Candidate
    log_ratios: list[float] = field(default_factory=list)
    missing_count: int = 0
    failure: str = ""


def runs_of_proof(setting_count: int) -> int:
    """Return how many runs a proof takes at least: of the winner, of each setting, and the last."""
    return PROOF_ROUNDS_MIN * (_PROVED + 1 + setting_count + 3)


class Tuning:
    """The state of one tuning: says what to run next, and takes in what was measured.

    The same runs in the same order lead to the same state.
    """

    def __init__(
        self,
        space: Sequence[Dimension],
        now: Point,
        baselines: Sequence[Candidate],
        *,
        budget_ns: int,
        seed: int,
        refusal: Callable[[Candidate], str] = lambda _candidate: "",
    ) -> None:
        """Begin.

        Args: now, the value of each dimension on the server as it is; refusal, why a candidate
        must not run, "" if it may.
        """
        self.space = tuple(space)
        self.base = Candidate(BASE, {})
        self.rules = next((one for one in baselines if one.settings), None)
        self._now = dict(now)
        self._budget_ns = budget_ns
        self._refusal = refusal
        self._sampler = Sampler(self.space, seed)
        self._waiting = list(baselines)
        self._best = self.base
        self._best_gain = 0.0
        self._second: Candidate | None = None
        self._races: list[_Race] = []
        self._trial_count = 0
        self._spent_ns = 0
        self._run_count = 0
        self._stage: Stage = "search"
        self._rounds: dict[Stage, list[dict[str, float]]] = {}
        self._planned: dict[Stage, int] = {}
        self._ordered: list[Candidate] = []
        self._queue: list[Step] = []
        self._pending: dict[str, float | None] = {}
        self._wanted: set[str] = set()
        self._minimal: Candidate | None = None
        self.reason = ""
        self._has_failed = False
        self._sampler.learn(Tried(self._now, 0.0))

    @property
    def best(self) -> Candidate:
        """Return the best candidate of the search so far."""
        return self._best

    @property
    def stage(self) -> Stage:
        """Return the stage that the next run belongs to."""
        return self._stage

    @property
    def trial_count(self) -> int:
        """Return how many candidates were tried in the search."""
        return len(self._races)

    @property
    def failures(self) -> tuple[tuple[Candidate, str], ...]:
        """Return the candidates that failed, with the server's own words."""
        return tuple((one.challenger, one.failure) for one in self._races if one.failure)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return every candidate of the search, in the order they were tried."""
        return tuple(
            Trial(
                race.challenger,
                race.against.name,
                Effect(race.challenger.name, tuple(race.log_ratios)),
                race.failure,
            )
            for race in self._races
        )

    def runs_needed(self) -> int:
        """Return how many runs the proof and what follows take at least."""
        return runs_of_proof(len(self._groups(self._best)) or len(self.space))

    def next(self) -> Step | None:
        """Return the next run, None when the tuning is over (`reason` says why)."""
        while not self._queue and not self.reason:
            self._plan()
        return self._queue[0] if self._queue else None

    def take(self, measured: Measured) -> None:
        """Take in the run that `next` asked for."""
        self._spent_ns += measured.took_ns
        self._run_count += 1
        self._queue.pop(0)
        self._pending[measured.step.candidate.name] = measured.goal_ratio
        failed = measured.why if measured.goal_ratio is None else ""
        if failed and self._stage == "search":
            self._races[-1].failure = failed
            self._queue.clear()
        elif failed and measured.step.candidate in (self._best, self._minimal):
            self.reason = f"the winner failed in the proof: {failed}"
            self._has_failed = True
            self._queue.clear()
        if not self._queue:
            self._close_round()

    def gain(self, stage: Stage, name: str, against: str = BASE) -> Effect:
        """Return the effect of a candidate against another within a stage of the proof."""
        pairs = [
            round_[name] - round_[against]
            for round_ in self._rounds.get(stage, [])
            if name in round_ and against in round_
        ]
        return Effect(name, tuple(pairs))

    def promised(self) -> Effect:
        """Return what the search saw of its winner: too good on average, which the proof shows."""
        of_best = [one for one in self._races if one.challenger == self._best]
        ratios = [ratio + self._gain_of(one.against) for one in of_best for ratio in one.log_ratios]
        return Effect(self._best.name, tuple(ratios))

    @property
    def is_decided(self) -> bool:
        """Return whether the tuning came to its end, and the winner ran in every round of it."""
        return self.reason != "" and not self._has_failed

    @property
    def proof_stage(self) -> Stage | None:
        """Return the stage whose runs are the proof: the last one with a round; None without."""
        if self._minimal is not None and self._rounds.get("final"):
            return "final"
        has_proof = bool(self._rounds.get("proof")) and self._best is not self.base
        return "proof" if has_proof else None

    def proved(self) -> tuple[Candidate, Effect] | None:
        """Return the settings that were proved last, with their gain; None without a proof."""
        stage = self.proof_stage
        if stage is None:
            return None
        candidate = self._best if stage == "proof" or self._minimal is None else self._minimal
        return candidate, self.gain(stage, candidate.name)

    def attribution(self) -> dict[str, Effect]:
        """Return what each setting of the winner brings: the winner against itself without it."""
        found = {}
        for group in self._groups(self._best):
            effect = self.gain("attribution", self._best.name, f"without {group}")
            found[group] = Effect(group, effect.log_ratios)
        return found

    def against_rules(self) -> Effect | None:
        """Return the proved settings against the published rules."""
        found, stage = self.proved(), self.proof_stage
        if found is None or stage is None or self.rules is None:
            return None
        effect = self.gain(stage, found[0].name, self.rules.name)
        return effect if effect.log_ratios else None

    def _plan(self) -> None:
        """Put the runs of the next round into the queue, or go to the next stage, or end."""
        if self._stage == "search":
            self._plan_search()
            return
        done = len(self._rounds.setdefault(self._stage, []))
        if done >= self._planned[self._stage]:
            self._next_stage()
            return
        order = self._ordered if not is_reversed(done) else self._ordered[::-1]
        self._queue = [Step(self._stage, done + 1, one) for one in order]

    def _plan_search(self) -> None:
        race = self._races[-1] if self._races else None
        if race is None or self._is_over(race):
            if race is not None:
                self._judge(race)
            if len(self._races) >= _FAILURES_MAX and all(one.failure for one in self._races):
                self.reason = f"each of the first {len(self._races)} candidates failed"
                return
            if self._search_is_over():
                self._begin_proof()
                return
            challenger = self._challenger()
            if challenger is None:
                self._begin_proof()
                return
            race = _Race(challenger, self._best)
            self._races.append(race)
        pair = len(race.log_ratios)
        order = [race.against, race.challenger]
        if is_reversed(pair):
            order.reverse()
        number = sum(len(one.log_ratios) for one in self._races) + 1
        self._queue = [Step("search", number, one) for one in order]

    def _challenger(self) -> Candidate | None:
        """Return the next candidate that may run; those that may not are kept as failed."""
        while (found := self._proposed()) is not None:
            why = self._refusal(found)
            if not why:
                return found
            race = _Race(found, self._best, failure=why)
            self._races.append(race)
            self._judge(race)
        return None

    def _proposed(self) -> Candidate | None:
        while self._waiting:
            found = self._waiting.pop(0)
            if self._changed(found):
                return found
        point = self._sampler.propose()
        if point is None:
            return None
        self._trial_count += 1
        changed = {name: value for name, value in point.items() if value != self._now[name]}
        return Candidate(f"trial {self._trial_count}", changed)

    def _is_over(self, race: _Race) -> bool:
        if race.failure:
            return True
        values = np.array(race.log_ratios)
        count = int(values.size)
        if count == 0:
            return False
        error = self._noise() / math.sqrt(count)
        if float(values.mean()) < -_GIVEN_UP * error or count + race.missing_count >= _PAIRS_MAX:
            return True
        factor = sequential_t(count, 0.05) if count > 1 else math.inf
        if math.isinf(factor):
            return False
        low = float(values.mean()) - factor * float(values.std(ddof=1)) / math.sqrt(count)
        return low > 0

    def _judge(self, race: _Race) -> None:
        """Let the best so far be replaced, and the sampler learn."""
        if race.failure:
            self._sampler.learn(Tried(self._point(race.challenger), None))
            return
        mean = float(np.mean(race.log_ratios))
        gain = self._gain_of(race.against) + mean
        self._sampler.learn(Tried(self._point(race.challenger), gain))
        if mean > 0.5 * self._noise() / math.sqrt(len(race.log_ratios)):
            self._second = self._best if self._best is not self.base else None
            self._best, self._best_gain = race.challenger, gain

    def _gain_of(self, candidate: Candidate) -> float:
        """Return what the search knows of a candidate against the server as it was."""
        total = 0.0
        while candidate is not self.base:
            race = next(one for one in self._races if one.challenger == candidate)
            total += float(np.mean(race.log_ratios)) if race.log_ratios else 0.0
            candidate = race.against
        return total

    def _noise(self) -> float:
        """Return the standard deviation of one pair, of all races together."""
        spread = [
            (value - float(np.mean(race.log_ratios))) ** 2
            for race in self._races
            for value in race.log_ratios
            if len(race.log_ratios) > 1
        ]
        free = sum(len(race.log_ratios) - 1 for race in self._races if len(race.log_ratios) > 1)
        prior, weight = 2 * _NOISE_RATIO**2, 4
        return math.sqrt((sum(spread) + weight * prior) / (free + weight))

    def _search_is_over(self) -> bool:
        if not self._run_count:
            return False
        each_ns = self._spent_ns / self._run_count
        reserve_ns = max(_PROOF_SHARE * self._budget_ns, each_ns * self.runs_needed())
        return self._spent_ns + 2 * each_ns > self._budget_ns - reserve_ns

    def _close_round(self) -> None:
        """Keep the round that was just finished."""
        pending, self._pending = self._pending, {}
        known = {name: goal for name, goal in pending.items() if goal is not None}
        if self._stage != "search":
            self._rounds.setdefault(self._stage, []).append(known)
            return
        race = self._races[-1]
        if race.challenger.name in known and race.against.name in known:
            race.log_ratios.append(known[race.challenger.name] - known[race.against.name])
        elif not race.failure:
            race.missing_count += 1
            if race.missing_count >= _MISSING_MAX and not race.log_ratios:
                race.failure = "the metric could not be measured"

    def _begin_proof(self) -> None:
        if self._best is self.base:
            self.reason = NOTHING_BETTER
            return
        if self.rules is not None and any(self.rules == one for one, _ in self.failures):
            self.rules = None
        named = [self.base, self._best, self._second, self.rules]
        self._begin("proof", [one for one in named if one is not None], later=8)

    def _begin(self, stage: Stage, candidates: Sequence[Candidate], *, later: int) -> None:
        """Begin a stage with as many rounds as the budget allows, at least `PROOF_ROUNDS_MIN`.

        Args: later, candidates of the stages after this one, for which as many rounds are kept.
        """
        unique = {one.name: one for one in candidates}
        each_ns = self._spent_ns / max(1, self._run_count)
        left = (self._budget_ns - self._spent_ns) / max(each_ns, 1.0)
        rounds = int(left // (len(unique) + later))
        self._stage, self._ordered = stage, list(unique.values())
        self._planned[stage] = min(max(rounds, PROOF_ROUNDS_MIN), _ROUNDS_MAX)
        self._rounds[stage] = []

    def _next_stage(self) -> None:
        if self._stage == "proof":
            low, _ = self.gain("proof", self._best.name).interval()
            changed = self._changed(self._best)
            if low <= 0:
                self.reason = "the proof did not confirm what the search had promised"
            elif len(changed) < 2:
                self.reason = "proved"
            else:
                apart = self._groups(self._best).items()
                without = [self._best.without(label, names) for label, names in apart]
                self._begin("attribution", [self._best, *without], later=3)
            return
        if self._stage == "attribution":
            kept = {name for name, one in self.attribution().items() if one.interval()[0] > 0}
            groups = self._groups(self._best)
            names = {name for group in kept for name in groups[group]}
            settings = {n: v for n, v in self._best.settings.items() if n in names}
            if not settings or len(settings) == len(self._changed(self._best)):
                # Alone none matters, or each does: what was proved stands.
                self.reason = "proved"
                return
            self._minimal = Candidate("minimal", settings)
            named = [self.base, self._minimal, self.rules]
            self._begin("final", [one for one in named if one is not None], later=0)
            return
        self.reason = "proved"

    def _changed(self, candidate: Candidate) -> list[str]:
        """Return the settings in which a candidate differs from the server as it was."""
        return [n for n, v in candidate.settings.items() if v != self._now.get(n)]

    def _groups(self, candidate: Candidate) -> dict[str, list[str]]:
        """Return what is put back at one time: each setting of the search, the others together."""
        changed = self._changed(candidate)
        groups = {name: [name] for name in changed if name in self._now}
        others = [name for name in changed if name not in self._now]
        return {**groups, OTHERS: others} if others else groups

    def _point(self, candidate: Candidate) -> Mapping[str, str]:
        return {**self._now, **{n: v for n, v in candidate.settings.items() if n in self._now}}
