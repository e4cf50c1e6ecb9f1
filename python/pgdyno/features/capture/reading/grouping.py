"""Which statements form a transaction: from numbers of calls, and from sessions that were seen.

The server counts its transactions. If each statement were a transaction, their number would be
that of all calls. So the difference says how many calls are inside transactions of others: the
excess. The rarest statement that is left begins a kind of transactions. What is certainly in each
of them joins it: it was seen there, or the numbers of calls leave no other way. If an excess is
left, what may be there joins, too: as much as explains the excess best.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from pgdyno.features.capture.reading.call_series import (
    TOLERANCE_CALLS,
    CallSeries,
    FloatArray,
    Relations,
    difference,
    is_as_often,
    is_no_chance,
    max_difference,
    relations,
    slack,
)
from pgdyno.features.capture.reading.counted import Sessions
from pgdyno.features.capture.reading.step_order import in_order

# The server counts transactions up to a second late. So an excess may be this much too small.
_ENOUGH_RATIO = 0.85
_TRANSACTIONS_RATIO = 0.01
# If two statements would have been seen together this often, and were not, they are apart.
_MISSED_MAX = 3.0
# By about this number of calls in an interval statements of one transaction differ.
_USUAL_CALLS = 0.3
# Weak evidence, as the logarithm of a ratio of probabilities: seen in one transaction that may be
# of another kind, called as often, the same keys, both inside of transactions.
_SEEN, _AS_OFTEN, _RELATED, _INSIDE = 3.0, 2.0, 1.0, 1.0
# Two statements of which nothing is known are in different transactions.
_UNLIKELY = 4.0
# How many ways to explain the excess go on, and how many statements may join or not at once.
_WAYS_MAX, _CHOICES_MAX = 24, 3
# Weak evidence is weighed for the most frequent statements alone, which are nearly all calls.
_FREQUENT_MAX = 200
# A statement with this number of looks would have been seen again if it had turns.
_LOOKS_FOR_LOOP = 10
# A group with more turns than this is a loop.
_TURNS_MIN = 1.5

Related = Callable[[str, str], bool]


@dataclass(slots=True)
class StatementGroup:
    """The statements of one kind of transaction in their order, with the turns of each.

    `is_block`: they are between BEGIN and COMMIT. `is_proved`: certain evidence alone gives this
    group; of others it is the most probable one.
    """

    role: str
    calls: float
    turns: dict[str, float] = field(default_factory=dict)
    is_block: bool = False
    is_proved: bool = True


def grouped(
    statements: Sequence[CallSeries],
    sessions: Sessions,
    related: Related,
    *,
    transactions: float,
    late: float = 0.0,
    writing: Sequence[float] = (),
) -> list[StatementGroup]:
    """Return the kinds of transactions that explain all calls.

    Args: statements, without BEGIN and COMMIT; related, whether two statements use the same keys;
    transactions, how many the server counted, and late, how exactly; writing, how many transactions
    wrote, in each interval.
    """
    grouping = _Grouping(statements, sessions, related, transactions, writing, late)
    return sorted(grouping.groups(), key=lambda group: -group.calls)


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to explain the calls, as far as it has come.

    `left`: calls of each statement that have no transaction yet, in total and in each interval.
    `excess`: calls that are still to be inside of transactions; `budget`: those of them that weak
    evidence may explain, and `score` is what it says. `guessed`: calls that are turns of a loop
    without having been seen again.
    """

    left: Mapping[str, float]
    series: Mapping[str, FloatArray]
    excess: float
    budget: float = 0.0
    groups: tuple[StatementGroup, ...] = ()
    score: float = 0.0
    guessed: float = 0.0


class _Grouping:
    def __init__(
        self,
        statements: Sequence[CallSeries],
        sessions: Sessions,
        related: Related,
        transactions: float,
        writing: Sequence[float],
        late: float,
    ) -> None:
        self._statements = {item.id: item for item in statements}
        self._sessions = sessions
        self._related = related
        self._relations: Relations = relations(statements, writing)
        self._together, self._partners = self._sightings()
        self._neighbours: dict[str, set[str]] = {}
        for pair in self._together:
            for name in pair:
                self._neighbours.setdefault(name, set()).update(pair - {name})
        by_calls = sorted(statements, key=lambda item: item.calls)
        self._frequent = {item.id for item in by_calls[-_FREQUENT_MAX:]}
        left = {item.id: float(item.calls) for item in statements}
        own_ends = sum(item.calls * item.ends_count for item in statements)
        transactions = max(transactions - own_ends, 0)
        self._transactions = transactions
        self._tolerance = max(TOLERANCE_CALLS, _TRANSACTIONS_RATIO * transactions, late)
        series = {item.id: np.array(item.series, dtype=float) for item in statements}
        self._begin = _Way(left, series, sum(left.values()) - transactions)
        self._writing = sum(writing)

    def _sightings(self) -> tuple[dict[frozenset[str], int], Counter[str]]:
        """Return how often two statements were seen in one transaction, and each with any other.

        BEGIN and COMMIT, which all transactions have, do not count.
        """
        ids: dict[int, list[str]] = {}
        for item in self._statements.values():
            ids.setdefault(item.query_id, []).append(item.id)
        together: dict[frozenset[str], int] = {}
        partners: Counter[str] = Counter()
        for pair, count in self._sessions.together.items():
            if len(pair) < 2 or not pair <= ids.keys():
                continue
            first, other = pair
            for name in ids[first]:
                for theirs in ids[other]:
                    if self._statements[name].role == self._statements[theirs].role:
                        together[frozenset((name, theirs))] = count
                        partners[name] += count
                        partners[theirs] += count
        return together, partners

    def groups(self) -> list[StatementGroup]:
        """Return the groups of the best way: with certain evidence alone, if it is enough."""
        best = certain = self._with_loops(self._ways(0.0)[0])
        budget = self._too_many(best.groups) + best.guessed
        if budget > self._tolerance:
            ways = map(self._with_loops, self._ways(budget))
            best = max((best, *ways), key=self._worth)
        self._note_single(best.groups)
        return [
            replace(
                group,
                turns=in_order(group.turns, self._statements, self._sessions),
                is_proved=any(own.turns.keys() == group.turns.keys() for own in certain.groups),
            )
            for group in best.groups
        ]

    def _ways(self, budget: float) -> list[_Way]:
        """Return the best ways; weak evidence explains as many calls as the budget."""
        ways = [replace(self._begin, budget=budget)]
        while any(self._open(way) for way in ways):
            ways = _best_of([more for way in ways for more in self._next(way)])
        return ways

    def _too_many(self, groups: Sequence[StatementGroup]) -> float:
        """Return how many transactions groups have that the server did not count."""
        return sum(group.calls for group in groups) - self._transactions

    def _worth(self, way: _Way) -> float:
        """Return how probable a way is: its evidence, and how well it explains the excess."""
        return way.score - (self._too_many(way.groups) / self._tolerance) ** 2 / 2

    def _open(self, way: _Way) -> list[CallSeries]:
        return [item for item in self._statements.values() if way.left[item.id] > 0]

    def _next(self, way: _Way) -> Iterator[_Way]:
        """Yield a way with one kind of transaction more, once for each choice of weak evidence."""
        open_ = self._open(way)
        if not open_:
            yield way
            return
        first = min(open_, key=lambda item: (way.left[item.id], item.id))
        if self._is_alone(first):
            yield self._with_group(way, first, ())
            return
        calls, members = way.left[first.id], self._certain(way, first, open_)
        # By chance, many statements that a program calls once or twice have as many calls.
        is_weak_used = (
            first.id in self._frequent
            and calls > TOLERANCE_CALLS
            and self._allows(way.budget, calls)
        )
        weak = self._weak(way, first, members, open_) if is_weak_used else []
        choices = weak[:_CHOICES_MAX]
        for size in range(len(choices), -1, -1):
            for chosen in combinations(choices, size):
                added = [name for _, names in chosen for name in names]
                spent = calls * len(added)
                if not added or self._allows(way.budget, spent):
                    score = way.score + sum(value - _UNLIKELY for value, _ in chosen)
                    more = self._with_group(way, first, [*members[1:], *added])
                    yield replace(more, score=score, budget=way.budget - spent)

    def _allows(self, excess: float, calls: float) -> bool:
        """Return whether an excess is enough for calls, as exactly as it is known."""
        enough = min(_ENOUGH_RATIO * calls, calls - 2 * self._tolerance)
        return excess >= enough - TOLERANCE_CALLS and excess > 0

    def _with_group(self, way: _Way, first: CallSeries, others: Iterable[str]) -> _Way:
        """Return a way with a group of these; without what no excess is left for."""
        calls, own = way.left[first.id], way.series[first.id]
        turns, excess = {first.id: 1.0}, way.excess
        for name in others:
            if self._allows(excess, calls):
                turns[name] = 1.0
                excess -= calls
        left, series = dict(way.left), dict(way.series)
        for name in turns:
            rest = left[name] - calls
            left[name] = rest if rest > slack(self._statements[name].calls) else 0.0
            if len(series[name]) == len(own):
                series[name] = np.maximum(series[name] - own, 0.0)
        inside = any(self._is_usually_inside(self._statements[name]) for name in turns)
        group = StatementGroup(first.role, calls, turns, len(turns) > 1 or inside)
        return replace(way, left=left, series=series, excess=excess, groups=(*way.groups, group))

    def _certain(self, way: _Way, first: CallSeries, open_: Sequence[CallSeries]) -> list[str]:
        """Return the statements that are certainly in all transactions of a kind, `first` first.

        `whole`: those of which nothing else is left, so what was seen with them is of this kind.
        """
        calls = way.left[first.id]
        members, whole = [first.id], [first.id]
        by_calls = sorted((way.left[item.id], item.id) for item in open_)
        near: set[str] = set()
        while True:
            near |= self._near(way, members[-1], by_calls)
            joining = [
                (
                    self._certainty(way, other, whole, members),
                    -abs(way.left[other.id] - calls),
                    other.id,
                )
                for other in (self._statements[name] for name in near.difference(members))
                if self._is_enough(way, other, first)
            ]
            certainty, _, name = max(joining, default=(0.0, 0.0, ""))
            if certainty <= 0:
                return members
            members.append(name)
            if way.left[name] <= calls + slack(self._statements[name].calls):
                whole.append(name)

    def _near(self, way: _Way, name: str, by_calls: Sequence[tuple[float, str]]) -> set[str]:
        """Return the statements that evidence may join to one: seen, implied, or as frequent."""
        left = way.left[name]
        most = max_difference(left, len(way.series[name]))
        begin = bisect_left(by_calls, (left - most, ""))
        twins = {other for _, other in by_calls[begin : bisect_left(by_calls, (left + most, "~"))]}
        known = self._neighbours.get(name, set()) | self._relations.implied.get(name, set())
        return twins | {other for other in known if way.left[other] > 0}

    def _is_enough(self, way: _Way, other: CallSeries, first: CallSeries) -> bool:
        """Return whether a statement has calls for all transactions of another one."""
        least = way.left[first.id] - slack(way.left[first.id])
        return other.role == first.role and way.left[other.id] >= least

    def _fits(self, way: _Way, other: CallSeries, whole: Sequence[str]) -> bool:
        """Return whether nothing that was seen or counted forbids that a statement joins others."""
        pairs = [frozenset((other.id, name)) for name in whole]
        if any(self._together.get(pair) for pair in pairs):
            return True
        is_apart = any(pair in self._relations.apart for pair in pairs)
        return not is_apart and self._missed(way, other.id, whole) < _MISSED_MAX

    def _certainty(
        self, way: _Way, other: CallSeries, whole: Sequence[str], members: Sequence[str]
    ) -> float:
        """Return how certain it is that a statement belongs to others; 0 if it is not."""
        twins = [name for name in members if is_no_chance(way.series[name], way.series[other.id])]
        is_bound = any(self._together.get(frozenset((other.id, name))) for name in twins)
        if not is_bound and not self._fits(way, other, whole):
            return 0.0
        seen = sum(
            self._together.get(frozenset((other.id, name)), 0)
            for name in whole
            if not self._were_joined(way, other.id, name)
        )
        if seen and seen >= self._missed(way, other.id, whole) / 4:
            return 10.0 + seen
        if any(other.id in self._relations.implied.get(name, ()) for name in members):
            return 3.0
        if is_bound:
            return 2.0
        is_nearest = any(name in whole and self._is_nearest(way, name, other.id) for name in twins)
        return float(is_nearest and self._missed(way, other.id, whole) < 1)

    def _is_nearest(self, way: _Way, name: str, other: str) -> bool:
        """Return whether no third statement agrees with one of two much better than the other."""
        own = difference(way.series[name], way.series[other])
        usual = _USUAL_CALLS * len(way.series[name])
        return own <= usual or all(
            own <= 2 * difference(way.series[third], way.series[either]) + usual
            for third in way.series
            for either in (name, other)
            # Totals that differ more do not agree better.
            if third not in (name, other) and abs(way.left[third] - way.left[either]) <= own
        )

    def _were_joined(self, way: _Way, name: str, other: str) -> bool:
        return any(name in group.turns and other in group.turns for group in way.groups)

    def _missed(self, way: _Way, name: str, whole: Sequence[str]) -> float:
        """Return how often a statement would have been seen with others if it belonged to them.

        It was seen with statements so often; a part of its calls is in these transactions, and the
        others are a part of what can be seen there. And the same of the others.
        """
        looks = [self._looks_inside(member) for member in (*whole, name)]
        of_whole, own = sum(looks[:-1]), looks[-1]
        share = way.left[whole[0]] / max(self._statements[name].calls, 1.0)
        sees = self._partners_outside(name, whole, of_whole, self._partners[name] * min(share, 1.0))
        seen = self._partners_outside(
            whole[0], [name], own, sum(self._partners[member] for member in whole)
        )
        return max(sees, seen)

    def _partners_outside(
        self, name: str, others: Sequence[str], looks: int, sightings: float
    ) -> float:
        """Return the part of sightings that others would have had, by how often they are seen."""
        known = self._neighbours.get(name, set()).difference(others)
        rest = sum(self._looks_inside(partner) for partner in known)
        return sightings * looks / max(looks + rest, 1)

    def _weak(
        self, way: _Way, first: CallSeries, members: Sequence[str], open_: Sequence[CallSeries]
    ) -> list[tuple[float, list[str]]]:
        """Return what may belong to a kind: statements that belong together join at once.

        If the excess is not enough for all of them, they are joined by chance alone, and each is
        one more possibility.
        """
        whole = [
            name
            for name in members
            if way.left[name] <= way.left[first.id] + slack(self._statements[name].calls)
        ]
        joining: list[tuple[float, CallSeries]] = []
        for other in open_:
            if other.id in members or other.id not in self._frequent or self._is_alone(other):
                continue
            if not self._is_enough(way, other, first) or not self._fits(way, other, whole):
                continue
            if (value := self._value(way, other, whole, members)) > 0:
                joining.append((value, other))
        sets: list[list[tuple[float, str]]] = []
        for value, other in sorted(joining, key=lambda item: (-item[0], item[1].id)):
            series = way.series[other.id]
            alike = (s for s in sets if is_as_often(way.series[s[0][1]], series))
            known = next(alike, None)
            if known is None:
                sets.append([(value, other.id)])
            else:
                known.append((value, other.id))
        calls = way.left[first.id]
        choices: list[tuple[float, list[str]]] = []
        for joined in sets:
            if len(joined) > 1 and not self._allows(way.budget, calls * len(joined)):
                choices += [(value, [name]) for value, name in joined]
            else:
                together = sum(value for value, _ in joined)
                choices.append((together, [name for _, name in joined]))
        return sorted(choices, key=lambda item: -item[0])

    def _value(
        self, way: _Way, other: CallSeries, whole: Sequence[str], members: Sequence[str]
    ) -> float:
        """Return the weak evidence that a statement belongs to others."""
        value = -self._missed(way, other.id, whole)
        if any(self._together.get(frozenset((other.id, name))) for name in members):
            value = _SEEN
        if is_as_often(way.series[whole[0]], way.series[other.id]):
            value += _AS_OFTEN
        value += _RELATED * any(self._related(name, other.id) for name in members)
        is_inside = self._looks_inside(other.id) and any(map(self._looks_inside, members))
        return value + _INSIDE * bool(is_inside)

    def _looks_inside(self, name: str) -> int:
        return self._sessions.inside[self._statements[name].query_id]

    def _is_usually_inside(self, item: CallSeries) -> bool:
        """Return whether most looks at a statement showed it in a transaction.

        A statement that is alone looks so, too, if it waits for a CPU after its transaction began.
        """
        is_inside = self._looks_inside(item.id) > self._sessions.alone[item.query_id]
        return is_inside and not item.ends_count

    def _is_alone(self, item: CallSeries) -> bool:
        """Return whether sessions showed a statement outside a transaction, and hardly inside.

        A statement that was seen together with others is not, however often it is outside.
        """
        is_outside = self._sessions.alone[item.query_id] > 4 * self._looks_inside(item.id)
        return item.ends_count > 0 or (is_outside and not self._partners[item.id])

    def _with_loops(self, way: _Way) -> _Way:
        """Return a way; calls that are left, and no transactions, are turns of a loop.

        A statement that is left alone belongs to the most frequent group that has it. If calls are
        left then, one group repeats: sessions showed its statements again in one transaction, and
        none is in others.
        """
        excess, score, guessed, kept = way.excess, way.score, 0.0, []
        groups = [replace(group, turns=dict(group.turns)) for group in way.groups]
        for group in groups:
            [name, *others] = group.turns
            homes = [
                home
                for home in groups
                if home is not group and name in home.turns and len(home.turns) > 1
            ]
            is_loop = self._was_repeated(name) or self._looks_inside(name) < _LOOKS_FOR_LOOP
            if others or not homes or not is_loop or excess < _ENOUGH_RATIO * group.calls:
                kept.append(group)
                continue
            home = max(homes, key=lambda home: home.calls)
            home.turns[name] += group.calls / home.calls
            excess -= group.calls
            if not self._was_repeated(name):
                score, guessed = score - 2 * _UNLIKELY, guessed + group.calls
        counts = Counter(name for group in kept for name in group.turns)
        for group in kept:
            left = self._loop_calls(group, kept, excess)
            is_own = all(counts[name] == 1 for name in group.turns)
            is_loop = slack(group.calls) < left < group.calls / _TURNS_MIN
            if is_own and is_loop and self._may_repeat(group):
                turns = group.calls / left
                group.turns = {name: count * turns for name, count in group.turns.items()}
                excess -= group.calls - left
                group.calls, group.is_block = left, True
                break
        return replace(way, groups=tuple(kept), score=score, guessed=guessed)

    def _loop_calls(
        self, loop: StatementGroup, groups: Sequence[StatementGroup], excess: float
    ) -> float:
        """Return how many transactions a group has that repeats in each of them.

        The transactions that write are counted at once, and better than all.
        """
        writing = [
            group for group in groups if any(self._statements[name].writes for name in group.turns)
        ]
        if self._writing and loop in writing:
            return self._writing - sum(group.calls for group in writing if group is not loop)
        return loop.calls - excess

    def _may_repeat(self, group: StatementGroup) -> bool:
        """Return whether each statement was seen again, except those that were hardly seen."""
        others = [name for name in group.turns if not self._was_repeated(name)]
        is_rare = all(self._looks_inside(name) < _LOOKS_FOR_LOOP for name in others)
        return is_rare and len(others) < len(group.turns)

    def _was_repeated(self, name: str) -> bool:
        return bool(self._sessions.repeated[self._statements[name].query_id])

    def _note_single(self, groups: Sequence[StatementGroup]) -> None:
        """Take the block from a single statement that sessions showed alone.

        They showed it inside, too, where it is a part of another group.
        """
        several = {name for group in groups if len(group.turns) > 1 for name in group.turns}
        for group in groups:
            [name, *others] = group.turns
            if not others and name in several:
                group.is_block &= not self._sessions.alone[self._statements[name].query_id]


def _best_of(ways: Sequence[_Way]) -> list[_Way]:
    """Return the ways that go on: of those that leave about the same excess, the best one."""
    ordered = sorted(ways, key=lambda way: (-way.score, len(way.groups)))
    kept: dict[int, _Way] = {}
    unit = max(abs(way.excess) for way in ways) / _WAYS_MAX or 1.0
    for way in ordered:
        kept.setdefault(round(way.excess / unit), way)
    return list(kept.values())[:_WAYS_MAX]
