"""Values that a program keeps in its memory from one transaction of a session to a later one.

Such as the key and the version of a row that it changes again, or the last key of the page that it
has read. A log shows them: a parameter has the value that an earlier transaction of the session
sent, or a new one that no earlier transaction sent, but an INSERT of the session has returned.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pgdyno.features.capture.model import (
    Between,
    Constant,
    Drawn,
    Equal,
    Giver,
    Linear,
    OfColumn,
    Recalled,
    Source,
    Step,
    Taken,
    Template,
)
from pgdyno.features.capture.reading.key_families import KeyFamilies
from pgdyno.features.capture.reading.key_sources import Place
from pgdyno.features.capture.reading.log_calls import Value
from pgdyno.features.capture.reading.log_grouping import StatementKey, TransactionGroup
from pgdyno.features.capture.reading.log_statements import LoggedStatement
from pgdyno.features.capture.reading.observed import number_of
from pgdyno.features.capture.reading.parsed import Parsed

# The engine remembers eight transactions; a value of more than four ago is hardly in a memory.
_REMEMBERED, _BACK_MAX = 8, 4
_ASKED = ("equal", "range")
_USES = (*_ASKED, "insert", "set")
_INSTANCES_MIN = 10
# A place gives values if at least this share comes from it.
_GIVES = 0.05
# Values are recalled if it is at least this share, and this much more than by chance.
_RECALLED, _ABOVE_CHANCE = 0.5, 0.25
# A statement that writes the value counts as this number of parameters.
_WRITES = 100
# If it is this share, what a value seems to follow from in its transaction is by chance.
_CERTAIN = 0.9
# If this share of the values was made by one INSERT, and each is used once, they are taken.
_MADE = 0.8
# The most calls that are looked at.
_CALLS_MAX = 300_000

# The parameter of a kind of transaction: the place of the kind, the step, and its place there.
Position = tuple[int, int, int]
# A statement, and its parameter or (negative, -1 is the first) its returned column.
_Giver = tuple[StatementKey, int]
# A transaction of a session: the value of each place, in the order of the steps; None: not known.
_Entry = dict[_Giver, str | None]


@dataclass(slots=True)
class _Step:
    """The columns of the parameters of a step, with their families; the keys that it returns.

    `asked`: parameters that decide which rows there are. `changed`: pairs of a parameter that is
    written into a column, and one that is compared with it. `lists`: families of elements.
    """

    sent: dict[int, tuple[Place, Place]]
    lists: dict[int, Place]
    returned: dict[int, Place]
    asked: set[int]
    changed: list[tuple[int, int]]

    @property
    def families(self) -> dict[int, Place]:
        """Return the family of each parameter."""
        return self.lists | {at: family for at, (_, family) in self.sent.items()}


@dataclass(slots=True)
class _Seen:
    """What was seen of one parameter. `places`: those that had its value, and those that had it in
    the nearest transaction. `back`: for places that give values, how many of their transactions
    ago. `makers`: the places of INSERTs, in any session, that had its values first; each value
    counts once.
    """

    values: Counter[str] = field(default_factory=Counter)
    places: tuple[Counter[frozenset[_Giver]], ...] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    back: dict[frozenset[_Giver], Counter[int]] = field(default_factory=dict)
    makers: Counter[_Giver] = field(default_factory=Counter)

    @property
    def by_chance(self) -> float:
        """Return how often one of the last values is the same by chance."""
        total = self.values.total()
        same = sum((count / total) ** 2 for count in self.values.values())
        return 1 - (1 - same) ** _BACK_MAX

    def choose(self, rank: Mapping[StatementKey, int]) -> None:
        """Choose the places that may give values, at most one of a statement.

        Args: rank, of statements: of two that had as many values, the one with the higher rank.
        """
        least = max(_GIVES * self.values.total(), 1)
        for left in self.places:
            chosen: dict[StatementKey, _Giver] = {}
            while left:
                had: Counter[_Giver] = Counter()
                for places, count in left.items():
                    had.update({place: count for place in places if place[0] not in chosen})
                if not had or max(had.values()) < least:
                    break
                best = max(had, key=lambda own: (had[own] // least, rank[own[0]], had[own]))
                chosen[best[0]] = best
                left = Counter({places: n for places, n in left.items() if best not in places})
            if chosen:
                self.back[frozenset(chosen.values())] = Counter()

    @property
    def shares(self) -> dict[frozenset[_Giver], list[float]]:
        """Return how many values come from the last transaction of places that give them, the one
        before it, and so on; of the places from which more come from later ones, only.
        """
        total, made = self.values.total(), {}
        for givers, back in self.back.items():
            ago = range(1 + max((number for number in back if number < _BACK_MAX), default=0))
            made[givers] = [round(back[number] / total, 3) for number in ago]
        # Those that several parameters of the transaction have come first.
        best = max(made, key=lambda own: round(10 * made[own][0]), default=None)
        return {} if best is None else {best: made[best]}


class Memories:
    """Looks at the transactions of a log for values that sessions keep."""

    def __init__(
        self,
        groups: Sequence[TransactionGroup],
        statements: Mapping[StatementKey, LoggedStatement],
        families: KeyFamilies,
    ) -> None:
        self._groups, self._families = groups, families
        parsed = {key: statements[key].parsed for group in groups for key in group.steps}
        self._kinds = {key: own.kind for key, own in parsed.items()}
        self._writes = {key for key, own in parsed.items() if own.kind != "select"}
        made = {key: self._step(own) for key, own in parsed.items()}
        self._steps = [[made[key] for key in group.steps] for group in groups]
        self._added: dict[tuple[int, int, int, int], Counter[float]] = defaultdict(Counter)
        self._seen: dict[Position, _Seen] = defaultdict(_Seen)
        self._is_chosen = False
        self._follow()
        # Key and version of a row come from one statement, if one had both.
        ranks: dict[int, Counter[StatementKey]] = defaultdict(Counter)
        for position, seen in self._seen.items():
            keys = {key for own in seen.places[0] for key, _ in own}
            ranks[position[0]].update({key: 1 + _WRITES * (key in self._writes) for key in keys})
        for position, seen in self._seen.items():
            if seen.values.total() >= _INSTANCES_MIN:
                seen.choose(ranks[position[0]])
        self._is_chosen = True
        self._follow()

    @cached_property
    def _recalled(self) -> dict[Position, tuple[frozenset[_Giver], list[float]]]:
        """Return the places that give the values of the parameters that are recalled, with the
        shares of their last transactions.

        If one parameter of a step is recalled, the others come from the same transactions.
        """
        made, certain = {}, set()
        for position, seen in self._seen.items():
            for givers, own in seen.shares.items():
                if sum(own) < _RECALLED:
                    continue
                made[position] = (givers, own)
                # Values that are only asked for are asked for again by chance, or find nothing.
                is_known = bool(self._writes & {key for key, _ in givers})
                if is_known and sum(own) >= seen.by_chance + _ABOVE_CHANCE:
                    certain.add(position[:2])
        return {position: own for position, own in made.items() if position[:2] in certain}

    def sources(self, step: Step, kind: int, number: int, ids: Mapping[StatementKey, str]) -> Step:
        """Return a step with the values that sessions keep. Args: number, of the step."""
        sources, own = list(step.parameters), self._steps[kind][number]
        known = {at for at in own.asked if (kind, number, at) in self._recalled}
        free = {at for at in own.sent if self._is_free(sources[at], (kind, number, at))}
        for at in sorted(free & known):
            source, (table, column) = sources[at], own.sent[at][0]
            given = source.given if isinstance(source, OfColumn) else ()
            # Other columns of its row would be those of another one.
            if ({other.parameter for other in given if other.step == number} & free) - known:
                continue
            if given or not isinstance(source, Constant | Drawn | OfColumn):
                source = OfColumn(table=table, column=column)
            places, shares = self._recalled[kind, number, at]
            givers = tuple(_giver(ids[key], place) for key, place in sorted(places))
            sources[at] = Recalled(givers=givers, shares=tuple(shares), otherwise=source)
            if (once := self._ended(kind, number, at, places)) is not None:
                sources[at] = Taken(statement=ids[once[0]], parameter=once[1])
        statement = self._groups[kind].steps[number]
        asked = own.asked if self._kinds[statement] in ("update", "delete") else set()
        for at in free & asked - known:
            # Who ends a job has its key from the one who has made it, in whatever session.
            seen = self._seen[kind, number, at]
            for (key, place), count in seen.makers.most_common(1):
                if count >= max(_MADE * seen.values.total(), _INSTANCES_MIN):
                    sources[at] = Taken(**_giver(ids[key], place).model_dump())
        for at, other in own.changed:
            # The version after a change follows from the one before it.
            added = self._added[kind, number, at, other]
            for most, count in added.most_common(1):
                if isinstance(sources[other], Recalled) and count >= _CERTAIN * added.total():
                    sources[at] = Linear(step=number, parameter=other, slope=1, offset=most)
        return step.model_copy(update={"parameters": tuple(sources)})

    def _ended(self, kind: int, number: int, at: int, places: Iterable[_Giver]) -> _Giver | None:
        """Return the change after which a DELETE ends a row, each row once."""
        statement = self._groups[kind].steps[number]
        values = self._seen[kind, number, at].values
        if self._kinds[statement] != "delete" or max(values.values()) > 1:
            return None
        changes = (own for own in places if self._kinds[own[0]] == "update" and own[1] >= 0)
        return next(changes, None)

    def _is_free(self, source: Source, position: Position) -> bool:
        """Return whether a value follows from nothing in its transaction, or only by chance: from
        a value of another column, while the session has it already.
        """
        kind, step, at = position
        known = self._recalled.get(position)
        is_certain = known is not None and known[1][0] >= _CERTAIN
        if isinstance(source, Constant):
            # The version of a row, in a transaction that always comes at the same place.
            return is_certain and any(at == own for _, own in self._steps[kind][step].changed)
        if isinstance(source, Equal | Linear | Between):
            own, other = (self._steps[kind][number].sent for number in (step, source.step))
            place = source.parameter or 0
            is_same = at not in own or place not in other or own[at][1] == other[place][1]
            # The version before a change does not follow from the one after it.
            is_same &= source.step != step or (place, at) not in self._steps[kind][step].changed
            return is_certain and not is_same
        return isinstance(source, Drawn) or (isinstance(source, OfColumn) and not source.kept)

    def _step(self, parsed: Parsed) -> _Step:
        uses = {} if parsed.copies else {n - 1: use for n, use in parsed.parameters.items()}
        uses = {at: use for at, use in uses.items() if use.table}
        lists = {
            at: self._family((use.table, use.column))
            for at, use in uses.items()
            if use.use == "list"
        }
        uses = {at: use for at, use in uses.items() if use.use in _USES}
        places = {at: (use.table, use.column) for at, use in uses.items()}
        sent = {at: (place, self._family(place)) for at, place in places.items()}
        asked = {
            at
            for at, place in places.items()
            if uses[at].use in _ASKED or self._families.family_of_key(place)
        }
        changed = [
            (at, other)
            for at, other in itertools.permutations(places, 2)
            if places[at] == places[other] and (uses[at].use, uses[other].use) == ("set", "equal")
        ]
        # A log shows the key of a new row later, when it is used for the first time.
        outputs = enumerate(parsed.outputs if parsed.kind == "insert" else ())
        returned = {-1 - at: self._family(place) for at, place in outputs if place[0]}
        families = {family for _, family in sent.values()}
        returned = {at: family for at, family in returned.items() if family not in families}
        return _Step(sent, lists, returned, asked, changed)

    def _family(self, place: Place) -> Place:
        return self._families.family_of_key(place) or place

    def _transactions(self) -> Iterator[tuple[int, int]]:
        """Yield kind and number of each transaction that is kept, in the order of their ends."""
        ordered = [
            (kept.number, kind, number)
            for kind, group in enumerate(self._groups)
            for number, kept in enumerate(group.kept)
        ]
        left = _CALLS_MAX
        for _, kind, number in sorted(ordered):
            left -= len(self._groups[kind].steps)
            if left < 0:
                return
            yield kind, number

    def _follow(self) -> None:
        """Go through the transactions: note what gave values or, if that is known, how long ago."""
        memory: dict[tuple[str, Place], deque[_Entry]] = defaultdict(
            lambda: deque(maxlen=_REMEMBERED)
        )
        known: dict[tuple[Place, str], _Giver] = {}
        for kind, number in self._transactions():
            group = self._groups[kind]
            kept = group.kept[number]
            new: dict[Place, _Entry] = defaultdict(dict)
            for step, call in kept.calls(range(len(group.steps))):
                own, values = self._steps[kind][step], call.values
                for at, family in own.families.items():
                    value = values[at] if at < len(values) else None
                    _name(new[family], value, family, known)
                for at, (_, family) in own.sent.items():
                    value = values[at] if at < len(values) else None
                    if not isinstance(value, str):
                        continue
                    if at in own.asked:
                        entries = memory[kept.session.id, family]
                        self._note((kind, step, at), value, entries, known.get((family, value)))
                    giver = group.steps[step], at
                    new[family].pop(giver, None)
                    new[family][giver] = value
                for at, family in own.returned.items():
                    new[family][group.steps[step], at] = None
                for at, other in own.changed if not self._is_chosen else ():
                    added = _number(values, at) - _number(values, other)
                    self._added[kind, step, at, other][added] += 1
            for family, entry in new.items():
                memory[kept.session.id, family].appendleft(entry)
                for giver, value in entry.items():
                    if value is None:
                        continue
                    # A program may ask for a key before the INSERT that makes it.
                    is_made = self._kinds[giver[0]] == "insert"
                    before = known.get((family, value))
                    if before is None or (is_made and self._kinds[before[0]] != "insert"):
                        known[family, value] = giver

    def _note(
        self, position: Position, value: str, entries: Sequence[_Entry], maker: _Giver | None
    ) -> None:
        seen = self._seen[position]
        if maker is None and all(value not in entry.values() for entry in entries):
            # The key of a new row is the first value that nobody has sent before.
            newest = next((entry for entry in entries if None in entry.values()), {})
            newest.update({place: value for place, known in newest.items() if known is None})
        if not self._is_chosen:
            same = [[own for own in entry if entry[own] == value] for entry in entries]
            nearest = next((own for own in same if own), [])
            is_made = maker is not None and self._kinds[maker[0]] == "insert"
            if maker is not None and is_made and not seen.values[value]:
                seen.makers[maker] += 1
            seen.values[value] += 1
            for known, own in zip(seen.places, (itertools.chain(*same), nearest), strict=True):
                known[frozenset(own)] += 1
            return
        for givers, back in seen.back.items():
            # What a client remembers of a transaction is the last value of these places.
            given = [[entry[at] for at in entry if at in givers][-1:] for entry in entries]
            last = [values[0] for values in given if values]
            back[last.index(value) if value in last else _BACK_MAX] += 1


def _giver(statement: str, place: int) -> Giver:
    if place >= 0:
        return Giver(statement=statement, parameter=place)
    return Giver(statement=statement, column=-1 - place)


def _name(
    entry: _Entry, value: Value, family: Place, known: Mapping[tuple[Place, str], _Giver]
) -> None:
    """Give a key that an INSERT of the transaction returned the first value that is new."""
    place = next((place for place, own in entry.items() if own is None), None)
    items = value if isinstance(value, list) else [value]
    texts = (item for item in items if isinstance(item, str))
    new = next((t for t in texts if t not in entry.values() and (family, t) not in known), None)
    if place is not None and new is not None:
        entry[place] = new


def _number(values: Sequence[Value], at: int) -> float:
    number = number_of(values[at]) if at < len(values) else None
    return float("nan") if number is None else number


def with_recalled(
    templates: Sequence[Template], memories: Memories, ids: Mapping[StatementKey, str]
) -> list[Template]:
    """Return the templates of groups with the values that sessions keep."""
    made = []
    for kind, template in enumerate(templates):
        steps = [memories.sources(step, kind, at, ids) for at, step in enumerate(template.steps)]
        made.append(template.model_copy(update={"steps": tuple(steps)}))
    return made
