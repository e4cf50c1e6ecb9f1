"""What a tuning searches, and what is known before its first run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.features.tune.arms import PAIRS_PLANNED
from pgdyno.features.tune.space import Dimension, Point
from pgdyno.features.tune.trial import Candidate, Length

# What a turn and a run take if nothing else is known.
_STEP_NS: Mapping[Length, int] = {
    "turn": 2_500_000_000,
    "run": 8_000_000_000,
    "long run": 30_000_000_000,
}


@dataclass(frozen=True, slots=True)
class Question:
    """What a tuning searches.

    `now`: the value of each setting on the server as it is. `together`: values that are measured
    as one candidate before any of them is measured alone. `rules`: values of published rules, the
    first ones of each setting. `hints`: further values worth trying, by setting. `restarting`: the
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
    together: Point = field(default_factory=dict)
    restarting: frozenset[str] = frozenset()
    at_once: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    step_ns: Mapping[Length, int] = field(default_factory=lambda: dict(_STEP_NS))
    refusal: Callable[[Candidate], str] = lambda _candidate: ""

    @property
    def least_ns(self) -> int:
        """Return what an interval takes: some pairs of the formulas, or of the first setting."""
        first = self.together or [self.space[0].name]
        return 2 * PAIRS_PLANNED * self.step_ns[self.length_of(first)]

    @property
    def is_one_list(self) -> bool:
        """Return whether there is one setting, with a list of values."""
        return len(self.space) == 1 and self.space[0].scale == "choice"

    def is_list(self, setting: str) -> bool:
        """Return whether a setting has a list of values rather than a range."""
        return any(known.name == setting and known.scale == "choice" for known in self.space)

    def length_of(self, settings: Iterable[str]) -> Length:
        """Return how long a run must be to show what these settings do."""
        named = frozenset(settings)
        if named <= self.at_once:
            return "turn"
        return "run" if named.isdisjoint(self.slow) else "long run"

    def settings_of(self, best: Point, changes: Point) -> Point:
        """Return the settings of a candidate: those of `best` with `changes`, unlike yours."""
        changed = {**best, **changes}
        return {name: value for name, value in changed.items() if value != self.now.get(name)}
