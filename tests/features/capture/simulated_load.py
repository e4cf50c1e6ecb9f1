"""A simulated load whose transactions are known, as counters and looks at sessions show it.

Clients carry out jobs one after the other. Statements take random times, and now and then the whole
machine stands still, as a busy one does. Counters are read at snapshots, some of which are missing;
sessions report their transactions up to a second late; and looks see what each session does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pgdyno.features.capture.observed import StatementKind
from pgdyno.features.capture.reading.call_series import CallSeries
from pgdyno.features.capture.reading.counted import Sessions
from pgdyno.features.capture.reading.grouping import StatementGroup, grouped

BEGIN, COMMIT = 998, 999
_ROUND_TRIP_S = 0.0002


@dataclass(frozen=True)
class Kind:
    """A kind of transaction: its statements, each with the least and the largest number of turns.

    A statement with 0 to 1 turns is sent in half of the transactions.
    """

    steps: tuple[tuple[str, int, int], ...]
    is_block: bool = True


def block(*names: str, **turns: tuple[int, int]) -> Kind:
    """Return a transaction between BEGIN and COMMIT; those in `turns` have a number of turns."""
    once = tuple((name, 1, 1) for name in names)
    return Kind(once + tuple((name, *ends) for name, ends in turns.items()))


def single(name: str) -> Kind:
    """Return a statement that is a transaction."""
    return Kind(((name, 1, 1),), is_block=False)


@dataclass(frozen=True)
class Mix:
    """Jobs and how often each is drawn. A job is one or more transactions in this order.

    `is_deck`: each client takes jobs from a shuffled deck, so their numbers are nearly fixed.
    """

    jobs: tuple[tuple[int, tuple[Kind, ...]], ...]
    is_deck: bool = False

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Return all kinds of transactions."""
        return tuple(kind for _, job in self.jobs for kind in job)


@dataclass(frozen=True)
class Conditions:
    """How a load runs, and how well it can be seen. Times in seconds."""

    seconds: float = 60.0
    clients: int = 4
    statement_s: float = 0.004
    snapshot_s: float = 1.0
    look_s: float = 0.1
    stall_ratio: float = 0.05
    lost_ratio: float = 0.0
    sees_ids: bool = True


@dataclass
class Load:
    """What happened: calls by statement and time of end, and transactions by their statements."""

    mix: Mix
    conditions: Conditions
    ends_s: dict[str, list[float]] = field(default_factory=dict)
    transactions: Counter[tuple[Kind, frozenset[str]]] = field(default_factory=Counter)
    commits_s: list[list[float]] = field(default_factory=list)
    writes_s: list[float] = field(default_factory=list)
    # Of each client: start, statement, start of the transaction ("idle": none), end of statement.
    looks: list[list[tuple[float, int, float | None, float]]] = field(default_factory=list)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Return the query id of each statement."""
        names = sorted({name for kind in self.mix.kinds for name, _, _ in kind.steps})
        return {name: number for number, name in enumerate(names, 1)}


def kind_of(name: str) -> StatementKind:
    """Return what a statement does, by its first word."""
    kinds: dict[str, StatementKind] = {"get": "select", "add": "insert", "remove": "delete"}
    return kinds.get(name.split("_")[0], "update")


def run(mix: Mix, conditions: Conditions, seed: int) -> Load:
    """Return a load that runs for a while before the first and after the last snapshot."""
    load, generator = Load(mix, conditions), np.random.default_rng(seed)
    end_s = conditions.seconds + 1.5
    stalls = np.sort(generator.uniform(-1.5, end_s, size=int(conditions.seconds)))
    lasting_s = generator.exponential(conditions.stall_ratio, size=len(stalls))
    weights = np.array([weight for weight, _ in mix.jobs], dtype=float)
    deck = np.repeat(np.arange(len(mix.jobs)), weights.astype(int))
    for _ in range(conditions.clients):
        now, left = -1.5 + generator.uniform(0, 0.05), []
        seen: list[tuple[float, int, float | None, float]] = []
        commits: list[float] = []
        while now < end_s:
            if mix.is_deck:
                left = left or list(generator.permutation(deck))
                job = mix.jobs[left.pop()][1]
            else:
                job = mix.jobs[generator.choice(len(weights), p=weights / weights.sum())][1]
            for kind in job:
                began = now
                names = [
                    name
                    for name, least, most in kind.steps
                    for _ in range(int(generator.integers(least, most + 1)))
                ]
                if kind.is_block:
                    seen.append((now, BEGIN, began, now + _ROUND_TRIP_S))
                    now += _ROUND_TRIP_S
                for name in names:
                    ended = now + generator.exponential(conditions.statement_s)
                    place = bisect_right(stalls, now)
                    if place < len(stalls) and stalls[place] < ended:
                        ended += lasting_s[place]
                    seen.append((now, load.ids[name], began, ended))
                    load.ends_s.setdefault(name, []).append(ended)
                    now = ended + _ROUND_TRIP_S / 2
                if kind.is_block:
                    seen.append((now, COMMIT, began, now + _ROUND_TRIP_S))
                    now += _ROUND_TRIP_S
                seen.append((now, seen[-1][1], None, now))
                now += _ROUND_TRIP_S / 2
                commits.append(now)
                if any(kind_of(name) != "select" for name in names):
                    load.writes_s.append(now)
                if 0 <= now < conditions.seconds:
                    load.transactions[kind, frozenset(names)] += 1
        load.looks.append(seen)
        load.commits_s.append(commits)
    return load


def groups_of(load: Load, seed: int) -> tuple[list[StatementGroup], list[CallSeries]]:
    """Return the transactions that counters and looks show, and the counters."""
    conditions, generator = load.conditions, np.random.default_rng(seed + 1_000_000)
    ends_s = np.arange(0, conditions.seconds + 1e-9, conditions.snapshot_s)
    is_kept = generator.uniform(size=len(ends_s)) >= conditions.lost_ratio
    is_kept[0] = is_kept[-1] = True
    ends_s = ends_s[is_kept] + generator.exponential(0.01, size=int(is_kept.sum()))
    statements = [
        CallSeries(
            id=name,
            query_id=load.ids[name],
            role="app",
            kind=kind_of(name),
            calls=sum(series),
            series=series,
        )
        for name, own in sorted(load.ends_s.items())
        if (series := _between(own, ends_s)) and sum(series)
    ]
    # Each session reports what it did until its last report, up to a second before.
    reported = sum(
        bisect_right(commits, ends_s[-1] - generator.uniform())
        - bisect_right(commits, ends_s[0] - generator.uniform())
        for commits in load.commits_s
    )
    groups = grouped(
        statements,
        _sessions(load, generator),
        transactions=float(reported),
        late=reported * min(0.25 / conditions.seconds, 0.1),
        writing=_between(load.writes_s, ends_s),
    )
    return groups, statements


def _between(times_s: Sequence[float], ends_s: np.ndarray) -> list[int]:
    counts = np.searchsorted(np.sort(times_s), ends_s)
    return [int(count) for count in np.diff(counts)]


def _sessions(load: Load, generator: np.random.Generator) -> Sessions:
    sessions, conditions = Sessions(), load.conditions
    if not conditions.sees_ids:
        return sessions
    starts = [[start for start, *_ in seen] for seen in load.looks]
    now = 0.0
    while now < conditions.seconds:
        for number in range(3):
            rows = [
                _row(pid, now, seen[bisect_right(own, now) - 1])
                for pid, (own, seen) in enumerate(zip(starts, load.looks, strict=True))
            ]
            (sessions.add if number == 0 else sessions.follow)(rows)
            now += generator.exponential(0.002)
        now += generator.exponential(conditions.look_s)
    return sessions


def _row(
    pid: int,
    now: float,
    seen: tuple[float, int, float | None, float],
) -> tuple[object, ...]:
    start, query_id, began, ended = seen
    if began is None:
        return (pid, "app", "idle", None, query_id, "", now - start, start, None)
    # One of ten single statements waits for a core after its transaction began.
    after_s = start - began + (0.0002 if int(1e6 * start) % 10 == 0 else 0.00001)
    state = "active" if now < ended else "idle in transaction"
    return (pid, "app", state, began, query_id, "", 0.0, start, after_s)


def wrong(load: Load, groups: Sequence[StatementGroup]) -> list[str]:
    """Return which groups of statements are no transactions of the load, or too many of them.

    A group may be one turn of a loop.
    """
    problems: list[str] = []
    for group in groups:
        names = frozenset(group.turns)
        if len(names) == 1 and max(group.turns.values()) == 1:
            continue
        most = 0.0
        for kind in dict.fromkeys(load.mix.kinds):
            turns = {name: largest for name, _, largest in kind.steps}
            if not names <= turns.keys():
                continue
            repeats = max(1.0, min(turns[name] / group.turns[name] for name in names))
            always = {name for name in names if turns[name] == 1 and group.turns[name] > 0.95}
            most += repeats * sum(
                count
                for (known, present), count in load.transactions.items()
                if known == kind and always <= present
            )
        if group.calls > 1.1 * most + 3 * load.conditions.clients:
            problems.append(f"{sorted(names)}: {group.calls:.0f} times, in fact {most:.0f}")
    return problems


def joined_share(groups: Sequence[StatementGroup], calls: Mapping[str, float]) -> float:
    """Return the share of calls that are in a transaction with others."""
    inside = sum(g.calls * sum(g.turns.values()) for g in groups if g.is_block and len(g.turns) > 1)
    return inside / sum(calls.values())
