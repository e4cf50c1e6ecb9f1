"""Logs of a server in a capture: whole transactions with the sources of their parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.capture.checks import with_broken
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.observed import (
    REASONS,
    Counters,
    LeftOut,
    Profile,
    SessionKind,
    Statement,
)
from pgdyno.features.capture.reading.column_statistics import RawColumn
from pgdyno.features.capture.reading.counters import CountersOfLoad
from pgdyno.features.capture.reading.log_calls import Call, SessionPart
from pgdyno.features.capture.reading.log_grouping import Grouping, StatementKey, TransactionGroup
from pgdyno.features.capture.reading.log_reading import LogReading, Seen
from pgdyno.features.capture.reading.log_statements import LoggedStatement
from pgdyno.features.capture.reading.log_templates import (
    Context,
    calls_of,
    templates_of,
    written_values,
)
from pgdyno.features.capture.reading.log_transactions import Transaction, Transactions
from pgdyno.features.capture.reading.means import MeansOfStatements
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parsed import tables_written
from pgdyno.features.capture.reading.recorder import EXACT, Recorder, statement_id
from pgdyno.features.capture.reading.stand_ins import StandIns
from pgdyno.quantities import counted, milliseconds

# For the price: lines of a transaction with prepared statements (three messages and two details
# a statement if it is prepared anew, one and one if not), and bytes of a line.
_STATEMENTS, _LINES, _LINE_BYTES = 7, 21, 150
_EXAMPLE_TPS = 1000
# A log without a faster statement, not even a BEGIN, has only slow ones.
_SHORTEST_US = 1000
# Each statement may have the durations of its parse and bind messages, too; some lack theirs.
_ALONE_MAX = 10
# Our sessions that observe and control; those of our loads are a load as every other.
_OUR_SESSION = re.compile(r"pgdyno/(capture|observe|[a-z-]+/control)")
_NO_STATEMENTS = "pg_stat_statements: "
TypesOf = Callable[[Sequence[str]], Mapping[str, Sequence[str]]]
Raw = Mapping[tuple[str, str], RawColumn]


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which logs to read. `prefix`: log_line_prefix, None to find it. `database`: of the capture.

    `is_certain`: if the prefix does not fit, the logs are refused, else the usual ones are tried.

    `sample_ratio`: log_transaction_sample_rate when the log was written. `rows_of_copies`: how many
    rows each COPY FROM STDIN has, by its text, because logs do not say it. `logs_some`: the server
    logs only some statements. `recorder`: keeps every transaction with its values; else None.
    """

    paths: Sequence[Path]
    database: str
    prefix: str | None = None
    is_certain: bool = True
    sample_ratio: float = 1
    rows_of_copies: Mapping[str, float] = field(default_factory=dict)
    logs_some: bool = False
    recorder: Recorder | None = None


class Logged:
    """What logs say of the load on one database."""

    def __init__(self, request: LogRequest, names: Names) -> None:
        """Read the logs.

        Raises: SpecError if the files are not logs, or have no statements of this database.
        """
        self._request = request
        self._reading = LogReading(
            request.paths,
            names,
            prefix=request.prefix,
            is_certain=request.is_certain,
            keeps_whole=request.recorder is not None,
        )
        self._transactions = Transactions()
        self.grouping = Grouping()
        self._elsewhere_count = 0
        self._ours: set[str] = set()
        self._unnamed_count = 0
        self._cut_values_count = 0
        self._statement_count = 0
        for part in self._reading.parts():
            self._add(part)
        for transaction in self._transactions.end():
            self._group(transaction)
        if not any(group.count for group in self.grouping.groups.values()):
            raise self._nothing()
        if self.seen.end["last_us"] < self.seen.end["first_us"]:
            raise SpecError(
                "The last message of the logs is older than the first, so nobody knows how long"
                " the load took.",
                hint="give the messages in the order of their times: oldest first",
            )

    def _nothing(self) -> SpecError:
        """Return the error of logs from which no statement can be sent again, with the reasons."""
        left = Counter[str]()
        for (reason, _), (calls, _) in self.grouping.left.items():
            left[reason] += calls
        seen = [f"{self._reading.seen.end['messages']} messages", *self.notes()]
        what = "no statement"
        if left:
            what = "no statement that can be sent again"
            seen = [f"{REASONS[reason]}: {counted(n, 'call')}" for reason, n in left.most_common()]
        hint = "log whole transactions with %c or %p first: pgdyno capture --log-advice"
        if "object_missing" in left:
            hint = "name the database in which the statements ran, with its tables"
        return SpecError(
            f"the logs have {what} of database {self._request.database}: they have"
            f" {'; '.join(seen)}.",
            hint=hint,
        )

    @property
    def is_partial(self) -> bool:
        """Return whether the logs lack statements, and nobody knows how many."""
        end = self.seen.end
        shortest_us: int | None = end["shortest_us"]
        has_only_slow = shortest_us is not None and shortest_us >= _SHORTEST_US
        alone_count: int = end["durations_alone"]
        lacks_texts = alone_count > 2 * end["statements"] + _ALONE_MAX
        return has_only_slow or lacks_texts or self._request.logs_some

    @property
    def seen(self) -> Seen:
        """Return what the reader says about the files."""
        return self._reading.seen

    @property
    def texts(self) -> list[str]:
        """Return the texts of the statements that transactions have."""
        return [statement.parsed.text for statement in self.grouping.statements.values()]

    def _add(self, part: SessionPart | list[int]) -> None:
        """Count a part of a session, or the ends of sessions."""
        if isinstance(part, list):
            for transaction in self._transactions.end(part):
                self._group(transaction)
            return
        count = len(part.pattern.items)
        if part.session.database not in ("", self._request.database):
            self._elsewhere_count += count
            return
        if _OUR_SESSION.match(part.session.application):
            return
        # In a session of ours even BEGIN is ours.
        if any(shape.is_ours for shape, _ in part.pattern.items):
            self._ours.add(part.session.id)
        if part.session.id in self._ours:
            return
        self._unnamed_count += 0 if part.session.database else count
        self._statement_count += count
        self._cut_values_count += max(part.cut_count, part.pattern.missing_count)
        plan = self.grouping.plan(part)
        if plan is not None:
            think = self._transactions.whole(part, is_block=plan.is_block)
            if think is not None:
                self.grouping.add_part(part, plan, *think)
                if self._request.recorder is not None and plan.group is not None:
                    self._request.recorder.add(list(part.calls()))
                return
        calls = list(part.calls())
        self._leave(calls)
        for transaction in self._transactions.of(part, calls):
            self._group(transaction)

    def _group(self, transaction: Transaction) -> None:
        """Count a transaction, and record it."""
        self.grouping.add(transaction)
        if self._request.recorder is not None:
            self._request.recorder.add(transaction.calls)

    def _leave(self, calls: Sequence[Call]) -> None:
        """Count the calls that cannot be sent again."""
        for call in calls:
            parsed = call.statement.parsed
            if parsed.copies and parsed.text not in self._request.rows_of_copies:
                parsed.reason = "copy"
            if parsed.reason and not call.is_error:
                self.grouping.leave(parsed.reason, call)

    @property
    def seconds(self) -> float:
        """Return the time that the logs span; the last of whole seconds is one of them."""
        end = self.seen.end
        span_s = float(end["last_us"] - end["first_us"]) / 1e6
        return span_s + 1 if end["has_whole_seconds"] else max(span_s, 1e-3)

    def joined(
        self,
        capture: Capture,
        types_of: TypesOf,
        raw: Raw,
        means: MeansOfStatements,
        stand_ins: StandIns | None = None,
    ) -> Capture:
        """Return the capture with the templates of the logs in place of those of statistics.

        Args: stand_ins, those of the columns; a value of the logs has the same ones.
        Counters stay those of the statistics, where a statement has them. Others have the rows and
        blocks of as many mean calls since the server began to count.
        """
        groups = self.grouping.ordered()
        used = {key: self.grouping.statements[key] for group in groups for key in group.steps}
        ids = {key: statement_id(*key) for key in used}
        types = _types(used.values(), types_of)
        rows = {shape.name: shape.rows for shape in capture.tables}
        sources = Sources(capture.columns, rows, capture.objects)
        statements = list(self._statements(capture, groups, used, types, means))
        given = {"ids": ids, "types": types, "raw": raw, "sources": sources}
        given["stand_ins"] = stand_ins or StandIns((), ())
        context = self._context(capture, groups, statements, given)
        templates = tuple(
            templates_of(
                groups,
                self.grouping.statements,
                context,
                seconds=self.seconds,
                sample_ratio=self._request.sample_ratio,
            )
        )
        parsed = {ids[key]: statement.parsed for key, statement in used.items()}
        recorder, recording = self._request.recorder, None
        if recorder is not None:
            others = recorder.statements_but({statement.id for statement in statements})
            statements += map(means.counted, others)
            recording = recorder.end()
        statements = means.with_ratios(statements)
        counters = CountersOfLoad(capture.columns, capture.objects, parsed)
        written = tables_written(parsed.values())
        header = {
            "sources": tuple(dict.fromkeys((*capture.header.sources, "log"))),
            "transaction_sample_ratio": self._request.sample_ratio,
            "is_partial": self.is_partial,
        }
        alone: dict[str, object] = {}
        if capture.header.seconds < 1:
            # Nothing was counted on the server.
            header |= {"sources": ("log",), "seconds": round(self.seconds, 3)}
            alone["profile"] = self._profile(groups)
        return capture.model_copy(
            update={
                **alone,
                "header": capture.header.model_copy(update=header),
                "statements": tuple(statements),
                "templates": templates,
                "objects": with_broken(capture.objects, capture.columns, written),
                "counters": tuple(counters.of(templates)),
                "arrivals": self.grouping.seconds.arrivals(self._request.sample_ratio),
                "sessions": self._sessions(capture),
                "left_out": tuple(self._left_out(capture)),
                "recording": recording,
                "notes": (*map(_with_logs, capture.notes), *self.notes()),
            }
        )

    def _context(
        self,
        capture: Capture,
        groups: Sequence[TransactionGroup],
        statements: Iterable[Statement],
        given: Mapping[str, Any],
    ) -> Context:
        columns = {(column.table, column.column): column for column in capture.columns}
        counted_rows = {
            own.text: own.counters.rows / own.counters.calls
            for own in statements
            if own.counters.calls and (own.counters.rows or own.is_counted)
        }
        return Context(
            rows=counted_rows,
            written=written_values(groups, self.grouping.statements, columns),
            columns=columns,
            rows_of_copies=self._request.rows_of_copies,
            **given,
        )

    def _statements(
        self,
        capture: Capture,
        groups: Sequence[TransactionGroup],
        used: Mapping[StatementKey, LoggedStatement],
        types: Mapping[str, Sequence[str]],
        means: MeansOfStatements,
    ) -> Iterator[Statement]:
        counted = {statement.id: statement for statement in capture.statements}
        for key, (calls, took_ms) in calls_of(groups).items():
            parsed = used[key].parsed
            known = counted.get(statement_id(*key))
            scaled = round(calls / self._request.sample_ratio)
            constants = len(used[key].positions) if used[key].parameter_count else 0
            made = known or means.counted(
                Statement(
                    id=statement_id(*key),
                    text=parsed.text,
                    kind=parsed.kind,
                    reads_only=parsed.reads_only,
                    tables=parsed.tables,
                    parameter_types=tuple(types.get(parsed.text, ())),
                    role=key[0],
                    counters=Counters(calls=scaled, time_ms=took_ms / self._request.sample_ratio),
                )
            )
            yield made.model_copy(update={"constant_count": constants})

    def _profile(self, groups: Sequence[TransactionGroup]) -> Profile:
        """Return the totals that a log has: transactions, calls and time."""
        ratio = self._request.sample_ratio
        sums = calls_of(groups).values()
        busy_s = sum(took_ms for _, took_ms in sums) / 1000 / ratio
        return Profile(
            seconds=self.seconds,
            total=Counters(calls=round(sum(c for c, _ in sums) / ratio), time_ms=1000 * busy_s),
            commits=round(self.grouping.seconds.total / ratio),
            rollbacks=round(self._transactions.failed_count / ratio),
            active_sessions=busy_s / self.seconds,
        )

    def _sessions(self, capture: Capture) -> tuple[SessionKind, ...]:
        """Return the sessions of the statistics, else those of the logs."""
        users = self._transactions.users
        if capture.sessions:
            return capture.sessions
        return tuple(SessionKind(role=user, count=count) for user, count in sorted(users.items()))

    def _left_out(self, capture: Capture) -> Iterator[LeftOut]:
        """Yield what cannot be reproduced; a statement that the statistics name is named once."""
        # What a recording has with its own constants is not left out.
        recorded = EXACT if self._request.recorder is not None else ()
        kept = [item for item in capture.left_out if item.reason not in recorded]
        yield from kept
        named = {(item.reason, item.text) for item in kept}
        longest = sorted(self.grouping.left.items(), key=lambda item: -item[1][1])
        for (reason, text), (calls, took_ms) in longest:
            if (reason, text) not in named and reason not in recorded:
                yield LeftOut(reason=reason, text=text, calls=calls, time_ms=took_ms)

    def notes(self) -> Iterator[str]:
        """Yield what a reader must know: what could not be read, and what was cut."""
        end, transactions = self.seen.end, self._transactions
        for damaged in self.seen.damaged:
            yield f"log {Path(damaged['path']).name} is damaged: {damaged['message']}"
        for count, words in (
            (end["unreadable_lines"], "lines of the logs belong to no message"),
            (end["torn_messages"], "messages at the end of a log are cut and left out"),
            (end["incomplete_messages"], "messages lack a part that syslog lost, and are left out"),
            (end["nul_bytes"], "NUL bytes in the logs"),
            (end["not_utf8_texts"], "texts of the logs are not UTF-8"),
            (end["cut_messages"] + end["cut_statements"], "texts of the logs are too long"),
            (end["without_session"], "messages of the logs name no session"),
            (transactions.cut_count, "transactions began before the logs or ended after them"),
            (transactions.failed_count, "transactions of the logs failed; they are not reproduced"),
            (end["clock_steps"], "times of the logs go back: the clock was set"),
            (self.grouping.rare_count, "transactions are of more than 2,000 rare kinds"),
            (self._cut_values_count, "calls have parameters that the log does not show whole"),
            (self._elsewhere_count, "statements of the logs are of other databases"),
        ):
            if count:
                yield f"{words}: {count}"
        if self.is_partial:
            shortest_us = end["shortest_us"] or 0
            words = "statements are missing: the server's settings log only some of them"
            if shortest_us >= _SHORTEST_US:
                words = "fast statements are missing: no statement of the logs is faster than"
                words += f" {milliseconds(shortest_us / 1000)}, as with log_min_duration_statement"
            elif not self._request.logs_some:
                words = "fast statements are missing: the logs have durations without a statement:"
                words += f" {end['durations_alone']}"
            yield f"{words}; so rates and coverage are not known"
        if end["has_whole_seconds"]:
            yield "times of the logs are known to 1 s: %m in log_line_prefix has milliseconds"
        if self._unnamed_count:
            yield (
                "log_line_prefix has no %d, so statements of other databases of the server are"
                f" counted, too: {self._unnamed_count} statements without a database"
            )
        if self._cut_values_count > self._statement_count / 10:
            yield "parameters are missing: log_parameter_max_length = -1 logs them whole"


def _types(used: Iterable[LoggedStatement], types_of: TypesOf) -> dict[str, Sequence[str]]:
    """Return the types of the parameters of each statement, by its text."""
    asked = [s.parsed for s in used if s.parsed.parameters and not s.parsed.copies]
    known = {parsed.text: parsed.types for parsed in asked if parsed.types}
    unknown = {parsed.text for parsed in asked} - known.keys()
    return {**types_of(sorted(unknown)), **known}


def _with_logs(note: str) -> str:
    """Return a note of the statistics; without pg_stat_statements the load is that of the logs."""
    if not note.startswith(_NO_STATEMENTS):
        return note
    return f"{note.partition(';')[0]}; the logs have no rows, blocks and WAL of statements"


def advice(sample_ratio: float) -> str:
    """Return the statements that make a server log whole transactions, and what they cost.

    They are printed, never executed.
    """
    rate_mb = _EXAMPLE_TPS * sample_ratio * _LINES * _LINE_BYTES / 1e6
    return f"""\
-- Log whole transactions with their parameters. A superuser runs this; a reload is enough.
ALTER SYSTEM SET log_transaction_sample_rate = {sample_ratio:g};
ALTER SYSTEM SET log_parameter_max_length = -1;
ALTER SYSTEM SET log_line_prefix = '%m [%p] %q%u@%d %c %v ';  -- not needed for csvlog and jsonlog
SELECT pg_catalog.pg_reload_conf();
-- Price: about {_LINES * _LINE_BYTES / 1000:g} kB of log for each sampled transaction of
-- {_STATEMENTS} statements. At {_EXAMPLE_TPS} such transactions a second: {rate_mb:.2g} MB/s.
-- The log has values of rows, so it stays on the server. The capture has none.
-- Afterwards:
ALTER SYSTEM RESET log_transaction_sample_rate;
ALTER SYSTEM RESET log_parameter_max_length;
ALTER SYSTEM RESET log_line_prefix;
SELECT pg_catalog.pg_reload_conf();"""
