"""Which statements form a transaction: only what sessions and numbers of calls prove.

Statements belong together if sessions were seen with both in one transaction, and their calls say
in how many: both were called equally often in every interval, and not by chance; or the calls of
one are the sum of those of two others; or it was only ever seen in one kind of transaction. Equal
calls alone are no proof: a program may carry out two transactions one after the other, always. What
is not proved stays a single statement, because a wrong transaction has wrong keys and wrong locks.

Each kind of transactions begins with the rarest statement that has no kind yet. Statements that are
proved to be in each of its transactions join it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pgdyno.features.capture.reading.call_series import (
    TOLERANCE_CALLS,
    CallSeries,
    FloatArray,
    is_at_least,
    is_no_chance,
    slack,
    sums,
)
from pgdyno.features.capture.reading.counted import Sessions
from pgdyno.features.capture.reading.step_order import in_order

_TRANSACTIONS_RATIO = 0.01
# A statement that other transactions have, too, was seen in these so often.
_SEEN_MIN = 6
# A group with more turns than this is a loop.
_TURNS_MIN = 1.5


@dataclass(slots=True)
class StatementGroup:
    """The statements of one kind of transaction in their order, with the turns of each.

    `is_block`: they are between BEGIN and COMMIT. `is_proved`: sessions and counts show that this
    is a transaction; otherwise it is one statement of a transaction that nobody knows.
    """

    role: str
    calls: float
    turns: dict[str, float] = field(default_factory=dict)
    is_block: bool = False
    is_proved: bool = True


def grouped(
    statements: Sequence[CallSeries],
    sessions: Sessions,
    *,
    transactions: float,
    late: float = 0.0,
    writing: Sequence[float] = (),
) -> list[StatementGroup]:
    """Return the kinds of transactions that are proved, and all other statements alone.

    Args: statements, without BEGIN and COMMIT; transactions, how many the server counted, and late,
    how exactly; writing, how many transactions wrote, in each interval.
    """
    grouping = _Grouping(statements, sessions, transactions, writing, late)
    return sorted(grouping.groups(), key=lambda group: -group.calls)


@dataclass(slots=True)
class _Explanation:
    """The groups so far, and the calls that have none yet: in total and in each interval.

    `tentative`: statements and how often they are in groups of which this is right only if all
    groups explain the server's transactions.
    """

    left: dict[str, float]
    series: dict[str, FloatArray]
    groups: list[StatementGroup] = field(default_factory=list)
    tentative: list[tuple[str, float]] = field(default_factory=list)


class _Grouping:
    def __init__(
        self,
        statements: Sequence[CallSeries],
        sessions: Sessions,
        transactions: float,
        writing: Sequence[float],
        late: float,
    ) -> None:
        self._statements = {item.id: item for item in statements}
        self._sessions = sessions
        self._sums = sums(statements, writing)
        self._together, self._partners = self._sightings()
        self._neighbours: defaultdict[str, set[str]] = defaultdict(set)
        for pair in self._together:
            for name in pair:
                self._neighbours[name].update(pair - {name})
        own_ends = sum(item.calls * item.ends_count for item in statements)
        self._transactions = max(transactions - own_ends, 0)
        self._tolerance = max(TOLERANCE_CALLS, _TRANSACTIONS_RATIO * self._transactions, late)
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
        """Return the groups that are proved, and the other statements alone."""
        best = self._explained(is_strict=True)
        if not self._is_closed(best.groups):
            more = self._explained(is_strict=False)
            is_sure = all(
                self._is_in_all(name, calls, more.groups) for name, calls in more.tentative
            )
            if is_sure and self._is_closed(more.groups):
                best = more
        is_closed = self._is_closed(best.groups)
        for group in best.groups:
            [name, *others] = group.turns
            is_alone = self._is_alone(self._statements[name])
            group.is_proved = is_closed or bool(others) or is_alone
        self._note_single(best.groups)
        return [
            replace(group, turns=in_order(group.turns, self._statements, self._sessions))
            for group in best.groups
        ]

    def _is_in_all(self, name: str, calls: float, groups: Sequence[StatementGroup]) -> bool:
        """Return whether the number of transactions shows that a group has a statement each time.

        A group that is as rare as the tolerance would not be missed. And in a group that does not
        have the statement, but was seen with it, the statement would change no number.
        """
        known = self._neighbours[name]
        return calls > 2 * self._tolerance and all(
            name in group.turns or not known & group.turns.keys() for group in groups
        )

    def _is_closed(self, groups: Sequence[StatementGroup]) -> bool:
        """Return whether groups have as many transactions as the server counted."""
        return abs(sum(g.calls for g in groups) - self._transactions) <= self._tolerance

    def _explained(self, *, is_strict: bool) -> _Explanation:
        """Return groups for all calls.

        Args: is_strict, with what sessions and calls prove; otherwise also with what is proved if
        the groups explain the server's transactions.
        """
        explained = _Explanation(
            {name: float(item.calls) for name, item in self._statements.items()},
            {name: np.array(item.series, dtype=float) for name, item in self._statements.items()},
        )
        while open_ := [item for item in self._statements.values() if explained.left[item.id] > 0]:
            first = min(open_, key=lambda item: (explained.left[item.id], item.id))
            members: dict[str, bool] = {first.id: True}
            if not self._is_alone(first):
                self._join(explained, members, is_strict=is_strict)
            self._take(explained, members)
        explained.groups = self._with_repeated(self._with_loops(explained.groups))
        return explained

    def _take(self, explained: _Explanation, members: Mapping[str, bool]) -> None:
        """Make a group of these, the rarest first. Args: members, whether each one is proved."""
        first = next(iter(members))
        calls, own = explained.left[first], explained.series[first]
        for name in members:
            rest = explained.left[name] - calls
            explained.left[name] = rest if rest > slack(self._statements[name].calls) else 0.0
            if len(explained.series[name]) == len(own):
                explained.series[name] = np.maximum(explained.series[name] - own, 0.0)
        inside = any(self._is_usually_inside(self._statements[name]) for name in members)
        role = self._statements[first].role
        group = StatementGroup(role, calls, dict.fromkeys(members, 1.0), len(members) > 1 or inside)
        explained.groups.append(group)
        explained.tentative += [(name, calls) for name, is_sure in members.items() if not is_sure]

    def _join(
        self,
        explained: _Explanation,
        members: dict[str, bool],
        *,
        is_strict: bool,
    ) -> None:
        """Add the statements that are in all transactions of a kind.

        `whole`: those of which nothing else is left, so what was seen with them is of this kind.
        """
        [first] = members
        calls, whole = explained.left[first], [first]
        near: set[str] = set()
        latest = first
        while True:
            near |= self._neighbours[latest]
            joining = [
                (
                    self._certainty(explained, other, whole, members),
                    -abs(explained.left[other.id] - calls),
                    other.id,
                )
                for other in (self._statements[name] for name in near.difference(members))
                if explained.left[other.id] > 0
                and self._is_enough(explained, other, self._statements[first])
            ]
            certainty, _, latest = max(joining, default=(0, 0.0, ""))
            if certainty <= int(is_strict):
                return
            members[latest] = certainty > 1
            if explained.left[latest] <= calls + slack(self._statements[latest].calls):
                whole.append(latest)

    def _is_enough(self, explained: _Explanation, other: CallSeries, first: CallSeries) -> bool:
        """Return whether a statement has calls for all transactions of another one."""
        least = explained.left[first.id] - slack(explained.left[first.id])
        return (
            other.role == first.role
            and explained.left[other.id] >= least
            and is_at_least(explained.series[other.id], explained.series[first.id])
        )

    def _certainty(
        self,
        explained: _Explanation,
        other: CallSeries,
        whole: Sequence[str],
        members: Collection[str],
    ) -> int:
        """Return how certain it is that a statement is in all transactions of others.

        0: nothing shows it. 1: it is if the groups explain the server's transactions. 2: by a sum.
        3: by equal calls.
        """
        pairs = [frozenset((other.id, name)) for name in members]
        seen = sum(self._together.get(pair, 0) for pair in pairs)
        if not seen:
            return 0
        if any(
            is_no_chance(explained.series[name], explained.series[other.id]) for name in members
        ):
            return 3
        if any(other.id in self._sums.get(name, ()) for name in members):
            return 2
        # If the first one was seen with a third one, which was never seen with this one, each may
        # be in a part of its transactions.
        partners = self._neighbours[whole[0]] - {other.id}
        is_one_kind = partners <= self._neighbours[other.id] | set(members)
        return int(is_one_kind and seen >= _SEEN_MIN)

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

    def _with_loops(self, groups: Sequence[StatementGroup]) -> list[StatementGroup]:
        """Return groups; one that sessions showed again and again in one other is its loop."""
        kept = list(groups)
        while moves := self._moves(kept):
            number, home = moves[0]
            part, whole = kept[number], kept[home]
            for name, turns in part.turns.items():
                more = turns * part.calls / whole.calls
                whole.turns[name] = whole.turns.get(name, 0.0) + more
            whole.is_block = True
            del kept[number]
        return kept

    def _moves(self, groups: Sequence[StatementGroup]) -> list[tuple[int, int]]:
        """Return which groups are loops of which others."""
        counts = [len(group.turns) for group in groups]
        several = {name for group in groups if len(group.turns) > 1 for name in group.turns}
        single = {
            name: number
            for number, group in enumerate(groups)
            if counts[number] == 1
            for name in group.turns
        }
        partners = [
            set[str]().union(*(self._neighbours[name] for name in group.turns)) - group.turns.keys()
            for group in groups
        ]
        homes: dict[int, int] = {}
        for number, group in enumerate(groups):
            known = partners[number] & several or partners[number]
            fitting = [
                home
                for home, other in enumerate(groups)
                if home != number and known and known <= other.turns.keys()
            ]
            if len(fitting) == 1 and self._is_loop(group, groups[fitting[0]]):
                homes[number] = fitting[0]
        # Other loops of the same transactions may have been seen with a loop.
        while wrong := [
            number
            for number, home in homes.items()
            for name in partners[number] - groups[home].turns.keys()
            if name not in single or homes.get(single[name]) != home
        ]:
            for number in wrong:
                homes.pop(number, None)
        return list(homes.items())

    def _is_loop(self, group: StatementGroup, home: StatementGroup) -> bool:
        """Return whether a group was never seen but in another one, and there again and again."""
        seen = sum(
            self._together.get(frozenset((name, other)), 0)
            for name in group.turns
            for other in home.turns
        )
        return (
            group.role == home.role
            and seen >= _SEEN_MIN
            and group.calls > _TURNS_MIN * home.calls
            and any(map(self._was_repeated, group.turns))
            and not any(map(self._was_alone, (*group.turns, *home.turns)))
        )

    def _with_repeated(self, groups: Sequence[StatementGroup]) -> list[StatementGroup]:
        """Return groups; one repeats in its transactions if that explains their number."""
        counts = Counter(name for group in groups for name in group.turns)
        loops = [
            number
            for number, group in enumerate(groups)
            if all(counts[name] == 1 for name in group.turns)
            and any(map(self._was_repeated, group.turns))
            and not any(map(self._was_alone, group.turns))
        ]
        excess = sum(group.calls for group in groups) - self._transactions
        for number in loops:
            group = groups[number]
            left = self._loop_calls(group, groups, excess, is_only=len(loops) == 1)
            if not slack(group.calls) < left < group.calls / _TURNS_MIN:
                continue
            turns = {name: count * group.calls / left for name, count in group.turns.items()}
            looping = replace(group, calls=left, turns=turns, is_block=True)
            others = [*groups[:number], looping, *groups[number + 1 :]]
            if self._is_closed(others):
                return others
        return list(groups)

    def _loop_calls(
        self,
        loop: StatementGroup,
        groups: Sequence[StatementGroup],
        excess: float,
        *,
        is_only: bool,
    ) -> float:
        """Return how many transactions a group has that repeats in each of them; 0: not known.

        The transactions that write are counted at once, and better than all. `is_only`: no other
        group may be the loop.
        """
        writing = [
            group for group in groups if any(self._statements[name].writes for name in group.turns)
        ]
        if self._writing and loop in writing:
            return self._writing - sum(group.calls for group in writing if group is not loop)
        return loop.calls - excess if is_only else 0.0

    def _was_repeated(self, name: str) -> bool:
        return bool(self._sessions.repeated[self._statements[name].query_id])

    def _was_alone(self, name: str) -> bool:
        """Return whether sessions showed a statement alone in more than one of ten looks."""
        return 10 * self._sessions.alone[self._statements[name].query_id] > self._looks_inside(name)

    def _note_single(self, groups: Sequence[StatementGroup]) -> None:
        """Take the block from a single statement that sessions showed alone.

        They showed it inside, too, where it is a part of another group.
        """
        several = {name for group in groups if len(group.turns) > 1 for name in group.turns}
        for group in groups:
            [name, *others] = group.turns
            if not others and name in several:
                group.is_block &= not self._sessions.alone[self._statements[name].query_id]
