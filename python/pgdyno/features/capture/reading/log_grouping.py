"""Transactions of a log by their kind: the same statements, with loops."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from pgdyno.features.capture.observed import Protocol
from pgdyno.features.capture.reading.log_calls import (
    Call,
    LoggedSession,
    SessionPart,
    packed_calls,
    times_of,
)
from pgdyno.features.capture.reading.log_seconds import Seconds
from pgdyno.features.capture.reading.log_statements import LoggedStatement
from pgdyno.features.capture.reading.log_transactions import Transaction
from pgdyno.features.capture.reading.utilities import reason_of_place, without_orphans

INSTANCES_MAX = 10_000
# All transactions that are kept take at most this. If there are more, fewer of a kind are kept.
_KEPT_BYTES_MAX = 64 << 20
_KEPT_BYTES = 250
_LOOP_MAX = 8
# More kinds of transactions than this are not kept whole: the rarest are left out, and counted.
_KINDS_MAX = 2_000
# Texts of statements that are left out; others are counted without their text.
_LEFT_MAX = 2_000
# Between two statements the network and the client take time, too, and clients of a busy machine
# wait for a CPU: this is not a pause.
_PAUSE_MS_MIN = 3.0
_FRAMES = ("begin", "commit", "rollback")

StatementKey = tuple[str, str]
Kind = tuple[StatementKey, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which calls of a transaction are which step: for each step the places of its turns."""

    calls: Sequence[tuple[LoggedStatement, str]]
    turns: Sequence[Sequence[int]]


@dataclass(slots=True)
class Kept:
    """A transaction that is kept. `packed`: times and values of its calls.

    `number`: its place among all transactions, in the order in which they ended.
    """

    session: LoggedSession
    began_us: int
    ended_us: int
    number: int
    layout: Layout
    packed: bytes

    def count_of(self, step: int) -> int:
        """Return how many turns a step has."""
        return len(self.layout.turns[step])

    def calls_of(self, step: int) -> list[Call]:
        """Return the calls of a step."""
        return [call for _, call in self.calls((step,))]

    def calls(self, steps: Iterable[int]) -> Iterator[tuple[int, Call]]:
        """Yield the calls of some steps."""
        times, *values = self.packed.split(b"\t")
        known = times_of(times, self.began_us)
        for step in steps:
            for place in self.layout.turns[step]:
                call = Call(self.session, *known[place], *self.layout.calls[place], values[place])
                yield step, call

    def times(self) -> list[list[tuple[int, int | None]]]:
        """Return when the calls of each step began, and how long they took."""
        known = times_of(self.packed, self.began_us)
        return [[known[place] for place in turns] for turns in self.layout.turns]


@dataclass(slots=True)
class Timing:
    """Of the kept transactions: calls and time of each step, and the pauses before them."""

    calls: list[int]
    took_us: list[int]
    pause_ms: list[float]


@dataclass(slots=True)
class TransactionGroup:
    """Transactions of the same steps."""

    steps: Kind
    count: int = 0
    kept: list[Kept] = field(default_factory=list)
    think_us: array[int] = field(default_factory=lambda: array("q"))
    protocols: Counter[Protocol] = field(default_factory=Counter)
    members: set[int] = field(default_factory=set)
    """Steps that repeat together with the step before them."""
    _timing: Timing | None = None

    def loops_with_before(self, number: int) -> bool:
        """Return whether a step repeats together with the one before it, in every transaction."""
        return number in self.members and all(
            kept.count_of(number) == kept.count_of(number - 1) for kept in self.kept
        )

    def is_in_loop(self, number: int) -> bool:
        """Return whether a step repeats together with the one before or after it."""
        is_first = number + 1 < len(self.steps) and self.loops_with_before(number + 1)
        return is_first or self.loops_with_before(number)

    def timing(self) -> Timing:
        """Return the times of the transactions that are kept; no other is kept after it."""
        if self._timing is not None:
            return self._timing
        calls, took_us = [0] * len(self.steps), [0] * len(self.steps)
        gaps_ms: list[array[float]] = [array("d") for _ in self.steps]
        for kept in self.kept:
            before: tuple[int, int | None] | None = None
            for step, times in enumerate(kept.times()):
                calls[step] += len(times)
                took_us[step] += sum(took or 0 for _, took in times)
                if before is not None and times and before[1] is not None:
                    gaps_ms[step].append((times[0][0] - before[0] - before[1]) / 1000)
                before = times[-1] if times else before
        pauses = [round(mean_pause(gaps), 3) for gaps in gaps_ms]
        self._timing = Timing(calls, took_us, pauses)
        return self._timing


def mean_pause(gaps_ms: Sequence[float]) -> float:
    """Return the mean of pauses; 0 if most are no pauses."""
    is_usual = len(gaps_ms) > 0 and sorted(gaps_ms)[len(gaps_ms) // 2] >= _PAUSE_MS_MIN
    return fmean(gaps_ms) if is_usual else 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of parts of a session that are whole transactions of the same statements.

    `group`: None if they have no statement but BEGIN and COMMIT, or are of a rare kind.
    """

    is_block: bool
    group: TransactionGroup | None
    layout: Layout
    is_rare: bool
    protocol: str


class Grouping:
    """Groups transactions in one pass; keeps at most 10,000 of a kind, in bounded memory."""

    def __init__(self) -> None:
        self.groups: dict[Kind, TransactionGroup] = {}
        self.statements: dict[StatementKey, LoggedStatement] = {}
        self.rare_count = 0
        self.count = 0
        # Calls and time (ms) of what cannot be sent, or not where it is, by reason and text.
        self.left: dict[tuple[str, str], tuple[int, float]] = {}
        self.seconds = Seconds()
        self._kept_max, self._kept_bytes = INSTANCES_MAX, 0

    def add(self, transaction: Transaction) -> None:
        """Count one transaction."""
        calls = list(self._sent(transaction.calls))
        busy_us = sum(call.duration_us or 0 for call in calls)
        self._count(transaction.ended_us, busy_us)
        statements = [call.statement for call in calls]
        if not _has_effect(statements):
            return
        group, turns = self._group(transaction.session.user, statements)
        if group is None:
            self.rare_count += 1
            return
        self._note(group, calls[-1].protocol, transaction.think_us)
        if len(group.kept) < self._kept_max:
            layout = Layout([(call.statement, call.protocol) for call in calls], turns)
            packed = packed_calls(calls)
            times_us = (calls[0].began_us, transaction.ended_us)
            self._keep(group, transaction.session, times_us, layout, packed)

    def plan(self, part: SessionPart) -> Plan | None:
        """Return what becomes of parts with these statements if they are whole transactions.

        Returns: None if they are no whole transactions, or if `add` must look at each.
        """
        plans, user = part.pattern.plans, part.session.user
        if user not in plans:
            plans[user] = self._planned(part)
        made: Plan | None = plans[user]
        return made

    def _planned(self, part: SessionPart) -> Plan | None:
        items = part.pattern.items
        statements = [made for shape, _ in items if (made := shape.plain) is not None]
        if len(statements) < len(items):
            return None
        parsed = [statement.parsed for statement in statements]
        if any(p.reason or p.copies for p in parsed):
            return None
        is_block = len(parsed) > 1
        frames = [p.kind if p.kind in (*_FRAMES, "savepoint") else "" for p in parsed]
        if is_block and (frames[0], frames[-1]) not in (("begin", "commit"), ("begin", "rollback")):
            return None
        texts = [p.text for p in parsed]
        is_odd = any(frames[1:-1] if is_block else frames)
        is_error = any(protocol == "error" for _, protocol in items)
        if is_odd or is_error or not all(without_orphans(texts)):
            return None
        calls = [(statement, item[1]) for statement, item in zip(statements, items, strict=True)]
        if not _has_effect(statements):
            return Plan(is_block, None, Layout(calls, ()), is_rare=False, protocol="")
        group, turns = self._group(part.session.user, statements)
        return Plan(is_block, group, Layout(calls, turns), group is None, items[-1][1])

    def add_part(self, part: SessionPart, plan: Plan, think_us: int | None) -> None:
        """Count a part that is one transaction."""
        self._count(part.ended_us, part.busy_us)
        group, layout = plan.group, plan.layout
        if group is None:
            self.rare_count += plan.is_rare
            return
        self._note(group, plan.protocol, think_us)
        if len(group.kept) < self._kept_max:
            times_us = (part.began_us, part.ended_us)
            self._keep(group, part.session, times_us, layout, part.packed)

    def _count(self, ended_us: int, busy_us: int) -> None:
        self.count += 1
        self.seconds.add(ended_us, busy_us)

    def _group(
        self, user: str, statements: Sequence[LoggedStatement]
    ) -> tuple[TransactionGroup | None, list[list[int]]]:
        """Return the group of these statements, None if it is a rare one, and its turns."""
        keys = [(user, statement.parsed.text) for statement in statements]
        steps, turns, members = _without_loops(keys)
        group = self.groups.get(steps)
        if group is None and len(self.groups) < _KINDS_MAX:
            group = self.groups[steps] = TransactionGroup(steps)
            for key, statement in zip(keys, statements, strict=True):
                self.statements.setdefault(key, statement)
        if group is not None:
            group.members |= members
        return group, turns

    def _note(self, group: TransactionGroup, protocol: str, think_us: int | None) -> None:
        group.count += 1
        group.protocols[protocol] += 1  # type: ignore[index]
        if think_us is not None and len(group.think_us) < self._kept_max:
            group.think_us.append(think_us)

    def _keep(
        self,
        group: TransactionGroup,
        session: LoggedSession,
        times_us: tuple[int, int],
        layout: Layout,
        packed: bytes,
    ) -> None:
        group.kept.append(Kept(session, *times_us, self.count, layout, packed))
        self._kept_bytes += _KEPT_BYTES + len(packed)
        while self._kept_bytes > _KEPT_BYTES_MAX and self._kept_max > 1:
            self._kept_max //= 2
            for other in self.groups.values():
                del other.kept[self._kept_max :], other.think_us[self._kept_max :]
            kept = (len(k.packed) + _KEPT_BYTES for g in self.groups.values() for k in g.kept)
            self._kept_bytes = sum(kept)

    def _sent(self, calls: Iterable[Call]) -> Iterator[Call]:
        """Yield the calls that can be sent again; count those that only lack their place."""
        known = [call for call in calls if not call.statement.parsed.reason]
        texts = [call.statement.parsed.text for call in known]
        for call, fits in zip(known, without_orphans(texts), strict=True):
            if fits:
                yield call
            else:
                self.leave(reason_of_place(call.statement.parsed.text), call)

    def leave(self, reason: str, call: Call) -> None:
        """Count a call that cannot be sent again."""
        place = (reason, call.statement.parsed.text)
        if place not in self.left and len(self.left) >= _LEFT_MAX:
            place = (reason, "")
        count, took_ms = self.left.get(place, (0, 0.0))
        self.left[place] = (count + 1, took_ms + (call.duration_us or 0) / 1000)

    def ordered(self) -> list[TransactionGroup]:
        """Return the groups, the most common first."""
        counted = (group for group in self.groups.values() if group.count)
        return sorted(counted, key=lambda group: -group.count)


def _has_effect(statements: Iterable[LoggedStatement]) -> bool:
    return any(statement.parsed.kind not in _FRAMES for statement in statements)


def _without_loops(keys: Sequence[StatementKey]) -> tuple[Kind, list[list[int]], set[int]]:
    """Return the steps, the places of each, and which repeat together with the step before them."""
    steps: list[StatementKey] = []
    turns: list[list[int]] = []
    members: set[int] = set()
    at = 0
    while at < len(keys):
        length, count = _loop_at(keys, at)
        members |= {len(steps) + offset for offset in range(1, length) if count > 1}
        for offset in range(length):
            steps.append(keys[at + offset])
            turns.append([at + offset + length * turn for turn in range(count)])
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
