"""The course of a tuning: which stage it is in, the runs that are due, and what it has shown. Pure.

The stages are in `stages.py`, the time in `budget.py`. Only the last proof is reported as the gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno.features.tune.budget import Budget
from pgdyno.features.tune.race import Races
from pgdyno.features.tune.space import Dimension, Point
from pgdyno.features.tune.spread import Spread, level_of
from pgdyno.features.tune.stages import Alone, Attribution, Ending, ProofStage, Search, Stage, Terms
from pgdyno.features.tune.trial import Candidate, Effect, Measured, Step, Trial


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
        servers: Sequence[int] = (0,),
        is_at_once: bool = False,
    ) -> None:
        """Begin.

        Args: now, the value of each dimension on the server as it is; refusal, why a candidate
        must not run, "" if it may; servers, the numbers of equal servers that share the rounds;
        is_at_once, the servers run at the same time, each with its own rounds.
        """
        self.spread = Spread(servers)
        budget = Budget(budget_ns, self.spread, is_at_once=is_at_once)
        self._terms = Terms(
            races=Races(
                space,
                now,
                baselines,
                seed=seed,
                refusal=refusal,
                settings_max=lambda: budget.settings_max,
            ),
            rules=next((baseline for baseline in baselines if baseline.settings), None),
            budget=budget,
            spread=self.spread,
            is_at_once=is_at_once,
        )
        self._stage: Stage = Search(self._terms)
        self._attributed: list[Attribution | Alone] = []
        self._ending: Ending | None = None
        self._queue: list[Step] = []
        # Server -> goals of the round that it has begun.
        self._pending: dict[int, dict[str, float | None]] = {}
        self._base_goals: list[tuple[int, float]] = []

    def next(self) -> Step | None:
        """Return the next run, None when the tuning is over (`reason` says why)."""
        return next(iter(self.wave()), None)

    def wave(self) -> tuple[Step, ...]:
        """Return the next run of each server that runs at the same time; one if they take turns.

        When the tuning is over, there is none.
        """
        while not self._queue and self._ending is None:
            self._queue = self._stage.plan()
            if not self._queue:
                self._go_on_to(self._stage.following())
        first: dict[int, Step] = {}
        for step in self._queue:
            first.setdefault(step.server_number, step)
        return tuple(first.values())

    def take(self, measured: Measured) -> None:
        """Take in a run of the present wave."""
        step = measured.step
        server = step.server_number
        self._terms.budget.spend(measured.took_ns, measured.run_count)
        self._queue.remove(step)
        self._pending.setdefault(server, {})[step.candidate.name] = measured.goal_ratio
        if step.candidate is self.base and measured.goal_ratio is not None:
            self._base_goals.append((server, measured.goal_ratio))
        if measured.goal_ratio is None and measured.why:
            if ending := self._stage.fail(step, measured.why):
                self._end(ending)
            if isinstance(self._stage, Search):
                self._drop_round(server)
        if all(left.server_number != server for left in self._queue):
            self._close_round(server)

    def give_up(self, step: Step) -> None:
        """Note that the candidate of a step of the present wave cannot be measured."""
        if ending := self._stage.give_up(step):
            self._end(ending)
        else:
            self.take(Measured(step, None, 0, "it did not run: see the notes"))

    def lose(self, server: int) -> None:
        """Give up a server: a round that it had begun is repeated on another one."""
        self.spread.lose(server)
        had_begun = any(step.server_number == server for step in self._queue)
        if had_begun:
            self._drop_round(server)
            self._pending.pop(server, None)
        self._stage.lose(server, had_begun=had_begun)
        if not self.spread.left:
            self._ending = Ending("every server was lost", outcome="failed")

    @property
    def base(self) -> Candidate:
        """Return the server as it is."""
        return self._terms.base

    @property
    def rules(self) -> Candidate | None:
        """Return the published rules; None without them, and if they failed in the search."""
        return self._terms.rules

    @property
    def reason(self) -> str:
        """Return why the tuning is over, "" before."""
        return self._ending.reason if self._ending is not None else ""

    @property
    def is_decided(self) -> bool:
        """Return whether the tuning came to its end, and the winner ran in every round of it."""
        return self._ending is not None and self._ending.outcome != "failed"

    @property
    def stage(self) -> Stage:
        """Return the stage that the next run belongs to."""
        return self._stage

    @property
    def best(self) -> Candidate:
        """Return the candidate that is to be proved; during the search, the best so far."""
        if self._ending is not None and self._ending.proof is not None:
            return self._ending.proof.best
        return self._stage.best

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return every candidate of the search, in the order they were tried."""
        return self._terms.races.trials

    @property
    def failures(self) -> tuple[tuple[Candidate, str], ...]:
        """Return the candidates that failed, with the server's own words."""
        return tuple((trial.candidate, trial.failure) for trial in self.trials if trial.failure)

    @property
    def proof(self) -> ProofStage | None:
        """Return the stage whose runs are the proof: the last one with a round; None without."""
        if self._ending is not None and self._ending.proof is not None:
            return self._ending.proof
        return self._stage.proof

    def proved(self) -> tuple[Candidate, Effect] | None:
        """Return the settings that were proved last, with their gain; None without a proof."""
        proof = self.proof
        return None if proof is None else (proof.winner, proof.gain(proof.winner.name))

    def promised(self) -> Effect:
        """Return what the search saw of its winner: too good on average, which the proof shows."""
        return self._terms.races.promised(self.best)

    @property
    def is_attributed(self) -> bool:
        """Return whether some setting of the winner has a certain effect, as far as is known."""
        return self._ending is None or self._ending.outcome != "not attributed"

    def attribution(self) -> dict[str, Effect]:
        """Return what each setting of the winner brings, as far as it was measured.

        If it was measured twice, the second time decided about it.
        """
        effects: dict[str, Effect] = {}
        for stage in self._attributed:
            effects |= stage.effects()
        return effects

    def against_rules(self) -> Effect | None:
        """Return the proved settings against the published rules."""
        proof = self.proof
        if proof is None or self.rules is None:
            return None
        effect = proof.gain(proof.winner.name, self.rules.name)
        return effect if effect.log_ratios else None

    def level(self, server: int) -> Effect:
        """Return the goal of the server as it is, on one of the servers against the first."""
        return level_of(self._base_goals, server, self.spread.servers[0])

    def _go_on_to(self, following: Stage | Ending) -> None:
        if isinstance(following, Ending):
            self._ending = following
            return
        self._stage = following
        if isinstance(following, Attribution | Alone):
            self._attributed.append(following)

    def _end(self, ending: Ending) -> None:
        self._ending = ending
        self._queue.clear()

    def _drop_round(self, server: int) -> None:
        self._queue = [step for step in self._queue if step.server_number != server]

    def _close_round(self, server: int) -> None:
        """Keep the round that was just finished."""
        self.spread.take(self._stage.name, server)
        pending = self._pending.pop(server)
        known = {name: goal for name, goal in pending.items() if goal is not None}
        self._stage.keep(server, known)
