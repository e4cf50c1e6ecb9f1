"""Which statements form a transaction: from numbers of calls, and from sessions that were seen.

The server counts its transactions. If each statement were a transaction, their number would be
that of all calls. So the difference says how many calls are inside transactions of others: the
excess. Statements join, with the best evidence first, until no excess is left.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import combinations

from pgdyno.capture.model import StatementKind
from pgdyno.capturing.counted import Sessions

# Two numbers of calls are equal if they differ by less than this: transactions in flight.
_TOLERANCE_CALLS = 3.0
_TOLERANCE_RATIO = 0.02
# The server counts transactions up to a second late. So an excess may be this much too small.
_ENOUGH_RATIO = 0.85
# Looks at each statement that are enough to order statements by their time.
_LOOKS_FOR_ORDER = 3
# Looks at two statements of an island that are enough to tell it from others.
_LOOKS_FOR_ISLAND = 10
# The least evidence that statements belong together: first strong one alone, then any. If strong
# evidence explains nearly all excess, weak evidence would join what is not together.
_LEAST_SCORES = (4.0, 0.0)
_UNEXPLAINED_RATIO_MAX = 0.1
# Sums of calls are compared for the most frequent statements, and in five intervals or more.
_SUMS_OF_MAX, _INTERVALS_FOR_SUM = 300, 5
_SUM_TOLERANCE_RATIO = 0.005
# A group with more turns than this is a loop.
_TURNS_MIN = 1.5
_KINDS: tuple[StatementKind, ...] = ("select", "update", "merge", "insert", "delete")

Related = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Counting:
    """One statement and how often it was called: in total, and in each interval.

    `level`: how many foreign keys lead from the table that it writes to one without: the rows of
    parents are written before those of their children. `ends_count`: how
    often a call ends its transaction itself; it fails in a block then.
    """

    id: str
    query_id: int
    role: str
    kind: StatementKind
    calls: float
    series: Sequence[int] = ()
    level: int = 0
    ends_count: int = 0


@dataclass(slots=True)
class Group:
    """The statements of one kind of transaction in their order, with the turns of each.

    `is_block`: they are between BEGIN and COMMIT.
    """

    role: str
    calls: float
    turns: dict[str, float] = field(default_factory=dict)
    is_block: bool = False


def grouped(
    statements: Sequence[Counting],
    sessions: Sessions,
    related: Related,
    *,
    transactions: float,
) -> list[Group]:
    """Return the kinds of transactions that explain all calls.

    Args: statements, without BEGIN and COMMIT; related, whether two statements use the same keys;
    transactions, how many the server counted.
    """
    for least_score in _LEAST_SCORES:
        grouping = _Grouping(statements, sessions, related, transactions, least_score)
        groups = list(grouping.groups())
        if grouping.is_explained:
            break
    groups = grouping.with_loops(groups)
    grouping.repeat_whole(groups)
    grouping.note_single(groups)
    return sorted(groups, key=lambda group: -group.calls)


class _Grouping:
    def __init__(
        self,
        statements: Sequence[Counting],
        sessions: Sessions,
        related: Related,
        transactions: float,
        least_score: float,
    ) -> None:
        self._statements = {item.id: item for item in statements}
        self._sessions = sessions
        self._related = related
        self._left = {item.id: float(item.calls) for item in statements}
        own_ends = sum(item.calls * item.ends_count for item in statements)
        self._excess = sum(self._left.values()) - max(transactions - own_ends, 0)
        self._enough = _UNEXPLAINED_RATIO_MAX * self._excess
        self._least_score = least_score
        self._summands = _summands(statements)
        self._islands = _islands(sessions, {item.query_id for item in statements})

    def groups(self) -> Iterator[Group]:
        """Yield the groups: the rarest statement that is left begins the next one."""
        while open_ := [item for item in self._statements.values() if self._left[item.id] > 0]:
            first = min(open_, key=lambda item: (self._left[item.id], item.id))
            calls = self._left[first.id]
            turns = {first.id: 1.0}
            if not self._is_alone(first):
                for other in self._candidates(first, open_):
                    if self._excess >= _ENOUGH_RATIO * calls - _TOLERANCE_CALLS:
                        turns[other.id] = 1.0
                        self._excess -= calls
            for name in turns:
                rest = self._left[name] - calls
                whole = self._statements[name].calls
                self._left[name] = rest if rest > _slack(whole) else 0.0
            inside = any(self._is_usually_inside(self._statements[name]) for name in turns)
            yield Group(first.role, calls, self._ordered(turns), len(turns) > 1 or inside)

    @property
    def is_explained(self) -> bool:
        """Whether nearly all calls inside of transactions have found theirs."""
        return self._excess <= self._enough

    def _looks_inside(self, item: Counting) -> int:
        return self._sessions.inside[item.query_id]

    def _is_usually_inside(self, item: Counting) -> bool:
        """Return whether most looks at a statement showed it in a transaction.

        A statement that is alone looks so, too, if it waits for a CPU after its transaction began.
        """
        return (
            not item.ends_count and self._looks_inside(item) > self._sessions.alone[item.query_id]
        )

    def _is_alone(self, item: Counting) -> bool:
        """Return whether sessions showed a statement outside a transaction, and hardly inside.

        A statement that was seen together with others is not, however often it is outside.
        """
        is_outside = self._sessions.alone[item.query_id] > 4 * self._looks_inside(item)
        return item.ends_count > 0 or (is_outside and item.query_id not in self._islands)

    def with_loops(self, groups: list[Group]) -> list[Group]:
        """Return the groups; calls that are left, and no transactions, are turns of a loop.

        A statement that is left alone belongs to the most frequent group that has it.
        """
        kept = []
        for group in groups:
            [name, *others] = group.turns
            homes = [
                home
                for home in groups
                if home is not group and name in home.turns and len(home.turns) > 1
            ]
            if others or not homes or self._excess < _ENOUGH_RATIO * group.calls:
                kept.append(group)
                continue
            home = max(homes, key=lambda home: home.calls)
            home.turns[name] += group.calls / home.calls
            self._excess -= group.calls
        return kept

    def repeat_whole(self, groups: Sequence[Group]) -> None:
        """Let the statements of one group repeat, if calls are still inside of transactions.

        Sessions showed each of its statements again in one transaction, and none is in others.
        """
        counts = Counter(name for group in groups for name in group.turns)
        for group in groups:
            ids = [self._statements[name].query_id for name in group.turns]
            is_own = all(counts[name] == 1 for name in group.turns)
            left = group.calls - self._excess
            if (
                is_own
                and all(self._sessions.repeated[query_id] for query_id in ids)
                and _slack(group.calls) < left < group.calls / _TURNS_MIN
            ):
                turns = group.calls / left
                group.turns = {name: count * turns for name, count in group.turns.items()}
                self._excess -= group.calls - left
                group.calls, group.is_block = left, True
                return

    def note_single(self, groups: Sequence[Group]) -> None:
        """Take the block from a single statement that sessions showed alone.

        They showed it inside, too, where it is a part of another group.
        """
        several = {name for group in groups if len(group.turns) > 1 for name in group.turns}
        for group in groups:
            [name, *others] = group.turns
            if not others and name in several:
                group.is_block &= not self._sessions.alone[self._statements[name].query_id]

    def _candidates(self, first: Counting, open_: Sequence[Counting]) -> list[Counting]:
        """Return the statements that may be in the transactions of `first`, the likeliest first."""
        calls = self._left[first.id]
        scored: list[tuple[float, float, str, Counting]] = []
        for other in open_:
            is_short = self._left[other.id] < calls - _slack(calls)
            if other.id == first.id or other.role != first.role or is_short:
                continue
            if self._are_apart(first, other):
                continue
            score = 0.0 if self._is_alone(other) else self._score(first, other)
            if score > 0 and score >= self._least_score:
                scored.append((-score, abs(self._left[other.id] - calls), other.id, other))
        return [other for *_, other in sorted(scored, key=lambda item: item[:3])]

    def _are_apart(self, first: Counting, other: Counting) -> bool:
        """Return whether two statements belong to different transactions.

        Both were seen in transactions, and these have no statement in common; or a third statement
        was called as often as both together.
        """
        if frozenset((first.id, other.id)) in self._summands:
            return True
        own, theirs = (self._islands.get(item.query_id) for item in (first, other))
        return own is not None and theirs is not None and own != theirs

    def _score(self, first: Counting, other: Counting) -> float:
        """Return the evidence: seen together, equal in every interval, the same keys."""
        pair = frozenset((first.query_id, other.query_id))
        score = 8.0 if self._sessions.together[pair] else 0.0
        score += 4.0 if _moves_together(first, other) else 0.0
        score += 1.0 if self._related(first.id, other.id) else 0.0
        is_inside = self._looks_inside(first) and self._looks_inside(other)
        return score + (1.0 if is_inside else 0.0)

    def _ordered(self, turns: Mapping[str, float]) -> dict[str, float]:
        """Return the statements in the order in which transactions had them.

        Two statements that were seen one after the other have this order; others that of their time
        since the start of the transaction. With too few looks: reads, then updates, then inserts,
        then deletes.
        """

        looks = [self._looks_inside(self._statements[name]) for name in turns]

        def place(name: str) -> tuple[float, int, int, str]:
            item = self._statements[name]
            after_s = self._sessions.usual_after_s(item.query_id)
            is_seen = after_s is not None and min(looks) >= _LOOKS_FOR_ORDER
            kind = _KINDS.index(item.kind) if item.kind in _KINDS else len(_KINDS)
            # Children are deleted before their parents.
            level = -item.level if item.kind == "delete" else item.level
            return (after_s if is_seen and after_s else 0.0, kind, level, name)

        by_time = sorted(turns, key=place)

        later = self._later(by_time)

        def after_count(name: str) -> int:
            """Return how many of the others come after a statement."""
            own = by_time.index(name)
            others = [(number, other) for number, other in enumerate(by_time) if other != name]
            return sum(
                other in later[name] or (own < number and name not in later[other])
                for number, other in others
            )

        return {name: turns[name] for name in sorted(by_time, key=after_count, reverse=True)}

    def _later(self, names: Sequence[str]) -> dict[str, set[str]]:
        """Return which statements were seen after each one, or after one that was."""
        ids = {name: self._statements[name].query_id for name in names}
        in_order = self._sessions.in_order
        later = {
            name: {
                other
                for other in names
                # Of a statement with several turns some come before.
                if in_order[ids[name], ids[other]] > 2 * in_order[ids[other], ids[name]]
            }
            for name in names
        }
        for between in names:
            for name in names:
                if between in later[name]:
                    later[name] |= later[between] - {name}
        return later


def _islands(sessions: Sessions, known: AbstractSet[int]) -> dict[int, int]:
    """Return the number of the island of each statement that was seen together with others.

    Statements of one island were seen together, directly or through others. If an island was seen
    seldom, it does not count: more looks might join it to another one. BEGIN and COMMIT, which all
    transactions have, are not in `known`.
    """
    together = {pair: count for pair, count in sessions.together.items() if pair <= known}
    island = {query_id: query_id for pair in together for query_id in pair}

    def root(query_id: int) -> int:
        while island[query_id] != query_id:
            query_id = island[query_id]
        return query_id

    seen: Counter[int] = Counter()
    for pair, count in together.items():
        first, *others = (root(query_id) for query_id in pair)
        for other in others:
            island[other] = first
        seen[min(pair)] += count
    looks: Counter[int] = Counter()
    for query_id, count in seen.items():
        looks[root(query_id)] += count
    return {q: root(q) for q in island if looks[root(q)] >= _LOOKS_FOR_ISLAND}


def _summands(statements: Sequence[Counting]) -> set[frozenset[str]]:
    """Return the pairs whose calls have the calls of a third statement as their sum.

    In every interval: a transaction with both would call the third one only once. A pair of which
    one has a multiple of the other's calls may be in one transaction with a loop.
    """
    known = sorted(statements, key=lambda item: item.calls)[-_SUMS_OF_MAX:]
    totals = [item.calls for item in known]
    pairs = set()
    for first, other in combinations(known, 2):
        total = first.calls + other.calls
        begin = bisect_left(totals, total - _sum_slack(total))
        end = bisect_right(totals, total + _sum_slack(total))
        for whole in known[begin:end]:
            if _is_sum(first, other, whole) and not _is_multiple(first, other):
                pairs.add(frozenset((first.id, other.id)))
    return pairs


def _is_sum(first: Counting, other: Counting, whole: Counting) -> bool:
    lengths = {len(item.series) for item in (first, other, whole)}
    if len(lengths) > 1 or min(lengths) < _INTERVALS_FOR_SUM or first.role != other.role:
        return False
    return whole.role == first.role and all(
        abs(a + b - both) <= _sum_slack(both)
        for a, b, both in zip(first.series, other.series, whole.series, strict=True)
    )


def _is_multiple(first: Counting, other: Counting) -> bool:
    turns = round(other.calls / first.calls)
    return all(
        abs(turns * a - b) <= _sum_slack(b) for a, b in zip(first.series, other.series, strict=True)
    )


def _sum_slack(calls: float) -> float:
    return _TOLERANCE_CALLS + calls * _SUM_TOLERANCE_RATIO


def _moves_together(first: Counting, other: Counting) -> bool:
    """Return whether two statements were called as often in every interval."""
    if not first.series or len(first.series) != len(other.series):
        return False
    return all(
        abs(theirs - ours) <= _slack(ours) + _TOLERANCE_CALLS
        for ours, theirs in zip(first.series, other.series, strict=True)
    )


def _slack(calls: float) -> float:
    return max(_TOLERANCE_CALLS, calls * _TOLERANCE_RATIO)
