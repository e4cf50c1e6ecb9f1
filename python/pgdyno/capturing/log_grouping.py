"""Transactions of a log by their kind: the same statements, with loops and optional steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pgdyno.capture.model import Protocol
from pgdyno.capturing.log_reading import Call
from pgdyno.capturing.log_statements import LoggedStatement
from pgdyno.capturing.log_transactions import Transaction
from pgdyno.capturing.utilities import reason_of_place, without_orphans

INSTANCES_MAX = 10_000
_LOOP_MAX = 8
# More kinds of transactions than this are not kept whole: the rarest are left out, and counted.
_KINDS_MAX = 2_000
# A step that some transactions do not have: looked for in templates of at least this length.
_OPTIONAL_IN = 4

StatementKey = tuple[str, str]
Kind = tuple[StatementKey, ...]


@dataclass(slots=True)
class Kept:
    """A transaction without its texts: for each step the calls, and its turns.

    `number`: its place among all transactions, in the order in which they ended.
    """

    began_us: int
    calls: list[list[Call]]
    number: int


@dataclass(slots=True)
class Group:
    """Transactions of the same steps. `present_count`: how many transactions have each step."""

    steps: Kind
    count: int = 0
    present_count: list[int] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    think_us: list[int] = field(default_factory=list)
    protocols: Counter[Protocol] = field(default_factory=Counter)
    members: set[int] = field(default_factory=set)
    """Steps that repeat together with the step before them."""

    def loops_with_before(self, number: int) -> bool:
        """Return whether a step repeats together with the one before it, in every transaction."""
        return number in self.members and all(
            len(kept.calls[number]) == len(kept.calls[number - 1]) for kept in self.kept
        )

    def is_in_loop(self, number: int) -> bool:
        """Return whether a step repeats together with the one before or after it."""
        is_first = number + 1 < len(self.steps) and self.loops_with_before(number + 1)
        return is_first or self.loops_with_before(number)


class Grouping:
    """Groups transactions in one pass; keeps at most 10,000 of a kind."""

    def __init__(self) -> None:
        self.groups: dict[Kind, Group] = {}
        self.statements: dict[StatementKey, LoggedStatement] = {}
        self.rare_count = 0
        self.count = 0
        # Calls and time (ms) of what cannot be sent where it is, by reason and text.
        self.left: dict[tuple[str, str], tuple[int, float]] = {}
        self.seconds: Counter[int] = Counter()
        self.busy_us: Counter[int] = Counter()

    def add(self, transaction: Transaction) -> None:
        """Count one transaction."""
        calls = list(self._sent(transaction.calls))
        second = transaction.ended_us // 1_000_000
        self.seconds[second] += 1
        self.count += 1
        self.busy_us[second] += sum(call.duration_us or 0 for call in calls)
        if not any(call.statement.parsed.kind not in _FRAMES for call in calls):
            return
        steps, turns, members = _without_loops(calls)
        for key, of_step in zip(steps, turns, strict=True):
            self.statements.setdefault(key, of_step[0].statement)
        group = self.groups.get(steps)
        if group is None:
            if len(self.groups) >= _KINDS_MAX:
                self.rare_count += 1
                return
            group = self.groups[steps] = Group(steps, present_count=[0] * len(steps))
        group.count += 1
        group.members |= members
        group.present_count = [count + 1 for count in group.present_count]
        group.protocols[calls[-1].protocol] += 1  # type: ignore[index]
        if transaction.think_us is not None and len(group.think_us) < INSTANCES_MAX:
            group.think_us.append(transaction.think_us)
        if len(group.kept) < INSTANCES_MAX:
            group.kept.append(Kept(calls[0].began_us, turns, self.count))

    def _sent(self, calls: Iterable[Call]) -> Iterator[Call]:
        """Yield the calls that can be sent again; count those that only lack their place."""
        known = [call for call in calls if not call.statement.parsed.reason]
        fitting = without_orphans([call.statement.parsed.text for call in known])
        for call, fits in zip(known, fitting, strict=True):
            if fits:
                yield call
                continue
            parsed = call.statement.parsed
            place = (reason_of_place(parsed.text), parsed.text)
            count, took_ms = self.left.get(place, (0, 0.0))
            self.left[place] = (count + 1, took_ms + (call.duration_us or 0) / 1000)

    def merged(self) -> list[Group]:
        """Return the groups, the most common first; a group that lacks one step joins another."""
        ordered = sorted(self.groups.values(), key=lambda group: -group.count)
        made: list[Group] = []
        for group in ordered:
            for larger in made:
                missing = _missing_step(group.steps, larger.steps)
                # What a step returns may decide what follows.
                if (
                    missing is not None
                    and not self.statements[larger.steps[missing]].parsed.outputs
                ):
                    _join(larger, group, missing)
                    break
            else:
                made.append(group)
        return made


_FRAMES = ("begin", "commit", "rollback")


def _key(call: Call) -> StatementKey:
    return call.session.user, call.statement.parsed.text


def _without_loops(calls: Sequence[Call]) -> tuple[Kind, list[list[Call]], set[int]]:
    """Return the steps, the calls of each, and which repeat together with the step before them."""
    keys = [_key(call) for call in calls]
    steps: list[StatementKey] = []
    turns: list[list[Call]] = []
    members: set[int] = set()
    at = 0
    while at < len(keys):
        length, count = _loop_at(keys, at)
        members |= {len(steps) + offset for offset in range(1, length) if count > 1}
        for offset in range(length):
            steps.append(keys[at + offset])
            turns.append([calls[at + offset + length * turn] for turn in range(count)])
        at += length * count
    return tuple(steps), turns, members


def _loop_at(keys: Sequence[StatementKey], at: int) -> tuple[int, int]:
    """Return the length of the sequence that repeats here, and how often it occurs."""
    best = (1, 1)
    for length in range(1, _LOOP_MAX + 1):
        block, count = keys[at : at + length], 1
        while keys[at + length * count : at + length * (count + 1)] == block:
            count += 1
        if count > 1 and length * count > best[0] * best[1]:
            best = (length, count)
    return best


def _missing_step(steps: Kind, larger: Kind) -> int | None:
    """Return which single step of `larger` is not in `steps`, if that is the only difference."""
    if len(larger) != len(steps) + 1 or len(larger) < _OPTIONAL_IN:
        return None
    at = next(
        (i for i, pair in enumerate(zip(steps, larger, strict=False)) if pair[0] != pair[1]), -1
    )
    if at <= 0 or steps[at:] != larger[at + 1 :]:
        return None
    return at


def _join(larger: Group, group: Group, missing: int) -> None:
    """Count the transactions of a group with those of another that has one step more."""
    larger.count += group.count
    larger.present_count = [
        count + (0 if step == missing else group.count)
        for step, count in enumerate(larger.present_count)
    ]
    larger.protocols += group.protocols
    larger.think_us += group.think_us
    room = INSTANCES_MAX - len(larger.kept)
    for kept in group.kept[: max(room, 0)]:
        calls = [*kept.calls[:missing], [], *kept.calls[missing:]]
        larger.kept.append(Kept(kept.began_us, calls, kept.number))
    larger.kept.sort(key=lambda kept: kept.began_us)
