"""The course of a tuning: a search, then a proof with new runs. Pure.

Stages: `search` (`race.py`), `proof` (the winner, the runner-up and the rules against the server as
it was, with fresh runs), `second` (if the proof refutes the winner: the best of the others, again
with fresh runs), `attribution` (the winner against itself without each setting), `final` (what is
left of the winner, proved once more). Only the last proof is reported as the gain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pgdyno.tune.race import Races
from pgdyno.tune.space import Dimension, Point
from pgdyno.tune.spread import Round, Spread, level_of
from pgdyno.tune.trial import BASE, Candidate, Effect, Measured, Stage, Step, Trial

NOTHING_BETTER = "nothing better was found"
OTHERS = "the others"
PROOF_ROUNDS_MIN = 6
_REFUTED = "the proof did not confirm what the search had promised"
_PROOF_SHARE = 0.25
_ROUNDS_MAX = 20
# Candidates of a proof: yours, the winner, the runner-up, the rules.
_PROVED = 4
# The reported proof is the last of up to three, and which one depends on what the others showed.
# At this level of each, the reported interval holds in at least 95 % of the tunings.
PROOF_LEVEL = 0.975


def runs_of_proof(setting_count: int, rounds: int = PROOF_ROUNDS_MIN) -> int:
    """Return how many runs a proof takes at least: of the winner, of each setting, and the last."""
    return rounds * (_PROVED + 1 + setting_count + 3)


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
        self.space = tuple(space)
        self.rules = next((baseline for baseline in baselines if baseline.settings), None)
        self.reason = ""
        self._now = dict(now)
        self._budget_ns = budget_ns
        self._races = Races(space, now, baselines, seed=seed, refusal=refusal)
        self._spent_ns = 0
        # Time of a run by itself, summed: runs at the same time each have the whole of it.
        self._alone_ns = 0
        self._run_count = 0
        self._stage: Stage = "search"
        self._winner: Candidate | None = None
        self._refuted: Candidate | None = None
        self._minimal: Candidate | None = None
        self._is_group = False
        self._rounds: dict[Stage, list[Round]] = {}
        self._planned: dict[Stage, int] = {}
        self._later = 0
        self._ordered: list[Candidate] = []
        self._queue: list[Step] = []
        # Server -> goals of the round that it has begun.
        self._pending: dict[int, dict[str, float | None]] = {}
        self._has_failed = False
        self.spread = Spread(servers)
        self._is_at_once = is_at_once
        self._abandoned_counts: Counter[Stage] = Counter()
        self._base_goals: list[tuple[int, float]] = []

    @property
    def base(self) -> Candidate:
        """Return the server as it is."""
        return self._races.base

    @property
    def best(self) -> Candidate:
        """Return the candidate that is to be proved; during the search, the best so far."""
        return self._winner or self._races.best

    @property
    def stage(self) -> Stage:
        """Return the stage that the next run belongs to."""
        return self._stage

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return every candidate of the search, in the order they were tried."""
        return self._races.trials

    @property
    def trial_count(self) -> int:
        """Return how many candidates were tried in the search."""
        return len(self.trials)

    @property
    def failures(self) -> tuple[tuple[Candidate, str], ...]:
        """Return the candidates that failed, with the server's own words."""
        return tuple((trial.candidate, trial.failure) for trial in self.trials if trial.failure)

    def next(self) -> Step | None:
        """Return the next run, None when the tuning is over (`reason` says why)."""
        return next(iter(self.wave()), None)

    def wave(self) -> tuple[Step, ...]:
        """Return the next run of each server that runs at the same time; one if they take turns.

        When the tuning is over, there is none.
        """
        while not self._queue and not self.reason:
            self._plan()
        first: dict[int, Step] = {}
        for step in self._queue:
            first.setdefault(step.server_number, step)
        return tuple(first.values())

    def take(self, measured: Measured) -> None:
        """Take in a run of the present wave."""
        step = measured.step
        server = step.server_number
        self._spent_ns += measured.took_ns
        self._alone_ns += measured.took_ns * measured.run_count
        self._run_count += 1
        self._queue.remove(step)
        self._pending.setdefault(server, {})[step.candidate.name] = measured.goal_ratio
        if step.candidate is self.base and measured.goal_ratio is not None:
            self._base_goals.append((server, measured.goal_ratio))
        failed = measured.why if measured.goal_ratio is None else ""
        if failed and self._stage == "search":
            # A pair whose other run failed does not count, and says nothing of the challenger.
            if step.candidate != self._races.against(self._lane(server)):
                self._races.fail(failed, self._lane(server))
            self._drop_round(server)
        elif failed and step.candidate in (self.best, self._minimal):
            self.reason = f"the winner failed in the proof: {failed}"
            self._has_failed = True
            self._queue.clear()
        if all(left.server_number != server for left in self._queue):
            self._close_round(server)

    def give_up(self, step: Step) -> None:
        """Note that the candidate of a step of the present wave cannot be measured.

        If the best so far cannot, every race is against it, so the tuning ends.
        """
        if self._stage == "search" and step.candidate == self._races.against(
            self._lane(step.server_number)
        ):
            self.reason = (
                f"{step.candidate.name}, the best settings so far, can no longer be measured"
            )
            self._has_failed = True
            self._queue.clear()
            return
        self.take(Measured(step, None, 0, "it did not run: see the notes"))

    def lose(self, server: int) -> None:
        """Give up a server: a round that it had begun is repeated on another one."""
        self.spread.lose(server)
        if any(step.server_number == server for step in self._queue):
            self._abandoned_counts[self._stage] += 1
            self._drop_round(server)
            self._pending.pop(server, None)
        if self._stage == "search" and self._is_at_once:
            self._races.leave(server)
        if not self.spread.left:
            self.reason, self._has_failed = "every server was lost", True
        elif self._stage != "search":
            # Fewer servers do fewer rounds in the time that is left.
            self._planned[self._stage] = min(self._planned[self._stage], self._rounds_affordable())

    def _drop_round(self, server: int) -> None:
        self._queue = [step for step in self._queue if step.server_number != server]

    def _lane(self, server: int) -> int:
        """Return the lane of the races that a server runs in: if they take turns, all in one."""
        return server if self._is_at_once else 0

    def level(self, server: int) -> Effect:
        """Return the goal of the server as it is, on one of the servers against the first."""
        return level_of(self._base_goals, server, self.spread.servers[0])

    def gain(
        self, stage: Stage, name: str, against: str = BASE, *, server: int | None = None
    ) -> Effect:
        """Return the effect of a candidate against another within a stage of the proof.

        Args: server, of whose rounds alone; None, of all.
        """
        pairs = [
            done.goals[name] - done.goals[against]
            for done in self._rounds.get(stage, [])
            if name in done.goals and against in done.goals and server in (None, done.server_number)
        ]
        return Effect(name, tuple(pairs), 0.95 if stage == "attribution" else PROOF_LEVEL)

    def promised(self) -> Effect:
        """Return what the search saw of its winner: too good on average, which the proof shows."""
        return self._races.promised(self.best)

    @property
    def is_decided(self) -> bool:
        """Return whether the tuning came to its end, and the winner ran in every round of it."""
        return self.reason != "" and not self._has_failed

    @property
    def proof_stage(self) -> Stage | None:
        """Return the stage whose runs are the proof: the last one with a round; None without."""
        if self._minimal is not None and self._rounds.get("final"):
            return "final"
        if self._refuted is not None and self.best is not self._refuted:
            return "second" if self._rounds.get("second") else None
        has_proof = bool(self._rounds.get("proof")) and self.best is not self.base
        return "proof" if has_proof else None

    def proved(self) -> tuple[Candidate, Effect] | None:
        """Return the settings that were proved last, with their gain; None without a proof."""
        stage = self.proof_stage
        if stage is None:
            return None
        candidate = self._minimal if stage == "final" and self._minimal else self.best
        return candidate, self.gain(stage, candidate.name)

    def attribution(self) -> dict[str, Effect]:
        """Return what each setting of the winner brings: the winner against itself without it."""
        effects = {}
        for group in self._groups():
            effect = self.gain("attribution", self.best.name, f"without {group}")
            effects[group] = Effect(group, effect.log_ratios)
        return effects

    def against_rules(self) -> Effect | None:
        """Return the proved settings against the published rules."""
        proved, stage = self.proved(), self.proof_stage
        if proved is None or stage is None or self.rules is None:
            return None
        effect = self.gain(stage, proved[0].name, self.rules.name)
        return effect if effect.log_ratios else None

    def _plan(self) -> None:
        """Put the runs of the next round into the queue, or go to the next stage, or end."""
        if self._stage == "search":
            self._plan_search()
            return
        done = len(self._rounds.setdefault(self._stage, []))
        missing = self._planned[self._stage] - done
        if missing <= 0:
            self._next_stage()
            return
        servers = self.spread.in_turn(self._stage)[: missing if self._is_at_once else 1]
        rounds = []
        for place, server in enumerate(servers, start=done):
            is_turned = self.spread.is_turned(place)
            order = self._ordered[::-1] if is_turned else self._ordered
            # A round that was given up keeps its number: its runs are on another server.
            number = place + 1 + self._abandoned_counts[self._stage]
            rounds.append([Step(self._stage, number, candidate, server) for candidate in order])
        self._queue = _interleaved(rounds)

    def _plan_search(self) -> None:
        """Plan the next pair of each lane, or begin the proof when the last race is over."""
        servers = self.spread.in_turn("search")[: None if self._is_at_once else 1]
        pairs = []
        # First all judgements, so that every new race is against the best of now.
        free = {server: self._races.settle(self._lane(server)) for server in servers}
        if all(free.values()) and self._races.have_all_failed:
            self.reason = f"each of the first {self.trial_count} candidates failed"
            return
        is_over = self._search_is_over()
        for server, is_free in free.items():
            lane = self._lane(server)
            has_race = not is_free or self._races.go_on(lane)
            if has_race and is_over:
                has_race = not self._races.cut_short(lane)
            if has_race or (not is_over and self._races.begin(lane)):
                pairs.append(self._races.pair(lane, server=server))
        if pairs:
            self._queue = _interleaved(pairs)
        else:
            self._begin_proof()

    def _search_is_over(self) -> bool:
        if not self._run_count:
            return False
        runs = runs_of_proof(len(self._groups()) or len(self.space), self._rounds_min)
        reserve_ns = max(_PROOF_SHARE * self._budget_ns, self._run_ns * runs)
        return self._spent_ns + 2 * self._run_ns > self._budget_ns - reserve_ns

    @property
    def _rounds_min(self) -> int:
        """Return how many rounds a stage of the proof has at least, as many on each server."""
        return self.spread.whole_rounds(PROOF_ROUNDS_MIN)

    @property
    def _run_ns(self) -> float:
        """Return what a run takes on average; runs at the same time share this time."""
        lanes = len(self.spread.left) if self._is_at_once else 1
        return self._alone_ns / max(1, self._run_count) / max(1, lanes)

    @property
    def _runs_left(self) -> float:
        """Return how many runs the rest of the budget allows."""
        return (self._budget_ns - self._spent_ns) / max(self._run_ns, 1.0)

    def _close_round(self, server: int) -> None:
        """Keep the round that was just finished."""
        self.spread.take(self._stage, server)
        pending = self._pending.pop(server)
        known = {name: goal for name, goal in pending.items() if goal is not None}
        if self._stage == "search":
            self._races.take(known, self._lane(server))
        else:
            self._rounds.setdefault(self._stage, []).append(Round(server, known))

    def _begin_proof(self) -> None:
        self._winner = self._races.best
        if self._winner is self.base:
            self.reason = NOTHING_BETTER
            return
        if self.rules is not None and any(self.rules == failed for failed, _ in self.failures):
            self.rules = None
        self._begin("proof", [self.base, self._winner, self._races.second, self.rules], later=8)

    def _begin(self, stage: Stage, candidates: Sequence[Candidate | None], *, later: int) -> None:
        """Begin a stage with as many rounds as the budget allows, at least `PROOF_ROUNDS_MIN`.

        Args: later, candidates of the stages after this one, for which as many rounds are kept.
        """
        unique = {candidate.name: candidate for candidate in candidates if candidate is not None}
        self._stage, self._ordered, self._later = stage, list(unique.values()), later
        self._rounds[stage] = []
        self._planned[stage] = self._rounds_affordable()

    def _rounds_affordable(self) -> int:
        """Return how many rounds this stage has within the budget; the later stages have as many.

        As many on each server, and not rounded up, so that the budget is kept.
        """
        candidates = len(self._ordered)
        runs = self._runs_left + candidates * len(self._rounds[self._stage])
        rounds = int(runs // (candidates + self._later))
        whole = rounds - rounds % len(self.spread.left)
        most = _ROUNDS_MAX - _ROUNDS_MAX % len(self.spread.left)
        return max(min(whole, most), self._rounds_min)

    def _next_stage(self) -> None:
        if self._stage in ("proof", "second"):
            if self.gain(self._stage, self.best.name).interval()[0] > 0:
                self._begin_attribution()
            elif self._stage == "proof":
                self._begin_second_proof()
            else:
                self._end_refuted(f"a second proof did not confirm {self.best.name} either")
        elif self._stage == "attribution":
            self._begin_final()
        else:
            assert self._minimal is not None, "the last stage proves it"
            if self._is_group and self.gain("final", self._minimal.name).interval()[0] <= 0:
                self._minimal = None  # The group was a guess. What was proved before stands.
            self._end_proved()

    def _begin_second_proof(self) -> None:
        """Prove the best of the other candidates, if its runs in the proof were better."""
        others = [
            candidate for candidate in (self._races.second, self.rules) if candidate is not None
        ]
        gains = {candidate.name: self.gain("proof", candidate.name).mean for candidate in others}
        candidate = max(others, key=lambda candidate: gains[candidate.name], default=None)
        if candidate is None or gains[candidate.name] <= 0:
            self._end_refuted("no other candidate of the proof was better than your settings")
        elif self._runs_left < self._rounds_min * 3:
            self._end_refuted("too little time was left to prove another candidate")
        else:
            self._refuted, self._winner = self._winner, candidate
            self._begin("second", [self.base, candidate, self.rules], later=5)

    def _begin_attribution(self) -> None:
        groups = self._groups()
        if len(self._races.changed(self.best)) < 2:
            self._end_proved()
        elif self._refuted is not None and self._runs_left < self._rounds_min * (len(groups) + 4):
            self._end_proved("no time was left to measure each setting alone")
        else:
            without = [self.best.without(label, names) for label, names in groups.items()]
            self._begin("attribution", [self.best, *without], later=3)

    def _begin_final(self) -> None:
        """Prove the settings that matter once more, unless all of them do."""
        groups, effects = self._groups(), self.attribution()
        sure = [label for label, effect in effects.items() if effect.interval()[0] > 0]
        self._is_group = not sure
        names = {name for label in sure or self._strongest(effects) for name in groups[label]}
        settings = {name: value for name, value in self.best.settings.items() if name in names}
        if not settings or len(settings) == len(self._races.changed(self.best)):
            self._end_proved()
            return
        self._minimal = Candidate("minimal", settings)
        self._begin("final", [self.base, self._minimal, self.rules], later=0)

    def _strongest(self, effects: dict[str, Effect]) -> list[str]:
        """Return the two or three strongest of several settings, where no single one is sure.

        Settings can replace each other: then none is missed alone, but a few together are.
        """
        if len(effects) < 3:
            return []
        ordered = sorted(effects, key=lambda label: -effects[label].mean)
        total = sum(max(0.0, effect.mean) for effect in effects.values())
        two = sum(effects[label].mean for label in ordered[:2])
        return ordered[:2] if two >= total / 2 or len(ordered) == 3 else ordered[:3]

    def _end_proved(self, also: str = "") -> None:
        said = "" if self._refuted is None else f"the first proof refuted {self._refuted.name}"
        self.reason = "; ".join(text for text in ("proved", said, also) if text)

    def _end_refuted(self, why_no_more: str) -> None:
        self.reason = f"{_REFUTED}; {why_no_more}"
        self._winner, self._refuted = self._refuted or self._winner, None

    def _groups(self) -> dict[str, list[str]]:
        """Return what is put back at one time: each setting of the search, the others together."""
        changed = self._races.changed(self.best)
        groups = {name: [name] for name in changed if name in self._now}
        others = [name for name in changed if name not in self._now]
        return {**groups, OTHERS: others} if others else groups


def _interleaved(rounds: Sequence[Sequence[Step]]) -> list[Step]:
    """Return the steps of several rounds: the first of each, then the second of each, and so on."""
    longest = max(len(steps) for steps in rounds)
    return [steps[place] for place in range(longest) for steps in rounds if place < len(steps)]
