"""The stages of a tuning, one class each: what runs next in it, and which stage follows. Pure.

`Search` (races of `race.py`), `Proof` (the winner, the runner-up and the rules against the server
as it was, with fresh runs), `SecondProof` (if the proof refutes the winner: the best of the
others), `Attribution` (the winner against itself without each setting), `Alone` (what is sure of
the winner, with each setting that is not), `FinalProof` (what is left of the winner, proved once
more).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pgdyno.analysis.compare import shuffled
from pgdyno.features.tune.budget import Budget, candidates_after_proof
from pgdyno.features.tune.race import Races
from pgdyno.features.tune.spread import Round, Spread
from pgdyno.features.tune.trial import BASE, Candidate, Effect, StageName, Step

NOTHING_BETTER = "nothing better was found"
MINIMAL = "minimal"
_REFUTED = "the proof did not confirm what the search had promised"
# The reported proof is the last of up to three, and which one depends on what the others showed.
# At this level of each, the reported interval holds in at least 95 % of the tunings.
PROOF_LEVEL = 0.975
# A setting is proposed if its effect is above zero at this level: several settings are judged. In
# 800 simulated tunings 97.5 % of the proposed settings had an effect (0.98: 94.3 %).
ATTRIBUTION_LEVEL = 0.99
# Candidates for which a proof keeps time in case it refutes its winner.
_AFTER_REFUTED = 8
# Candidates of the final proof: yours, the smaller set, the rules.
_FINAL = 3


Outcome = Literal["complete", "failed", "not attributed"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a tuning is over.

    `proof`: the stage whose runs are reported; None: the one that the last stage reports.
    `outcome`: "failed" if the tuning could not come to its end; "not attributed" if the winner is
    better, but no setting of it has a certain effect.
    """

    reason: str
    proof: ProofStage | None = None
    outcome: Outcome = "complete"


@dataclass
class Terms:
    """What all stages share."""

    races: Races
    rules: Candidate | None
    budget: Budget
    spread: Spread
    is_at_once: bool

    @property
    def base(self) -> Candidate:
        """Return the server as it is."""
        return self.races.base

    def lane(self, server: int) -> int:
        """Return the lane of the races that a server runs in: if they take turns, all in one."""
        return server if self.is_at_once else 0


class Stage(ABC):
    """One stage. A round is a list of runs on one server that are compared with each other."""

    name: ClassVar[StageName]

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    @property
    @abstractmethod
    def best(self) -> Candidate:
        """Return the candidate that is to be proved."""

    @property
    @abstractmethod
    def proof(self) -> ProofStage | None:
        """Return the stage whose runs are the proof so far."""

    @abstractmethod
    def plan(self) -> list[Step]:
        """Return the runs of the next round, or of one round a server; none when it is over."""

    @abstractmethod
    def following(self) -> Stage | Ending:
        """Return the stage after this one, which is over."""

    @abstractmethod
    def keep(self, server: int, goals: dict[str, float]) -> None:
        """Take in a round: the goals that could be measured, by the name of the candidate."""

    @abstractmethod
    def fail(self, step: Step, why: str) -> Ending | None:
        """Note that a run failed; return the ending if the tuning cannot go on."""

    @abstractmethod
    def give_up(self, step: Step) -> Ending | None:
        """Return the ending if the tuning cannot go on without this candidate."""

    @abstractmethod
    def lose(self, server: int, *, had_begun: bool) -> None:
        """Go on without a server. Args: had_begun, it was in the middle of a round."""


class Search(Stage):
    """Races of candidates against the best so far, until the rest of the budget is for the proof.

    A pair of which one run failed is over.
    """

    name = "search"

    @property
    def best(self) -> Candidate:
        """Return the best so far."""
        return self.terms.races.best

    @property
    def proof(self) -> None:
        """Return None: a search proves nothing."""
        return None

    def plan(self) -> list[Step]:
        """Return the next pair of each lane."""
        terms, races = self.terms, self.terms.races
        servers = terms.spread.in_turn("search")[: None if terms.is_at_once else 1]
        # First all judgements, so that every new race is against the best of now.
        free = {server: races.settle(terms.lane(server)) for server in servers}
        if all(free.values()) and races.have_all_failed:
            return []
        is_over = terms.budget.is_search_over(max(1, len(races.changed(self.best))))
        pairs = []
        for server, is_free in free.items():
            lane = terms.lane(server)
            has_race = not is_free or races.go_on(lane)
            if has_race and is_over:
                has_race = not races.cut_short(lane)
            if has_race or (not is_over and races.begin(lane)):
                pairs.append(races.pair(lane, server=server))
        return _interleaved(pairs)

    def following(self) -> Stage | Ending:
        """Return the proof of the best candidate, if there is one."""
        races = self.terms.races
        if races.have_all_failed:
            return Ending(f"each of the first {len(races.trials)} candidates failed")
        if races.best is races.base:
            return Ending(NOTHING_BETTER)
        if any(trial.candidate == self.terms.rules for trial in races.trials if trial.failure):
            self.terms.rules = None
        return Proof(self.terms, races.best)

    def keep(self, server: int, goals: dict[str, float]) -> None:
        """Take in a pair."""
        self.terms.races.take(goals, self.terms.lane(server))

    def fail(self, step: Step, why: str) -> None:
        """Note that the challenger failed; a failure of the best so far says nothing of it."""
        lane = self.terms.lane(step.server_number)
        if step.candidate != self.terms.races.against(lane):
            self.terms.races.fail(why, lane)

    def give_up(self, step: Step) -> Ending | None:
        """Return the ending if the best so far cannot be measured: every race is against it."""
        lane = self.terms.lane(step.server_number)
        if step.candidate != self.terms.races.against(lane):
            return None
        name = step.candidate.name
        reason = f"{name}, the best settings so far, can no longer be measured"
        return Ending(reason, outcome="failed")

    def lose(self, server: int, *, had_begun: bool) -> None:  # noqa: ARG002
        """Leave the race of the server to another one."""
        if self.terms.is_at_once:
            self.terms.races.leave(server)


class RoundStage(Stage):
    """A stage in which every candidate runs once a round. `needed`: without it, it has no end."""

    def __init__(
        self,
        terms: Terms,
        candidates: Sequence[Candidate | None],
        *,
        needed: Candidate,
        later_count: int,
    ) -> None:
        """Begin. Args: later_count, candidates of the stages after this one."""
        super().__init__(terms)
        unique = {candidate.name: candidate for candidate in candidates if candidate is not None}
        self.rounds: list[Round] = []
        self._needed = needed
        self._ordered = list(unique.values())
        self._later_count = later_count
        self._abandoned_count = 0
        self._planned_count = self._rounds_affordable()

    def gain(self, name: str, against: str = BASE, *, server: int | None = None) -> Effect:
        """Return the effect of a candidate against another.

        Args: server, of whose rounds alone; None, of all.
        """
        pairs = [
            done.goals[name] - done.goals[against]
            for done in self.rounds
            if name in done.goals and against in done.goals and server in (None, done.server_number)
        ]
        return Effect(name, tuple(pairs), PROOF_LEVEL)

    def plan(self) -> list[Step]:
        """Return the next round, or one for each server."""
        done, terms = len(self.rounds), self.terms
        missing = self._planned_count - done
        if missing <= 0:
            return []
        servers = terms.spread.in_turn(self.name)[: missing if terms.is_at_once else 1]
        rounds = []
        for place, server in enumerate(servers, start=done):
            order = shuffled(self._ordered, terms.races.seed, f"{self.name}/{place}")
            # A round that was given up keeps its number: its runs are on another server.
            number = place + 1 + self._abandoned_count
            rounds.append([Step(self.name, number, candidate, server) for candidate in order])
        return _interleaved(rounds)

    def keep(self, server: int, goals: dict[str, float]) -> None:
        """Take in a round."""
        self.rounds.append(Round(server, goals))

    def fail(self, step: Step, why: str) -> Ending | None:
        """Return the ending if the candidate is needed in every round."""
        if step.candidate != self._needed:
            return None
        return Ending(f"the winner failed in the proof: {why}", outcome="failed")

    def give_up(self, step: Step) -> None:  # noqa: ARG002
        """Return None: the run counts as failed, which says more."""
        return

    def lose(self, server: int, *, had_begun: bool) -> None:  # noqa: ARG002
        """Plan fewer rounds: fewer servers do fewer of them in the time that is left."""
        self._abandoned_count += had_begun
        if self.terms.spread.left:
            self._planned_count = min(self._planned_count, self._rounds_affordable())

    def _rounds_affordable(self) -> int:
        budget = self.terms.budget
        return budget.rounds(len(self._ordered), len(self.rounds), self._later_count)


class ProofStage(RoundStage):
    """A stage that proves one candidate against the server as it was."""

    def __init__(
        self, terms: Terms, winner: Candidate, more: Sequence[Candidate | None], *, later_count: int
    ) -> None:
        """Begin. Args: winner, what is proved; more, what else runs."""
        candidates = [terms.base, winner, *more]
        super().__init__(terms, candidates, needed=winner, later_count=later_count)
        self.winner = winner

    @property
    def best(self) -> Candidate:
        """Return what is proved."""
        return self.winner

    @property
    def proof(self) -> ProofStage | None:
        """Return this stage once it has a round."""
        return self if self.rounds else None

    @property
    def is_better(self) -> bool:
        """Return whether the winner is better for certain."""
        return self.gain(self.winner.name).is_above_zero


class Proof(ProofStage):
    """The winner of the search, the runner-up, and the rules."""

    name = "proof"

    def __init__(self, terms: Terms, winner: Candidate) -> None:
        """Begin."""
        later_count = candidates_after_proof(len(terms.races.changed(winner)))
        later_count = max(later_count, _AFTER_REFUTED)
        more = [terms.races.second, terms.rules]
        super().__init__(terms, winner, more, later_count=later_count)

    def following(self) -> Stage | Ending:
        """Return the attribution, or a second proof: of the best other candidate of this one."""
        if self.is_better:
            return _attribution(self)
        others = [other for other in (self.terms.races.second, self.terms.rules) if other]
        gains = {other.name: self.gain(other.name).mean for other in others}
        candidate = max(others, key=lambda other: gains[other.name], default=None)
        if candidate is None or gains[candidate.name] <= 0:
            why = "no other candidate of the proof was better than your settings"
        elif self.terms.budget.runs_left < self.terms.budget.rounds_min * (
            3 + candidates_after_proof(len(self.terms.races.changed(candidate)))
        ):
            why = "too little time was left to prove another candidate"
        else:
            return SecondProof(self, candidate)
        return Ending(f"{_REFUTED}; {why}", self)


class SecondProof(ProofStage):
    """After a proof that refuted the winner: another of its candidates, with fresh runs."""

    name = "second"

    def __init__(self, first: Proof, winner: Candidate) -> None:
        """Begin. Args: first, the proof that refuted its winner."""
        later_count = candidates_after_proof(len(first.terms.races.changed(winner)))
        super().__init__(first.terms, winner, [first.terms.rules], later_count=later_count)
        self.first = first

    def following(self) -> Stage | Ending:
        """Return the attribution, if this candidate is better."""
        if self.is_better:
            return _attribution(self)
        why = f"a second proof did not confirm {self.winner.name} either"
        return Ending(f"{_REFUTED}; {why}", self.first)


def _attribution(proof: ProofStage) -> Stage | Ending:
    """Return the attribution of what was proved; the ending if it is a single setting."""
    if len(proof.terms.races.changed(proof.winner)) < 2:
        return _proved(proof, proof)
    return Attribution(proof)


def _proved(reported: ProofStage, of: ProofStage) -> Ending:
    """Return the ending with a proved gain. Args: of, the proof that the winner comes from."""
    return Ending(f"proved{_refuted_before(of)}", reported)


def _not_attributed(of: ProofStage) -> Ending:
    why = f"none of the settings of {of.winner.name} has a certain effect"
    return Ending(why + _refuted_before(of), of, outcome="not attributed")


def _refuted_before(of: ProofStage) -> str:
    if not isinstance(of, SecondProof):
        return ""
    return f"; the first proof refuted {of.first.winner.name}"


class AfterProof(RoundStage):
    """A stage that follows the proof of a winner, `_of`."""

    _of: ProofStage

    @property
    def best(self) -> Candidate:
        """Return the winner."""
        return self._of.winner

    @property
    def proof(self) -> ProofStage | None:
        """Return the proof of the winner."""
        return self._of


class Attribution(AfterProof):
    """The winner against itself without each of its settings."""

    name = "attribution"

    def __init__(self, of: ProofStage) -> None:
        """Begin. Args: of, the proof of the winner."""
        winner, changed = of.winner, of.terms.races.changed(of.winner)
        candidates = [winner, *(winner.without(setting) for setting in changed)]
        # The next stage is seldom needed as a whole, but its least number of rounds is kept.
        later_count = candidates_after_proof(len(changed)) - len(candidates)
        super().__init__(of.terms, candidates, needed=winner, later_count=later_count)
        self._of = of

    def effects(self) -> dict[str, Effect]:
        """Return what each setting of the winner brings: the winner against itself without it."""
        return {
            setting: replace(
                self.gain(self.best.name, f"without {setting}"), name=setting, level_ratio=0.95
            )
            for setting in self.terms.races.changed(self.best)
        }

    def following(self) -> Stage | Ending:
        """Return the proof of the settings that matter, unless all of them do.

        Two settings that can replace each other are not missed alone. If several settings are not
        sure, each of them is therefore measured again, without the others.
        """
        effects = self.effects()
        sure = [setting for setting, effect in effects.items() if _is_sure(effect)]
        unsure = [setting for setting in effects if setting not in sure]
        if not unsure:
            return _proved(self._of, self._of)
        kept = self.best.only(MINIMAL, sure) if sure else self.terms.base
        budget = self.terms.budget
        # The time is there, unless a server was lost.
        has_time = budget.runs_left >= budget.rounds_min * (1 + len(unsure) + _FINAL)
        if len(unsure) > 1 and has_time:
            return Alone(self._of, kept, unsure)
        return FinalProof(self._of, kept) if sure else _not_attributed(self._of)


class Alone(AfterProof):
    """The settings that are sure, and these with each of the others."""

    name = "alone"

    def __init__(self, of: ProofStage, kept: Candidate, others: Sequence[str]) -> None:
        """Begin. Args: of, the proof of the winner; kept, the winner with the sure settings."""
        winner = of.winner
        self._of, self._kept = of, kept
        self._with = {
            other: winner.only(f"with {other}", (*kept.settings, other)) for other in others
        }
        super().__init__(of.terms, [kept, *self._with.values()], needed=kept, later_count=_FINAL)

    def effects(self) -> dict[str, Effect]:
        """Return what each of the other settings brings on top of the sure ones."""
        return {
            other: replace(self.gain(candidate.name, self._kept.name), name=other, level_ratio=0.95)
            for other, candidate in self._with.items()
        }

    def following(self) -> Stage | Ending:
        """Return the proof of the sure settings, with the strongest other one that has an effect.

        Only one is added, because the others may be those that it replaces.
        """
        effects = self.effects()
        sure = [other for other, effect in effects.items() if _is_sure(effect)]
        if sure:
            strongest = max(sure, key=lambda other: effects[other].mean)
            return FinalProof(self._of, self._with[strongest])
        if self._kept is self.terms.base:
            return _not_attributed(self._of)
        return FinalProof(self._of, self._kept)


class FinalProof(ProofStage):
    """What is left of the winner."""

    name = "final"

    def __init__(self, of: ProofStage, minimal: Candidate) -> None:
        """Begin. Args: of, the proof of the winner."""
        super().__init__(of.terms, minimal, [of.terms.rules], later_count=0)
        self._of = of

    @property
    def best(self) -> Candidate:
        """Return the whole winner, of which this stage proves a part."""
        return self._of.winner

    @property
    def proof(self) -> ProofStage | None:
        """Return this stage once it has a round; before, the proof of the winner."""
        return self if self.rounds else self._of

    def following(self) -> Ending:
        """Return the end."""
        return _proved(self, self._of)


def _is_sure(effect: Effect) -> bool:
    """Return whether a setting has an effect, so that it may be proposed."""
    return replace(effect, level_ratio=ATTRIBUTION_LEVEL).is_above_zero


def _interleaved(rounds: Sequence[Sequence[Step]]) -> list[Step]:
    """Return the steps of several rounds: the first of each, then the second of each, and so on."""
    longest = max((len(steps) for steps in rounds), default=0)
    return [steps[place] for place in range(longest) for steps in rounds if place < len(steps)]
