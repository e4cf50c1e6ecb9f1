"""Consistency conditions of a dataset: queries for rows that contradict each other.

The file `data.py` of a program's folder may examine more (`OwnData`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from pgdyno.clock import monotonic_ns
from pgdyno.programs.program import Program
from pgdyno.programs.registry import part_of
from pgdyno.server.connect import Connection

if TYPE_CHECKING:
    from pgdyno.server.connect import Connection

# Grouping 5,000,000 rows needs up to 100 MB. Compiling takes longer than it saves.
_FASTER: LiteralString = (
    "SELECT set_config('jit', 'off', true), set_config('work_mem', greatest(32 * 1024,"
    " pg_size_bytes(current_setting('work_mem')) / 1024) || 'kB', true)"
)


@dataclass(frozen=True, slots=True)
class ConsistencyRule:
    """One condition: its rule, and a query with a row for each part of the data.

    A part is a unit of the dataset's size (`DatasetKind.part_word`). The column `part` has its
    number, 0 for rows of no part, and `column` has the number of violations. Conditions on the same
    rows share a query, so that a check reads the largest table twice and not five times.
    """

    number: int
    rule: str
    query: LiteralString
    violating: LiteralString
    """A query of the rows that violate it. Its columns are named as people say: "customer"."""
    column: str = "violations"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Violations of a condition by part of the data; a part without a violation has no entry.

    `duration_ns`: of its query, divided by the number of conditions that share the query.
    """

    condition: ConsistencyRule
    violations_by_part: dict[int, int]
    duration_ns: int
    first_rows: tuple[str, ...] = ()
    """The first rows that violate it, such as "district 3, order 2101"."""

    @property
    def violation_count(self) -> int:
        """Return the violations of all parts."""
        return sum(self.violations_by_part.values())


def check(connection: Connection, conditions: tuple[ConsistencyRule, ...]) -> Iterator[Verdict]:
    """Yield the verdict of each condition in one read-only snapshot, in the order of the queries.

    The session needs no statement_timeout.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(_FASTER)
        for query in dict.fromkeys(condition.query for condition in conditions):
            yield from judge(connection, [c for c in conditions if c.query == query])


def judge(connection: Connection, conditions: Sequence[ConsistencyRule]) -> list[Verdict]:
    """Return the verdicts of conditions that share a query, as the session sees the tables now."""
    from psycopg.rows import dict_row

    began_ns = monotonic_ns()
    rows = (
        connection.cursor(row_factory=dict_row)
        .execute(connection.qualified(conditions[0].query))
        .fetchall()
    )
    each_ns = (monotonic_ns() - began_ns) // len(conditions)
    verdicts = []
    for condition in conditions:
        counts = {int(row["part"]): int(row[condition.column] or 0) for row in rows}
        violations = {part: count for part, count in counts.items() if count}
        named = _first_rows(connection, condition) if violations else ()
        verdicts.append(Verdict(condition, violations, each_ns, named))
    return verdicts


def _first_rows(connection: Connection, condition: ConsistencyRule) -> tuple[str, ...]:
    """Return the first rows that violate a condition, in words and in their order."""
    from psycopg.rows import dict_row

    query: LiteralString = (
        "SELECT * FROM (" + condition.violating + ") AS violating ORDER BY violating LIMIT 10"
    )
    rows = connection.cursor(row_factory=dict_row).execute(connection.qualified(query)).fetchall()
    return tuple(
        ", ".join(f"{name.rstrip('_')} {value}" for name, value in row.items()) for row in rows
    )


class OwnData:
    """The base of all programs, which examines nothing but the conditions."""

    def before_run(
        self,
        connection: Connection,  # noqa: ARG002
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Any:
        """Return a note by which `after_run` finds the rows of the run; None: nothing is examined.

        Args: options, of the dataset, as its mark has them.
        """
        return None

    def after_run(self, connection: Connection, before: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return keys for the stored result of the check. The session has no statement_timeout.

        Args: before, the note of `before_run`.
        """
        return {}


def own_data(program: Program) -> OwnData:
    """Return what a program examines in its data."""
    part = part_of(program, "data")
    data = OwnData() if part is None else part.DATA
    assert isinstance(data, OwnData), f"DATA of {program.name} is an OwnData"
    return data
