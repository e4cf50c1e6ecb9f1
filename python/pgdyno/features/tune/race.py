"""The search stage of a tuning: each candidate runs in pairs against the best so far. Pure.

A race ends when its candidate looks worse, is certainly better, or had the maximum of pairs. The
result of a race is only a guess; the proof measures the gain again.

One race is open at a time. If several equal servers run at the same time, each of them has its own
race. A lane is the place of one open race.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgdyno.analysis.compare import shuffled
from pgdyno.features.tune.space import Dimension, Point, Sampler
from pgdyno.features.tune.trial import BASE, Candidate, Effect, Step, Trial

# A candidate that is undecided after this number of pairs is judged by its mean.
_PAIRS_MAX = 8
# A race is judged after this number of pairs at least, also if the time of the search is over.
_PAIRS_LEAST = 3
# A candidate is given up early if its mean is this number of standard errors below the best.
_GIVEN_UP = 1.3
# After the least number of pairs it is given up without a gain, and taken this far above the best.
_CERTAIN = 2.5
# A race fails if its first pairs all lack the metric. A single run may lack it, because a short run
# may end between two samples.
_MISSING_MAX = 3
_NOISE_RATIO = 0.05
# A change pays if its mean is this number of standard errors above the best; fewer are enough for
# another value of a setting that is changed already.
_PAYS, _PAYS_AGAIN = 1.4, 0.5
# If the first candidates fail without exception, the cause is not in their values.
_FAILURES_MAX = 6


@dataclass
class _Race:
    """One candidate against the best so far."""

    challenger: Candidate
    against: Candidate
    log_ratios: list[float] = field(default_factory=list)
    missing_count: int = 0
    failure: str = ""

    @property
    def mean(self) -> float:
        return float(np.mean(self.log_ratios)) if self.log_ratios else 0.0


class Races:
    """All races, and the best candidate so far. The sampler proposes the candidates."""

    def __init__(
        self,
        space: Sequence[Dimension],
        now: Point,
        baselines: Sequence[Candidate],
        *,
        seed: int,
        refusal: Callable[[Candidate], str],
        settings_max: Callable[[], int],
    ) -> None:
        """Begin. The server as it is is the best so far.

        Args: space, the settings to search; now, setting -> present value; baselines, candidates
        that race first; refusal, returns why a candidate must not run, "" if it may; settings_max,
        returns how many settings the best may change.
        """
        self.base = Candidate(BASE, {})
        self.best = self.base
        self.second: Candidate | None = None
        self.seed = seed
        self._now = dict(now)
        self._refusal = refusal
        self._settings_max = settings_max
        self._waiting = list(baselines)
        # Parts of a candidate that pays but changes too much: name -> values.
        self._parts: list[Candidate] = []
        self._races: list[_Race] = []
        self._open: dict[int, _Race] = {}
        self._left: list[_Race] = []
        self._pair_count = 0
        self._proposed_count = 0
        self._sampler = Sampler(space, self._now, seed)

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

    @property
    def have_all_failed(self) -> bool:
        """Return whether the first candidates failed without exception, so that the search ends."""
        return len(self._races) >= _FAILURES_MAX and all(race.failure for race in self._races)

    def settle(self, lane: int = 0) -> bool:
        """Judge the race of a lane if it is over. Return whether the lane is free."""
        race = self._open.get(lane)
        if race is None:
            return True
        if not self._is_over(race):
            return False
        del self._open[lane]
        self._judge(race)
        return True

    def begin(self, lane: int = 0) -> bool:
        """Begin the race of the next candidate that may run; return False after the last.

        Candidates that must not run are kept as failed.
        """
        while (candidate := self._proposed()) is not None:
            why = self._refusal(candidate)
            race = _Race(candidate, self.best, failure=why)
            self._races.append(race)
            if not why:
                self._open[lane] = race
                return True
            self._judge(race)
        return False

    def go_on(self, lane: int) -> bool:
        """Continue in this lane a race whose server was lost; return False if there is none."""
        while self._left:
            race = self._left.pop(0)
            if not self._is_over(race):
                self._open[lane] = race
                return True
            self._judge(race)
        return False

    def cut_short(self, lane: int) -> bool:
        """Judge the race of a lane by its pairs so far, because the time of the search is over.

        Returns: False if it has too few pairs for that, and goes on.
        """
        if len(self._open[lane].log_ratios) < _PAIRS_LEAST:
            return False
        self._judge(self._open.pop(lane))
        return True

    def leave(self, lane: int) -> None:
        """Stop the race of a lane whose server is lost; another lane continues it."""
        if lane in self._open:
            self._left.append(self._open.pop(lane))

    def pair(self, lane: int = 0, *, server: int = 0) -> list[Step]:
        """Return the two runs of the next pair of the race of a lane, both on one server."""
        race = self._open[lane]
        self._pair_count += 1
        order = shuffled([race.against, race.challenger], self.seed, self._pair_count)
        return [Step("search", self._pair_count, candidate, server) for candidate in order]

    def against(self, lane: int = 0) -> Candidate:
        """Return the candidate that the race of a lane is against."""
        return self._open[lane].against

    def fail(self, why: str, lane: int = 0) -> None:
        """Note that the candidate of a lane's race failed."""
        self._open[lane].failure = why

    def take(self, known: Mapping[str, float], lane: int = 0) -> None:
        """Take in the two runs of a pair.

        Args: known, name of the candidate -> logarithm of its goal (more is better); a candidate
        whose goal could not be measured is missing.
        """
        race = self._open[lane]
        if race.challenger.name in known and race.against.name in known:
            race.log_ratios.append(known[race.challenger.name] - known[race.against.name])
        elif not race.failure:
            race.missing_count += 1
            if race.missing_count >= _MISSING_MAX and not race.log_ratios:
                race.failure = "the metric could not be measured"

    def promised(self, candidate: Candidate) -> Effect:
        """Return the effect of a candidate in the search against the server as it was."""
        own = [race for race in self._races if race.challenger == candidate]
        ratios = [ratio + self._gain_of(race.against) for race in own for ratio in race.log_ratios]
        return Effect(candidate.name, tuple(ratios))

    def changed(self, candidate: Candidate) -> list[str]:
        """Return the settings in which a candidate differs from the server as it was."""
        return [n for n, v in candidate.settings.items() if v != self._now.get(n)]

    def _proposed(self) -> Candidate | None:
        while self._waiting:
            candidate = self._waiting.pop(0)
            self._sampler.know(self._point(candidate))
            if self.changed(candidate):
                return candidate
        while self._parts:
            part = self._parts.pop(0)
            candidate = Candidate(part.name, {**self.best.settings, **part.settings})
            self._sampler.know(self._point(candidate))
            if candidate.settings != self.best.settings:
                return candidate
        best = self.best.settings
        while point := self._sampler.propose(self._point(self.best)):
            changed = {name: value for name, value in point.items() if value != self._now[name]}
            others = {name: value for name, value in best.items() if name not in self._now}
            candidate = Candidate(f"trial {self._proposed_count + 1}", {**changed, **others})
            if changed and not self._changes_too_much(candidate):
                self._proposed_count += 1
                return candidate
        return None

    def _point(self, candidate: Candidate) -> Point:
        return {n: candidate.settings.get(n, value) for n, value in self._now.items()}

    def _changes_too_much(self, candidate: Candidate) -> bool:
        """Return whether it changes more than the best so far, and more than can be attributed."""
        count = len(self.changed(candidate))
        return count > max(self._settings_max(), len(self.changed(self.best)))

    def _is_over(self, race: _Race) -> bool:
        if race.failure:
            return True
        count = len(race.log_ratios)
        if count == 0:
            return False
        error = self._noise() / math.sqrt(count)
        if race.mean < -_GIVEN_UP * error or count + race.missing_count >= _PAIRS_MAX:
            return True
        return count >= _PAIRS_LEAST and not 0 <= race.mean <= _CERTAIN * error

    def _judge(self, race: _Race) -> None:
        """Replace the best so far if the candidate pays."""
        if race.failure:
            return
        gain = self._gain_of(race.against) + race.mean
        adds = set(self.changed(race.challenger)) - set(self.changed(race.against))
        least = _PAYS if adds else _PAYS_AGAIN
        if race.mean <= least * self._noise() / math.sqrt(len(race.log_ratios)):
            return
        if self._changes_too_much(race.challenger):
            self._split(race.challenger)
            return
        # Another lane may have found a better one since this race began.
        if race.against == self.best or gain > self._gain_of(self.best):
            self.second = self.best if self.best is not self.base else None
            self.best = race.challenger
        elif self.second is None or gain > self._gain_of(self.second):
            self.second = race.challenger

    def _split(self, candidate: Candidate) -> None:
        """Let each half of a candidate race by itself; a half that still changes much is halved."""
        best = self.best.settings
        own = [n for n in self.changed(candidate) if best.get(n) != candidate.settings[n]]
        middle = (len(own) + 1) // 2
        if middle < len(own):
            self._parts += [
                candidate.only(f"{candidate.name} part {place}", names)
                for place, names in enumerate((own[:middle], own[middle:]), start=1)
            ]

    def _gain_of(self, candidate: Candidate) -> float:
        """Return the log gain of a candidate against the server as it was."""
        total = 0.0
        while candidate is not self.base:
            race = next(race for race in self._races if race.challenger == candidate)
            total += race.mean
            candidate = race.against
        return total

    def _noise(self) -> float:
        """Return the standard deviation of one pair, of all races together."""
        several = [np.array(race.log_ratios) for race in self._races if len(race.log_ratios) > 1]
        spread = sum(float(np.sum((ratios - ratios.mean()) ** 2)) for ratios in several)
        free = sum(ratios.size - 1 for ratios in several)
        prior, weight = 2 * _NOISE_RATIO**2, 4
        return math.sqrt((spread + weight * prior) / (free + weight))
