"""Writes every transaction of a log with its values, for a load that repeats them.

The engine reads the file: `crates/programs/mirror/src/program/recording.rs` has its format. Memory:
one entry for each key that the load made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from pgdyno.features.capture.arrays import items_in
from pgdyno.features.capture.load_statements import is_part_of_load
from pgdyno.features.capture.observed import Counters, Protocol, RecordedType, Recording, Statement
from pgdyno.features.capture.reading.key_families import KeyFamilies
from pgdyno.features.capture.reading.log_calls import Call, Value
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.reading.templates import name_of
from pgdyno.features.capture.reading.utilities import without_orphans
from pgdyno.features.capture.schema import ColumnShape
from pgdyno.store.files import PrivateLines

# The ends of the names: core.with-values.recording next to core.with-values.capture.
RECORDING_SUFFIX = ".recording"
# The server has cut a value that ends with these characters: log_parameter_max_length.
_CUT = "..."
# What cannot be sent with other values can be sent with its own ones.
EXACT = (
    *("catalog", "constants", "deep", "function_missing", "parameter", "refused", "session"),
    "session_lock",
)
_PLAIN_ARRAY = re.compile(r'\{[^"{}\\\s]+\}')
# If constants make more statements than this different, other ones are left out.
_STATEMENTS_MAX = 2_000
_KEY_USES = ("equal", "insert", "set")
# Keys that a session made and did not use yet; of more, the oldest are forgotten.
_WAITING_MAX = 1_000

Place = tuple[str, str]


def statement_id(role: str, text: str) -> str:
    """Return an id that is the same in every capture of the same text and role."""
    return hashlib.sha256(f"{role}\0{text}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class ResultPlace:
    """Where a key is in the first row of a result: each number counts from 0."""

    transaction_number: int
    call_number: int
    column_number: int


@dataclass(slots=True)
class _FamilyKeys:
    """The keys of one family of columns. `largest`: of those that are not new."""

    numbers: dict[str, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    largest: int = -1


class Recorder:
    """Writes transactions in the order in which they come; `end` completes the file."""

    def __init__(self, path: Path, columns: Sequence[ColumnShape]) -> None:
        """Create the file, which must not exist; only its owner can read it.

        Raises: StoreError if the file cannot be created.
        """
        self._path = path
        self._lines = PrivateLines(path)
        self._families = KeyFamilies(columns)
        self._numbers: dict[str, int] = {}
        self._statements: dict[str, Statement] = {}
        self._calls: dict[str, tuple[int, int]] = {}
        self._types: dict[tuple[str, Protocol], int] = {}
        self._used: dict[int, dict[int, None]] = defaultdict(dict)
        self._counts = Counter[int]()
        self._sessions: dict[int, int] = {}
        # Begin of the first and end of the last transaction of each session.
        self._spans: list[tuple[int, int]] = []
        self._keys: dict[Place, _FamilyKeys] = defaultdict(_FamilyKeys)
        self._waiting: dict[tuple[int, Place], list[ResultPlace]] = defaultdict(list)
        self._made: list[tuple[int, ...]] = []
        self._transaction_count = 0
        self._left_out_count = 0

    def add(self, calls: Sequence[Call]) -> None:
        """Write one transaction, unless the log lacks one of its values."""
        whole = [(call, *_sent_as(call)) for call in calls if self._can_be_repeated(call)]
        # The cursor of a DECLARE that is left out, such as one WITH HOLD, cannot be read.
        fits = without_orphans([text for _, text, _ in whole])
        whole = [item for item, is_there in zip(whole, fits, strict=True) if is_there]
        self._left_out_count += len(calls) - len(whole)
        if all(call.statement.parsed.kind in ("begin", "commit", "rollback") for call, *_ in whole):
            return
        if not all(_is_whole(value) for _, _, row in whole for value in row):
            self._left_out_count += len(whole)
            return
        calls = [call for call, _, _ in whole]
        session = self._session_of(calls)
        queued: dict[Place, list[ResultPlace]] = defaultdict(list)
        written = []
        used = []
        for number, (call, text, row) in enumerate(whole):
            parsed = call.statement.parsed
            sent = [
                self._sent(parsed, position, value, session, queued)
                for position, value in enumerate(row)
            ]
            used.append(self._number_of(call, text))
            written.append([used[-1], *sent])
            self._note_results(parsed, number, session, queued)
        kind = self._type_of(calls, used)
        self._lines.write(_text([kind, session, calls[0].began_us, written]))
        self._transaction_count += 1

    def discard(self) -> None:
        """Remove the file, which is not complete."""
        self._lines.discard()

    def end(self) -> Recording:
        """Complete the file, and return what it has.

        Raises: StoreError if the disk refuses the rest of the file.
        """
        if self._made:
            self._lines.write(_text({"made": self._made}))
        self._lines.write(_text({"sessions": self._spans}))
        self._lines.write(_text({"end": self._transaction_count}))
        self._lines.close()
        return Recording(
            file=self._path.name,
            transactions=self._transaction_count,
            sessions=len(self._sessions),
            sessions_at_once=_at_once(self._spans),
            keys=len(self._made),
            left_out_count=self._left_out_count,
            statements=tuple(self._numbers),
            types=tuple(
                RecordedType(
                    name=name,
                    protocol=protocol,
                    count=self._counts[number],
                    statements=tuple(self._used[number]),
                )
                for (name, protocol), number in self._types.items()
            ),
        )

    def statements_but(self, known: AbstractSet[str]) -> Iterator[Statement]:
        """Yield the statements of the recording, without those with known ids."""
        for name, own in self._statements.items():
            if name not in known:
                calls, time_us = self._calls[name]
                counters = Counters(calls=calls, time_ms=time_us / 1000)
                yield own.model_copy(update={"counters": counters})

    def _session_of(self, calls: Sequence[Call]) -> int:
        """Return the number of the session of a transaction, whose time it extends."""
        began_us = calls[0].began_us
        ended_us = max(call.began_us + (call.duration_us or 0) for call in calls)
        number = self._sessions.setdefault(calls[0].session.number, len(self._sessions))
        if number == len(self._spans):
            self._spans.append((began_us, ended_us))
        first_us, last_us = self._spans[number]
        self._spans[number] = min(first_us, began_us), max(last_us, ended_us)
        return number

    def _can_be_repeated(self, call: Call) -> bool:
        """Return whether a call can be sent again, with its own constants if it must be."""
        parsed = call.statement.parsed
        if parsed.copies or not parsed.reason:
            return not parsed.copies
        if parsed.reason not in EXACT or not is_part_of_load(call.exact[0]):
            return False
        name = statement_id(call.session.user, call.exact[0])
        return name in self._numbers or len(self._numbers) < _STATEMENTS_MAX

    def _number_of(self, call: Call, text: str) -> int:
        """Return the number of a statement."""
        parsed, role = call.statement.parsed, call.session.user
        name = statement_id(role, text)
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
            self._statements[name] = Statement(
                id=name,
                text=text,
                kind=parsed.kind,
                reads_only=parsed.reads_only and not parsed.reason,
                tables=parsed.tables,
                role=role,
            )
        calls, time_us = self._calls.get(name, (0, 0))
        self._calls[name] = (calls + 1, time_us + (call.duration_us or 0))
        return self._numbers[name]

    def _type_of(self, calls: Sequence[Call], used: Sequence[int]) -> int:
        """Return the number of the type: transactions of one name and protocol."""
        parsed = [call.statement.parsed for call in calls]
        protocol: Any = calls[-1].protocol
        number = self._types.setdefault((name_of(parsed), protocol), len(self._types))
        self._used[number].update(dict.fromkeys(used))
        self._counts[number] += 1
        return number

    def _sent(
        self,
        parsed: Parsed,
        position: int,
        value: Value,
        session: int,
        queued: dict[Place, list[ResultPlace]],
    ) -> object:
        """Return a value as the file has it: a key that the load made has a number.

        Args: queued, keys that this transaction has read or made.
        """
        use = parsed.parameters.get(position + 1)
        family = self._family(use.table, use.column) if use is not None else None
        elements = _elements(value) if use is not None and use.use == "list" else None
        if elements is None and isinstance(value, list):
            elements, family = value, None
        if elements is not None:
            parts = [self._key(element, family, session, queued) for element in elements]
            return _array(parts)
        is_key = use is not None and use.use in _KEY_USES
        return self._key(value, family if is_key else None, session, queued)

    def _key(
        self,
        value: Value,
        family: Place | None,
        session: int,
        queued: dict[Place, list[ResultPlace]],
    ) -> object:
        """Return a value, with its number if it is a key that the load made."""
        if family is None or not isinstance(value, str):
            return value
        keys = self._keys[family]
        place = self._result_of(keys, family, value, session, queued)
        if place is not None:
            number = keys.numbers[value] = len(self._made)
            self._made.append(
                (place.transaction_number, place.call_number, 0, place.column_number, number)
            )
        if value in keys.numbers:
            return {"key": keys.numbers[value], "or": value}
        _note_known(keys, value)
        return value

    def _result_of(
        self,
        keys: _FamilyKeys,
        family: Place,
        value: str,
        session: int,
        queued: dict[Place, list[ResultPlace]],
    ) -> ResultPlace | None:
        """Return the result that had this key; None if it was there before."""
        if queued[family]:
            # The transaction has asked for the next one of a queue.
            return queued[family].pop()
        if value in keys.numbers or not _may_be_new(keys, value):
            return None
        waiting = self._waiting[session, family]
        return waiting.pop() if waiting else None

    def _note_results(
        self, parsed: Parsed, call: int, session: int, queued: dict[Place, list[ResultPlace]]
    ) -> None:
        """Note the keys in the result of a call, if nobody knows them before.

        Those of an INSERT are new. A statement that locks or changes rows and was not asked for a
        key has taken one from a queue.
        """
        is_queue = parsed.locks_rows or parsed.kind in ("update", "delete")
        if parsed.kind != "insert" and not is_queue:
            return
        asked = {
            self._family(use.table, use.column)
            for use in parsed.parameters.values()
            if use.use in (*_KEY_USES, "list")
        }
        for column, (table, name) in enumerate(parsed.outputs):
            family = self._family(table, name)
            if family is None or family in asked:
                continue
            place = ResultPlace(self._transaction_count, call, column)
            if parsed.kind == "insert":
                waiting = self._waiting[session, family]
                waiting.append(place)
                del waiting[:-_WAITING_MAX]
            else:
                queued[family] = [place]

    def _family(self, table: str, column: str) -> Place | None:
        """Return the family of a column that holds keys; None of any other column."""
        return self._families.family_of_key((table, column)) if column else None


def _sent_as(call: Call) -> tuple[str, Sequence[Value]]:
    """Return the text of a call with `$1` and so on, and the values of these.

    If constants cannot be parameters, the text has them, as the program sent it.
    """
    return call.exact if call.statement.parsed.reason else (call.statement.parsed.text, call.values)


def _at_once(spans: Sequence[tuple[int, int]]) -> int:
    """Return how many of these times overlap at most; at one instant, an end comes first."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    return max(accumulate(change for _, change in changes), default=0)


def _note_known(keys: _FamilyKeys, value: str) -> None:
    """Note a key that was there before: it is never a new one later."""
    if value.isascii() and value.isdigit():
        keys.largest = max(keys.largest, int(value))
    else:
        keys.seen.add(value)


def _may_be_new(keys: _FamilyKeys, value: str) -> bool:
    """Return whether a key may be new: larger than all known ones, or not seen before."""
    if value.isascii() and value.isdigit():
        return int(value) > keys.largest
    return value not in keys.seen


def _is_whole(value: Value) -> bool:
    """Return whether the log has a value, as far as it shows."""
    if isinstance(value, list):
        return all(map(_is_whole, value))
    return value is None or (isinstance(value, str) and not value.endswith(_CUT))


def _elements(value: Value) -> list[Any] | None:
    """Return the elements of a list, or of the text of a plain array such as {1,2}."""
    if isinstance(value, list):
        return value
    if isinstance(value, str) and _PLAIN_ARRAY.fullmatch(value):
        return items_in(value)
    return None


def _array(elements: Sequence[Any]) -> object:
    """Return the literal of an array, in parts if it has keys that the load makes."""
    parts: list[object] = []
    for number, element in enumerate(elements):
        before = "," if number else "{"
        if isinstance(element, Mapping):
            parts += [f'{before}"', element, '"']
        elif element is None:
            parts.append(f"{before}NULL")
        else:
            escaped = str(element).replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'{before}"{escaped}"')
    parts.append("}" if elements else "{}")
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else parts


def _text(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
