"""The twelve consistency conditions of TPC-C, each one set-based query over all warehouses.

Source: TPC-C specification, revision 5.11, clauses 3.3.2.1 to 3.3.2.12. The specification states
condition 11 only for the loaded data; here it includes the deliveries that customers have counted,
so it also holds after a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from pgdyno.clock import monotonic_ns
from pgdyno.server.connect import Connection

# The amount that customers owe for delivered orders. The lines of a delivered order have a date.
_DELIVERED: LiteralString = (
    "(SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, sum(ol_amount) AS amount"
    " FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
    " WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3)"
)
_PAID: LiteralString = (
    "(SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS amount"
    " FROM history GROUP BY 1, 2, 3)"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its rule, and the query that returns the warehouse of each violation as w."""

    number: int
    rule: str
    violations: LiteralString


@dataclass(frozen=True, slots=True)
class Verdict:
    """Violations of a condition by warehouse; a warehouse without a violation has no entry."""

    condition: Condition
    violations_by_warehouse: dict[int, int]
    duration_ns: int

    @property
    def violation_count(self) -> int:
        """Return the violations of all warehouses."""
        return sum(self.violations_by_warehouse.values())


CONDITIONS = (
    Condition(
        1,
        "w_ytd = sum(d_ytd)",
        "SELECT w_id AS w FROM warehouse LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district"
        " GROUP BY 1) AS of_districts ON d_w_id = w_id WHERE w_ytd IS DISTINCT FROM ytd",
    ),
    Condition(
        2,
        "d_next_o_id - 1 = max(o_id) = max(no_o_id)",
        "SELECT d_w_id AS w FROM district LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last"
        " FROM orders GROUP BY 1, 2) AS o ON o_w_id = d_w_id AND o_d_id = d_id"
        " LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last FROM new_order GROUP BY 1, 2)"
        " AS n ON no_w_id = d_w_id AND no_d_id = d_id"
        " WHERE d_next_o_id - 1 IS DISTINCT FROM o.last"
        " OR (n.last IS NOT NULL AND n.last IS DISTINCT FROM o.last)",
    ),
    Condition(
        3,
        "max(no_o_id) - min(no_o_id) + 1 = rows of new_order in the district",
        "SELECT no_w_id AS w FROM new_order GROUP BY no_w_id, no_d_id"
        " HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    Condition(
        4,
        "sum(o_ol_cnt) = rows of order_line in the district",
        "SELECT coalesce(o.w, l.w) AS w FROM (SELECT o_w_id AS w, o_d_id AS d,"
        " sum(o_ol_cnt) AS said FROM orders GROUP BY 1, 2) AS o FULL JOIN"
        " (SELECT ol_w_id AS w, ol_d_id AS d, count(*) AS present FROM order_line GROUP BY 1, 2)"
        " AS l ON l.w = o.w AND l.d = o.d WHERE said IS DISTINCT FROM present",
    ),
    Condition(
        5,
        "o_carrier_id is null exactly when new_order has the order",
        "SELECT coalesce(o_w_id, no_w_id) AS w FROM (SELECT o_w_id, o_d_id, o_id FROM orders"
        " WHERE o_carrier_id IS NULL) AS o FULL JOIN new_order"
        " ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id"
        " WHERE o_id IS NULL OR no_o_id IS NULL",
    ),
    Condition(
        6,
        "o_ol_cnt = rows of order_line of the order",
        "SELECT o_w_id AS w FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id,"
        " count(*) AS present FROM order_line GROUP BY 1, 2, 3) AS l"
        " ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
        " WHERE o_ol_cnt IS DISTINCT FROM coalesce(present, 0)",
    ),
    Condition(
        7,
        "ol_delivery_d is null exactly when o_carrier_id of the order is null",
        "SELECT o_w_id AS w FROM orders JOIN order_line"
        " ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
        " WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    Condition(
        8,
        "w_ytd = sum(h_amount)",
        "SELECT w_id AS w FROM warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid"
        " FROM history GROUP BY 1) AS h ON h_w_id = w_id"
        " WHERE w_ytd IS DISTINCT FROM coalesce(paid, 0)",
    ),
    Condition(
        9,
        "d_ytd = sum(h_amount) of the district",
        "SELECT d_w_id AS w FROM district LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid"
        " FROM history GROUP BY 1, 2) AS h ON h_w_id = d_w_id AND h_d_id = d_id"
        " WHERE d_ytd IS DISTINCT FROM coalesce(paid, 0)",
    ),
    Condition(
        10,
        "c_balance = sum(ol_amount) of delivered orders - sum(h_amount)",
        f"SELECT c_w_id AS w FROM customer LEFT JOIN {_DELIVERED} AS owed"
        " ON owed.w = c_w_id AND owed.d = c_d_id AND owed.c = c_id"
        f" LEFT JOIN {_PAID} AS paid ON paid.w = c_w_id AND paid.d = c_d_id AND paid.c = c_id"
        " WHERE c_balance IS DISTINCT FROM coalesce(owed.amount, 0) - coalesce(paid.amount, 0)",
    ),
    Condition(
        11,
        "orders - rows of new_order = 2,100 + sum(c_delivery_cnt) of the district",
        "SELECT d_w_id AS w FROM district LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS made"
        " FROM orders GROUP BY 1, 2) AS o ON o_w_id = d_w_id AND o_d_id = d_id"
        " LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS open FROM new_order GROUP BY 1, 2) AS n"
        " ON no_w_id = d_w_id AND no_d_id = d_id"
        " LEFT JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS delivered FROM customer"
        " GROUP BY 1, 2) AS c ON c_w_id = d_w_id AND c_d_id = d_id"
        " WHERE coalesce(made, 0) - coalesce(open, 0) IS DISTINCT FROM 2100 + delivered",
    ),
    Condition(
        12,
        "c_balance + c_ytd_payment = sum(ol_amount) of delivered orders",
        f"SELECT c_w_id AS w FROM customer LEFT JOIN {_DELIVERED} AS owed"
        " ON owed.w = c_w_id AND owed.d = c_d_id AND owed.c = c_id"
        " WHERE c_balance + c_ytd_payment IS DISTINCT FROM coalesce(owed.amount, 0)",
    ),
)


def check(
    connection: Connection, conditions: tuple[Condition, ...] = CONDITIONS
) -> Iterator[Verdict]:
    """Yield the verdict of each condition, one after another, in one read-only snapshot.

    The session needs no statement_timeout.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for condition in conditions:
            yield judge(connection, condition)


def judge(connection: Connection, condition: Condition) -> Verdict:
    """Return the verdict of one condition, as the session sees the tables now."""
    began_ns = monotonic_ns()
    query = sql.SQL("SELECT w, count(*) FROM ({}) AS violation GROUP BY w ORDER BY w")
    rows = connection.execute(query.format(sql.SQL(condition.violations))).fetchall()
    violations = {int(row[0]): int(row[1]) for row in rows}
    return Verdict(condition, violations, monotonic_ns() - began_ns)
