"""Puts a capture together from what was read of a server and counted there."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from pgdyno import quantities
from pgdyno.features.capture.checks import with_broken
from pgdyno.features.capture.model import Capture, Header, Template
from pgdyno.features.capture.observed import (
    Arrivals,
    Counters,
    LeftOut,
    Profile,
    SessionKind,
    Statement,
    StatementKind,
)
from pgdyno.features.capture.reading.call_series import CallSeries
from pgdyno.features.capture.reading.constants import constant_count
from pgdyno.features.capture.reading.counted import HIDDEN, Counted, Key
from pgdyno.features.capture.reading.counters import CountersOfLoad
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.grouping import StatementGroup, grouped
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parsed import Parsed, tables_written
from pgdyno.features.capture.reading.schema import Schema
from pgdyno.features.capture.reading.sources import SourceSeen
from pgdyno.features.capture.reading.steps import Steps
from pgdyno.features.capture.reading.templates import TemplateDraft, finished
from pgdyno.features.capture.reading.utilities import needs_block, reason_of_place
from pgdyno.features.capture.schema import ColumnShape

# A shorter pause between two transactions is time of network and scheduler.
_PAUSE_S_MIN = 0.003
# The counters of a shorter capture may have another second of the load than those of transactions.
_SECONDS_ENOUGH = 10
# Each session tells its transactions up to a second late; of several, the mean is this exact.
_LATE_S, _LATE_RATIO_MAX = 0.25, 0.1
# More transactions without a statement than this number and share become a note.
_UNEXPLAINED_MIN, _UNEXPLAINED_RATIO = 100, 0.1
_ASSUMED_SHOWN, _TEXT_SHOWN, _UNUSED_SHOWN = 3, 60, 3
_NO_TEXT, _HIDDEN = (Parsed("", reason=reason) for reason in ("text_missing", "hidden"))
# The server's own questions whether deferred foreign keys hold: COMMIT asks them, so they look like
# statements of the client.
_OF_FOREIGN_KEYS = re.compile(r'\bONLY "[^"]+"\."[^"]+" .*OPERATOR\(pg_catalog\.')
_FRAMES: dict[StatementKind, str] = {"begin": "BEGIN", "commit": "COMMIT"}


def _missing(key: Key) -> Parsed:
    return _HIDDEN if key[0] == HIDDEN else _NO_TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What was read once, and what was counted until now.

    `roles` and `parsed` are of the texts that were read; `own`: our statements, which do not count.
    """

    header: Header
    counted: Counted
    sources: Sequence[SourceSeen]
    schema: Schema
    columns: Sequence[ColumnShape]
    kept: Sequence[str]
    settings: Mapping[str, str]
    role_settings: Mapping[str, Mapping[str, str]]
    types: Mapping[str, tuple[str, ...]]
    roles: Mapping[Key, str]
    parsed: Mapping[Key, Parsed]
    own: AbstractSet[Key]

    def capture(self) -> Capture:
        """Return the capture of what was counted so far."""
        so_far = self.counted
        increases = {
            key: counters
            for key, counters in so_far.increases().items()
            if key not in self.own and not _OF_FOREIGN_KEYS.search(self._text(key))
        }
        described = {
            key: self._described(key, self.parsed.get(key) or _missing(key), counters)
            for key, counters in increases.items()
        }
        usable = _by_id(d for d in described.values() if not d.parsed.reason)
        rows = {shape.name: shape.rows for shape in self.schema.tables}
        sources = Steps(self.columns, rows, self.schema.objects)
        groups = self._groups(described, sources)
        usable |= _with_frames(groups, usable)
        seconds = self.header.seconds
        parsed = {name: d.parsed for name, d in usable.items()}
        keys = sources.key_sources(
            (name, d.parsed, d.statement.counters.rows) for name, d in usable.items()
        )
        drafts = [
            TemplateDraft(
                Template(
                    name="",
                    rate_tps=group.calls / seconds if seconds else 0,
                    steps=tuple(sources.of(group, usable)),
                    think_ms=self._think_ms(),
                ),
                group.calls,
                [usable[name].rows_per_call for name in group.turns],
            )
            for group in groups
        ]
        made = finished(drafts, parsed, keys)
        rows_a_call = {name: d.rows_per_call for name, d in usable.items()}
        templates = tuple(sources.with_known_rows(made, parsed, rows_a_call))
        counters = CountersOfLoad(self.columns, self.schema.objects, parsed)
        templates = counters.followed(templates)
        return Capture(
            header=self.header,
            settings=dict(self.settings),
            objects=with_broken(self.schema.objects, self.columns, tables_written(parsed.values())),
            tables=tuple(self.schema.tables),
            indexes=tuple(self.schema.indexes),
            columns=tuple(self.columns),
            statements=tuple(d.statement for d in usable.values()),
            templates=templates,
            counters=tuple(counters.of(templates)),
            arrivals=Arrivals(
                transactions=tuple(so_far.transactions),
                active_sessions=tuple(so_far.active_sessions),
            ),
            sessions=tuple(self._session_kinds()),
            profile=self._profile(seconds, list(increases.values())),
            left_out=_left_out(described.values()),
            notes=(
                *self._notes(),
                *_proved(groups),
                *self._unexplained(described, templates),
                *_assumptions(sources, usable),
            ),
            kept=tuple(self.kept),
        )

    def _groups(self, described: Mapping[Key, Described], sources: Sources) -> list[StatementGroup]:
        """Return the kinds of transactions of the statements that can be reproduced."""
        series = self.counted.series()
        work = {
            key: d
            for key, d in described.items()
            if not d.parsed.reason and d.parsed.kind not in _FRAMES
        }
        countings = [
            CallSeries(
                id=d.statement.id,
                query_id=key[0],
                role=d.statement.role,
                kind=d.parsed.kind,
                calls=d.statement.counters.calls,
                series=series[key],
                level=sources.level(d.parsed.written),
                ends_count=d.parsed.ends_count,
            )
            for key, d in work.items()
        ]
        transactions = self._transactions(described)
        return grouped(
            _merged(countings),
            self.counted.sessions,
            transactions=transactions,
            late=transactions * min(_LATE_S / max(self.header.seconds, 1.0), _LATE_RATIO_MAX),
            writing=self.counted.writing(),
        )

    def _transactions(self, described: Mapping[Key, Described]) -> float:
        """Return how many transactions the server counted, without those that are left out."""
        left_out = sum(d.statement.counters.calls for d in described.values() if d.parsed.reason)
        return max(0.0, self.counted.ended() - left_out)

    def _text(self, key: Key) -> str:
        parsed = self.parsed.get(key)
        return parsed.text if parsed is not None else ""

    def _role(self, key: Key) -> str:
        return self.roles.get(key, "")

    def _described(self, key: Key, parsed: Parsed, counters: Counters) -> Described:
        # Their place in a transaction is not known.
        if parsed.kind == "savepoint":
            parsed = replace(parsed, reason="savepoint")
        elif not parsed.reason and needs_block(parsed.text):
            parsed = replace(parsed, reason=reason_of_place(parsed.text))
        types = self.types.get(parsed.text, ())
        statement = Statement(
            id=_statement_id(key, parsed, self._role(key)),
            text=parsed.text,
            kind=parsed.kind,
            reads_only=parsed.reads_only,
            tables=parsed.tables,
            parameter_types=types,
            role=self._role(key),
            counters=counters,
            constant_count=constant_count(parsed.text),
        )
        return Described(statement, parsed)

    def _think_ms(self) -> float | None:
        pauses = sorted(self.counted.sessions.idle_s)
        if not pauses:
            return None
        # Clients of a busy machine wait for a CPU: the program did not pause.
        is_usual = pauses[len(pauses) // 2] >= _PAUSE_S_MIN
        return 1000 * sum(pauses) / len(pauses) if is_usual else 0.0

    def _session_kinds(self) -> Iterator[SessionKind]:
        sessions = self.counted.sessions
        everybody = self.role_settings.get("", {})
        for role, count in sorted(sessions.by_role.items()):
            settings = {**everybody, **self.role_settings.get(role, {})}
            mean = round(count / max(sessions.polls, 1), 2)
            yield SessionKind(role=role, count=mean, settings=settings)

    def _profile(self, seconds: float, increases: list[Counters]) -> Profile:
        so_far, sessions = self.counted, self.counted.sessions
        looks = max(sum(sessions.waits.values()), 1)
        return Profile(
            seconds=seconds,
            total=Counters.total(increases),
            commits=so_far.totals.commits,
            rollbacks=so_far.totals.rollbacks,
            active_sessions=sum(sessions.active_counts) / max(sessions.polls, 1),
            waits={name: count / looks for name, count in sessions.waits.most_common()},
            updates=so_far.totals.updates,
            hot_updates=so_far.totals.hot_updates,
            dealloc_count=so_far.dealloc_count,
        )

    def _unexplained(
        self, described: Mapping[Key, Described], templates: Sequence[Template]
    ) -> Iterator[str]:
        """Yield how many transactions of the server have no statement, if they are many."""
        ended = self._transactions(described)
        known = sum(t.rate_tps for t in templates) * self.header.seconds
        if templates and ended - known > max(_UNEXPLAINED_MIN, _UNEXPLAINED_RATIO * ended):
            yield (
                f"{ended - known:.0f} of {ended:.0f} transactions have no statement in"
                " pg_stat_statements, as when a pool sends an empty query to check a connection:"
                " the mirror does not have them"
            )

    def _notes(self) -> Iterator[str]:
        """Yield what a reader must know: losses and gaps."""
        so_far = self.counted
        for source in self.sources:
            if source.missing:
                yield f"{source.name}: {source.missing}; {source.loss}"
        if so_far.snapshots and 1 <= self.header.seconds < _SECONDS_ENOUGH:
            yield (
                f"the capture is shorter than {_SECONDS_ENOUGH} s: the server counts up to a second"
                " late, so it proves few transactions; capture longer"
            )
        if so_far.dealloc_count:
            yield (
                f"pg_stat_statements evicted entries {so_far.dealloc_count} times: their calls are"
                " lost; raise pg_stat_statements.max"
            )
        if so_far.resets:
            number = "once" if so_far.resets == 1 else f"{so_far.resets} times"
            yield f"pg_stat_statements was reset {number} during the capture"
        yield from so_far.losses
        yield from self.schema.notes
        if unused := self.schema.unused:
            shown = ", ".join(unused[:_UNUSED_SHOWN])
            more = len(unused) - _UNUSED_SHOWN
            end = f" and {more} more" if more > 0 else ""
            number = quantities.counted(len(unused), "function")
            yield f"nothing in the capture uses {number}, so the copy goes without: {shown}{end}"


def _left_out(described: Iterable[Described]) -> tuple[LeftOut, ...]:
    """Return the statements that cannot be reproduced, the longest first."""
    left = [
        LeftOut(
            reason=own.parsed.reason,
            text=own.statement.text,
            calls=own.statement.counters.calls,
            time_ms=own.statement.counters.time_ms,
        )
        for own in described
        if own.parsed.reason
    ]
    return tuple(sorted(left, key=lambda item: -item.time_ms))


def _proved(groups: Sequence[StatementGroup]) -> Iterator[str]:
    """Yield for which share of the calls their transactions are proved, if not for all."""
    calls = {group.is_proved: 0.0 for group in groups}
    for group in groups:
        calls[group.is_proved] += group.calls * sum(group.turns.values())
    if calls.get(False):
        share = calls.get(True, 0.0) / sum(calls.values())
        yield (
            f"sessions and counts prove the transactions of {quantities.percent(share)} of the"
            " calls; each statement of the others is a single transaction: capture longer, or"
            " from a log"
        )


def _assumptions(sources: Sources, statements: Mapping[str, Described]) -> Iterator[str]:
    """Yield in how many statements a value is assumed, with examples."""
    assumed = {name: what for name, what in sources.assumed.items() if name in statements}
    if not assumed:
        return
    examples = [
        f"{what} in {textwrap.shorten(statements[name].parsed.text, _TEXT_SHOWN, placeholder='..')}"
        for name, what in list(assumed.items())[:_ASSUMED_SHOWN]
    ]
    number = quantities.counted(len(assumed), "statement")
    yield (
        f"values are assumed in {number}, because nothing shows where they come from, such as"
        f" {'; '.join(examples)}"
    )


def _with_frames(
    groups: Sequence[StatementGroup], statements: Mapping[str, Described]
) -> dict[str, Described]:
    """Put BEGIN and COMMIT around the groups that need them; return these statements by id.

    pg_stat_statements does not count them if they are prepared or track_utility is off.
    """
    framing: dict[str, Described] = {}
    for group in groups:
        if not group.is_block:
            continue
        ends: list[str] = []
        for kind, text in _FRAMES.items():
            known = [
                d
                for d in statements.values()
                if d.parsed.kind == kind and d.statement.role == group.role
            ]
            best = max(known, key=lambda d: d.statement.counters.calls, default=None)
            if best is None:
                parsed = Parsed(text, kind=kind, reads_only=True)
                name = _statement_id((0, 0), parsed, group.role)
                statement = Statement(
                    id=name, text=text, kind=kind, reads_only=True, role=group.role
                )
                best = Described(statement, parsed)
            framing[best.statement.id] = best
            ends.append(best.statement.id)
        group.turns = {ends[0]: 1.0, **group.turns, ends[1]: 1.0}
    return framing


def _by_id(described: Iterable[Described]) -> dict[str, Described]:
    """Return statements by id, each with the counters of all its query ids.

    One text has several query ids if its parameters have other types, or are constants.
    """
    made: dict[str, Described] = {}
    for own in described:
        name = own.statement.id
        if (known := made.get(name)) is not None:
            counters = Counters.total([known.statement.counters, own.statement.counters])
            own = replace(own, statement=own.statement.model_copy(update={"counters": counters}))
        made[name] = own
    return made


def _merged(countings: Iterable[CallSeries]) -> list[CallSeries]:
    """Return the calls of each statement, with the query id that has most of them."""
    made: dict[str, CallSeries] = {}
    for own in sorted(countings, key=lambda counting: -counting.calls):
        if (known := made.get(own.id)) is not None:
            series = [sum(calls) for calls in zip(known.series, own.series, strict=True)]
            own = replace(known, calls=known.calls + own.calls, series=series)
        made[own.id] = own
    return list(made.values())


def _statement_id(key: Key, parsed: Parsed | None, role: str) -> str:
    """Return an id that is the same in every capture of the same text and role."""
    text = parsed.text if parsed and parsed.text and not parsed.reason else str(key[0])
    return hashlib.sha256(f"{role}\0{text}".encode()).hexdigest()[:12]
