"""Statements of a log: constants become parameters, once for each shape of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pgparse

from pgdyno.features.capture.reading.arbiters import places_of
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import TYPE_BEFORE, Parsed, parse
from pgdyno.features.capture.reading.rows_of_values import FoldedRows, folded
from pgdyno.server.session_start import FIRST_SQL

# Every session of ours begins with a text that has it; a log has no comments.
_OUR_FIRST = FIRST_SQL.partition("'")[0]
_NUMBERED = re.compile(r"\$(\d+)")
# A list of parameters: whatever its length is, it is one statement, and the list is one parameter.
_LISTED = re.compile(r"(\bNOT\s+)?\bIN\s*\(\s*(\$\d+(?:\s*,\s*\$\d+)+)\s*\)", re.I)
_IN_LIST = re.compile(r"(\bNOT\s+)?\bIN\s*$", re.I)
_TYPE_BEFORE = re.compile(rf"{TYPE_BEFORE}$", re.I)
# Statements that take parameters.
_QUERIES = ("select", "insert", "update", "delete", "merge")
_INT4_MAX = (1 << 31) - 1
_PREPARES = re.compile(r"\s*PREPARE\s+(?!TRANSACTION\b)", re.I)
# Their values decide whether they can be sent again, and no parameter can take the place of one.
_BY_VALUE = re.compile(
    r"\s*(?:SET|RESET|FETCH|MOVE|CLOSE|LISTEN|UNLISTEN|NOTIFY|COPY|DO)\b"
    r"|.*\b(?:set_config|pg_notify)\s*\(",
    re.I | re.S,
)
# The name of a setting; it stays if the schema reads the setting.
_SETTING = re.compile(r"\bset_config\s*\(\s*'(\w+\.\w+)'", re.I)
# Only a constant that is itself the key of an order or a group counts columns.
_PATH = ("SortBy", "node", "A_Const", "GroupingSet", "content")
_MADE_MAX = 1_000
_NONE: Mapping[int, str] = {}
_MADE = ("SELECT set_config('", "SELECT pg_notify('")
# Constants below these parts of a statement are not values: they count columns, or digits.
_COUNTS = ("sortClause", "groupClause", "distinctClause", "typmods")
# What the server compares with the columns of the result: an equal constant is the same parameter.
_REPEATS = ("sortClause", "groupClause", "distinctClause", "windowClause")


@dataclass(frozen=True, slots=True)
class ConstantPlace:
    """A constant in the text of a shape: where it is, and what becomes of it.

    `repeats`: it may have to be the same as an earlier one, as in `GROUP BY date_trunc('day', at)`.
    """

    position: tuple[int, int]
    is_list: bool
    stays: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement with `$n` for every value. `positions`: which constants became parameters.

    `casts`: types that the text gives to parameters that were constants, by number from 1. `lists`:
    which parameters of the program are one list here, as places from 0 and behind the last. `rows`:
    which values are the rows of an INSERT, and arrays here.
    """

    parsed: Parsed
    parameter_count: int
    positions: tuple[int, ...] = ()
    casts: Mapping[int, str] = field(default_factory=dict)
    lists: tuple[tuple[int, int], ...] = ()
    rows: FoldedRows | None = None

    def values_of(self, parameters: Sequence[Any], constants: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of `$1` and so on, lists in place of their elements.

        Args: those of the program, and those of the text. False is not known.
        """
        if self.rows is not None:
            parameters, constants = self.rows.folded(parameters, constants)
        made = list(parameters)
        for first, end in reversed(self.lists):
            part = made[first:end]
            made[first:end] = [part if len(part) == end - first and False not in part else False]
        missing = self.parameter_count - len(made)
        places = self.positions if constants else ()
        return (*made, *[False] * missing, *(constants[at] for at in places))


class LoggedShape:
    """One shape of the reader: a text with the places of its constants."""

    def __init__(
        self, sql: str, literals: Sequence[tuple[int, int, bool]], names: Names, *, is_cut: bool
    ) -> None:
        self._names, self._is_cut = names, is_cut
        self._original = sql, [(start, end) for start, end, _ in literals]
        self.parameter_count = _count_of(sql, literals)
        self._rows: FoldedRows | None = None
        if (many := folded(sql, names, literals)) is not None:
            sql, literals, self._rows = many
        sql, literals, self._lists = _with_lists(sql, literals)
        self._sql, self._count = sql, _count_of(sql, literals)
        self.is_ours = _OUR_FIRST in sql
        kept = set(_places_below(sql, _COUNTS, _PATH)) if literals else set()
        again = set(_places_below(sql, _REPEATS, None)) if literals else set()
        kept.update(_places_of_indexes(sql) if literals else ())
        named = [m for m in _SETTING.finditer(sql) if m[1].lower() in names.settings]
        kept.update(name.start(1) - 1 for name in named)
        self._places = [
            ConstantPlace(
                (start, end),
                is_list,
                any(start <= at < end for at in kept),
                any(start <= at < end for at in again),
            )
            for start, end, is_list in literals
        ]
        self._made: dict[tuple[Any, ...], LoggedStatement] = {}
        self._is_by_value = not is_cut and _BY_VALUE.match(sql) is not None
        self._by_value: dict[tuple[str, ...], LoggedStatement | None] = {}
        self._is_plain = not self._is_by_value and not any(
            p.stays or p.repeats for p in self._places
        )

    @property
    def plain(self) -> LoggedStatement | None:
        """Return the statement if no constant changes it."""
        return self.statement(()) if self._is_plain else None

    def statement(
        self, constants: Sequence[Any], parameters: Sequence[Any] = ()
    ) -> LoggedStatement:
        """Return the statement; constants that count columns belong to its text."""
        if self._rows is not None:
            parameters, constants = self._rows.folded(parameters, constants)
        constants = constants or [""] * len(self._places)
        if self._is_by_value:
            values = tuple(map(_literal, (*constants[: len(self._places)], *parameters)))
            if values not in self._by_value:
                _make_room(self._by_value)
                self._by_value[values] = self._with_values(values)
            if (known := self._by_value[values]) is not None:
                return known
        same = self._repeated(constants)
        key = (
            same,
            *(str(v) for v, place in zip(constants, self._places, strict=False) if place.stays),
        )
        known = self._made.get(key)
        if known is None:
            _make_room(self._made)
            known = self._made[key] = self._make(constants, dict(same))
        return known

    def exact(self, constants: Sequence[Any]) -> str:
        """Return the text with its constants, as the program sent it."""
        sql, places = self._original
        text, last = "", 0
        for value, (start, end) in zip(constants or [None] * len(places), places, strict=False):
            text += sql[last:start] + _as_in(sql[start:end], value)
            last = end
        return text + sql[last:]

    def _repeated(self, constants: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """Return the constants that repeat an earlier one: the places of both."""
        known: dict[str, int] = {}
        same = []
        for at, (value, place) in enumerate(zip(constants, self._places, strict=False)):
            if place.repeats and not place.stays and not place.is_list and str(value) in known:
                same.append((at, known[str(value)]))
            elif not place.stays and not place.is_list:
                known.setdefault(str(value), at)
        return tuple(same)

    def _with_values(self, values: Sequence[str]) -> LoggedStatement | None:
        """Return a statement that is sent again with its harmless values; None for others.

        Args: values, literals of the constants and of the parameters.
        """
        given = dict(enumerate(values[len(self._places) :], 1))
        text, last = "", 0
        for place, value in zip(self._places, values, strict=False):
            text += _filled(self._sql[last : place.position[0]], given)
            is_number = re.match(r"[-+\d.]", self._sql[place.position[0] :])
            text += value.strip("'") if is_number else value
            last = place.position[1]
        parsed = parse(text + _filled(self._sql[last:], given), self._names)
        is_made = parsed.kind in ("other", "set") or parsed.text.startswith(_MADE)
        if parsed.copies:
            return self._of(parsed)
        if parsed.reason or parsed.parameters or not is_made:
            return None
        return self._of(parsed)

    def _make(self, constants: Sequence[Any], same: Mapping[int, int]) -> LoggedStatement:
        if self._is_cut:
            parsed = Parsed(self._sql[:20].split(maxsplit=1)[0].upper(), reason="unreadable")
            return self._of(parsed)
        plain = parse(self._text(constants, {}, same)[0], self._names)
        positions = tuple(
            at for at, place in enumerate(self._places) if not place.stays and at not in same
        )
        if plain.reason and plain.kind not in _QUERIES:
            # A utility statement takes no parameters; its first words are enough.
            original = parse(self._sql, self._names) if plain.reason == "unreadable" else plain
            return self._of(original)
        made = None
        for is_certain in (False, True):
            casts = dict(self._casts(plain, positions, is_certain=is_certain))
            text, types = self._text(constants, casts, same)
            parsed = parse(text, self._names) if casts else plain
            made = made or self._of(parsed, positions, types)
            has_parameters = positions or parsed.parameters
            can_be_asked = parsed.kind in _QUERIES and not parsed.reason
            # Of PREPARE the text is that of the statement in it.
            if not has_parameters or not can_be_asked or self._names.accepts(parsed.text):
                return self._of(parsed, positions, types)
        assert made is not None
        made.parsed.reason = "refused"
        return made

    def _of(
        self,
        parsed: Parsed,
        positions: tuple[int, ...] = (),
        casts: Mapping[int, str] | None = None,
    ) -> LoggedStatement:
        if _PREPARES.match(self._sql):
            # A client of a mirror prepares, too; an EXECUTE does not say which statement it calls.
            parsed = Parsed("PREPARE", reason="prepared_by_sql")
        return LoggedStatement(parsed, self._count, positions, casts or {}, self._lists, self._rows)

    def _casts(
        self, plain: Parsed, positions: Sequence[int], *, is_certain: bool
    ) -> Iterator[tuple[int, str]]:
        """Yield the types of numbers whose place in the statement does not give them one.

        Args: is_certain, every number has the type that a number has.
        """
        for number, at in enumerate(positions, self._count + 1):
            place = self._places[at]
            raw = self._sql[place.position[0] : place.position[1]]
            use = plain.parameters.get(number)
            if place.is_list or not re.match(r"-?[\d.]", raw):
                continue
            is_whole = re.fullmatch(r"-?\d+", raw) is not None
            if is_whole and (is_certain or use is None or use.use == "other"):
                yield number, "integer" if abs(int(raw)) <= _INT4_MAX else "bigint"
            elif not is_whole:
                yield number, "numeric"

    def _text(
        self, constants: Sequence[Any], casts: Mapping[int, str], same: Mapping[int, int]
    ) -> tuple[str, dict[int, str]]:
        """Return the text with `$n` for its constants, and the types that it names."""
        made, last, next_number = "", 0, self._count + 1
        numbers: dict[int, int] = {}
        types = dict(casts)
        for position, place in enumerate(self._places):
            before = self._sql[last : place.position[0]]
            last = place.position[1]
            if place.stays:
                raw = self._sql[place.position[0] : place.position[1]]
                made += before + _as_in(raw, constants[position])
                continue
            number = numbers[same[position]] if position in same else next_number
            next_number += position not in same
            numbers[position] = number
            named = _TYPE_BEFORE.search(before)
            listed = _IN_LIST.search(before) if place.is_list else None
            if listed is not None:
                operator = "<> ALL" if listed[1] else "= ANY"
                made += f"{before[: listed.start()]}{operator} (${number})"
            elif named is not None:
                types[number] = named[1].lower()
                made += f"{before[: named.start()]}${number}::{types[number]}"
            else:
                made += f"{before}${number}" + (f"::{casts[number]}" if number in casts else "")
        return made + self._sql[last:], types


def _make_room(known: dict[Any, Any]) -> None:
    if len(known) >= _MADE_MAX:
        known.clear()


def _literal(value: Any) -> str:
    """Return a constant or a parameter as a literal of SQL."""
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def _as_in(raw: str, value: Any) -> str:
    """Return a value in the notation of another constant of its shape."""
    if isinstance(value, list):
        return f"({', '.join(_as_in(_first_of(raw), part) for part in value)})"
    if value is None or re.match(r"[-+\d.]", raw):
        return raw if value is None else str(value)
    bits = re.match(r"[bx]'", raw, re.I)
    return f"{bits[0]}{value}'" if bits else _literal(value)


def _first_of(raw: str) -> str:
    return raw.lstrip("( ")


def _filled(part: str, values: Mapping[int, str]) -> str:
    return _NUMBERED.sub(lambda number: values.get(int(number[1]), number[0]), part)


def _count_of(sql: str, literals: Sequence[tuple[int, int, bool]]) -> int:
    """Return the largest number of a parameter in a text."""
    return max((int(n) for n in _NUMBERED.findall(_without(sql, literals))), default=0)


def _with_lists(
    sql: str, literals: Sequence[tuple[int, int, bool]]
) -> tuple[str, Sequence[tuple[int, int, bool]], tuple[tuple[int, int], ...]]:
    """Return a text with `= ANY ($1)` for `IN ($1, $2)`, its constants, and what was a list."""
    bare = list(sql)
    for start, end, _ in literals:
        bare[start:end] = " " * (end - start)
    plain = "".join(bare)
    every = [int(n) for n in _NUMBERED.findall(plain)]
    lists: dict[int, tuple[int, int]] = {}
    for match in _LISTED.finditer(plain):
        own = [int(n) for n in _NUMBERED.findall(match[2])]
        is_row = own == list(range(own[0], own[0] + len(own)))
        if is_row and all(every.count(number) == 1 for number in own):
            lists[match.start()] = (own[0] - 1, own[-1])
    if not lists:
        return sql, literals, ()

    def renumbered(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"${number - sum(min(number, e) - b - 1 for b, e in lists.values() if b < number)}"

    def shortened(match: re.Match[str]) -> str:
        own = lists.get(last + match.start())
        return f"{'<> ALL' if match[1] else '= ANY'} (${own[0] + 1})" if own else match[0]

    made, places, last = "", [], 0
    for start, end, is_list in [*literals, (len(sql), len(sql), False)]:
        made += _NUMBERED.sub(renumbered, _LISTED.sub(shortened, sql[last:start]))
        places.append((len(made), len(made) + end - start, is_list))
        made += sql[start:end]
        last = end
    return made, places[:-1], tuple(sorted(lists.values()))


def _without(sql: str, literals: Sequence[tuple[int, int, bool]]) -> str:
    made, last = "", 0
    for start, end, _ in literals:
        made += sql[last:start] + " "
        last = end
    return made + sql[last:]


def _places_of_indexes(sql: str) -> Iterator[int]:
    """Yield every place in what ON CONFLICT names: there the schema has its own constants."""
    if "CONFLICT" in sql.upper():
        for start, end in places_of(sql):
            yield from range(start, end)


def _places_below(sql: str, clauses: Sequence[str], path: Sequence[str] | None) -> Iterator[int]:
    """Yield the places of constants in these clauses, in characters.

    Args: path, the parts of a clause that may lie above such a constant; None for any.
    """
    try:
        places = list(_constants_below(pgparse.parse(sql), clauses, path, is_below=False))
    except (pgparse.PGQueryError, RecursionError):
        return
    raw = sql.encode()
    for place in places:
        yield len(raw[:place].decode(errors="ignore"))


def _constants_below(
    tree: Any, clauses: Sequence[str], path: Sequence[str] | None, *, is_below: bool
) -> Iterator[int]:
    if isinstance(tree, Mapping):
        constant = tree.get("A_Const")
        if is_below and constant is not None:
            yield constant.get("location", 0)
        for name, content in tree.items():
            is_path = is_below and (path is None or name in path)
            yield from _constants_below(content, clauses, path, is_below=name in clauses or is_path)
    elif isinstance(tree, list):
        for item in tree:
            yield from _constants_below(item, clauses, path, is_below=is_below)
