"""The twelve consistency conditions of TPC-C, as set-based queries over all warehouses.

Source: TPC-C specification, revision 5.11, clauses 3.3.2.1 to 3.3.2.12. The specification states
condition 11 only for the loaded data; here it includes the deliveries that customers have counted,
so it also holds after a run.
"""

from __future__ import annotations

from typing import LiteralString

from pgdyno.server.dataset.conditions import ConsistencyRule

# A row for each order with lines: how many lines, how many of them have a date of delivery, and the
# amount of those. The lines of a delivered order have a date.
_LINES: LiteralString = (
    "(SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS present, count(ol_delivery_d) AS dated,"
    " sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) AS owed"
    " FROM order_line GROUP BY 1, 2, 3)"
)
_OF_ORDER: LiteralString = "ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
_IN_DISTRICTS: LiteralString = (
    "SELECT part, count(*) FILTER (WHERE said IS DISTINCT FROM present) AS uneven,"
    " sum(miscounted) AS miscounted, sum(misdated) AS misdated FROM ("
    "SELECT coalesce(o_w_id, ol_w_id) AS part, coalesce(o_d_id, ol_d_id) AS d, sum(o_ol_cnt)"
    " AS said, sum(present) AS present,"
    " count(*) FILTER (WHERE o_id IS NOT NULL AND o_ol_cnt IS DISTINCT FROM coalesce(present, 0))"
    " AS miscounted, sum(CASE WHEN o_id IS NULL THEN 0 WHEN o_carrier_id IS NULL THEN dated"
    " ELSE present - dated END) AS misdated"
    f" FROM orders FULL JOIN {_LINES} AS l ON {_OF_ORDER} GROUP BY 1, 2) AS district GROUP BY part"
)
_ORDERS: LiteralString = (
    "SELECT o_w_id AS warehouse, o_d_id AS district, o_id AS order_"
    f" FROM orders LEFT JOIN {_LINES} AS l ON {_OF_ORDER}"
)
_MONEY_OF_CUSTOMERS: LiteralString = (
    " FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(owed) AS owed"
    f" FROM orders JOIN {_LINES} AS l ON {_OF_ORDER} WHERE owed IS NOT NULL GROUP BY 1, 2, 3) AS o"
    " ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id"
    " LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history"
    " GROUP BY 1, 2, 3) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id"
)
_CUSTOMERS: LiteralString = (
    f"SELECT c_w_id AS warehouse, c_d_id AS district, c_id AS customer{_MONEY_OF_CUSTOMERS}"
)
_OF_CUSTOMERS: LiteralString = (
    "SELECT c_w_id AS part, count(*) FILTER (WHERE"
    " c_balance IS DISTINCT FROM coalesce(owed, 0) - coalesce(paid, 0)) AS wrong_balance,"
    " count(*) FILTER (WHERE c_balance + c_ytd_payment IS DISTINCT FROM coalesce(owed, 0))"
    f" AS wrong_sum{_MONEY_OF_CUSTOMERS} GROUP BY c_w_id"
)


def _rows(number: int, rule: str, violations: LiteralString) -> ConsistencyRule:
    """Return a condition from the query of its violations, whose first column is the warehouse."""
    query: LiteralString = (
        "SELECT warehouse AS part, count(*) AS violations FROM ("
        + violations
        + ") AS violation GROUP BY 1"
    )
    return ConsistencyRule(number, rule, query, violations)


# The help of `pgdyno check`. `data.py` examines the skew.

CONDITIONS: tuple[ConsistencyRule, ...] = (
    _rows(
        1,
        "w_ytd = sum(d_ytd)",
        "SELECT w_id AS warehouse FROM warehouse"
        " LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district"
        " GROUP BY 1) AS of_districts ON d_w_id = w_id WHERE w_ytd IS DISTINCT FROM ytd",
    ),
    _rows(
        2,
        "d_next_o_id - 1 = max(o_id) = max(no_o_id)",
        "SELECT d_w_id AS warehouse, d_id AS district FROM district"
        " LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last"
        " FROM orders GROUP BY 1, 2) AS o ON o_w_id = d_w_id AND o_d_id = d_id"
        " LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last FROM new_order GROUP BY 1, 2)"
        " AS n ON no_w_id = d_w_id AND no_d_id = d_id"
        " WHERE d_next_o_id - 1 IS DISTINCT FROM o.last"
        " OR (n.last IS NOT NULL AND n.last IS DISTINCT FROM o.last)",
    ),
    _rows(
        3,
        "max(no_o_id) - min(no_o_id) + 1 = rows of new_order in the district",
        "SELECT no_w_id AS warehouse, no_d_id AS district FROM new_order GROUP BY 1, 2"
        " HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    ConsistencyRule(
        4,
        "sum(o_ol_cnt) = rows of order_line in the district",
        _IN_DISTRICTS,
        "SELECT coalesce(o_w_id, ol_w_id) AS warehouse, coalesce(o_d_id, ol_d_id) AS district"
        f" FROM orders FULL JOIN {_LINES} AS l ON {_OF_ORDER} GROUP BY 1, 2"
        " HAVING sum(o_ol_cnt) IS DISTINCT FROM sum(present)",
        "uneven",
    ),
    _rows(
        5,
        "o_carrier_id is null exactly when new_order has the order",
        "SELECT coalesce(o_w_id, no_w_id) AS warehouse, coalesce(o_d_id, no_d_id) AS district,"
        " coalesce(o_id, no_o_id) AS order_ FROM (SELECT o_w_id, o_d_id, o_id FROM orders"
        " WHERE o_carrier_id IS NULL) AS o FULL JOIN new_order"
        " ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id"
        " WHERE o_id IS NULL OR no_o_id IS NULL",
    ),
    ConsistencyRule(
        6,
        "o_ol_cnt = rows of order_line of the order",
        _IN_DISTRICTS,
        f"{_ORDERS} WHERE o_ol_cnt IS DISTINCT FROM coalesce(present, 0)",
        "miscounted",
    ),
    ConsistencyRule(
        7,
        "ol_delivery_d is null exactly when o_carrier_id of the order is null",
        _IN_DISTRICTS,
        f"{_ORDERS} WHERE CASE WHEN o_carrier_id IS NULL THEN dated ELSE present - dated END > 0",
        "misdated",
    ),
    _rows(
        8,
        "w_ytd = sum(h_amount)",
        "SELECT w_id AS warehouse FROM warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid"
        " FROM history GROUP BY 1) AS h ON h_w_id = w_id"
        " WHERE w_ytd IS DISTINCT FROM coalesce(paid, 0)",
    ),
    _rows(
        9,
        "d_ytd = sum(h_amount) of the district",
        "SELECT d_w_id AS warehouse, d_id AS district FROM district"
        " LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history"
        " GROUP BY 1, 2) AS h ON h_w_id = d_w_id AND h_d_id = d_id"
        " WHERE d_ytd IS DISTINCT FROM coalesce(paid, 0)",
    ),
    ConsistencyRule(
        10,
        "c_balance = sum(ol_amount) of delivered orders - sum(h_amount)",
        _OF_CUSTOMERS,
        f"{_CUSTOMERS} WHERE c_balance IS DISTINCT FROM coalesce(owed, 0) - coalesce(paid, 0)",
        "wrong_balance",
    ),
    _rows(
        11,
        "orders - rows of new_order = 2,100 + sum(c_delivery_cnt) of the district",
        "SELECT d_w_id AS warehouse, d_id AS district FROM district"
        " LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS made"
        " FROM orders GROUP BY 1, 2) AS o ON o_w_id = d_w_id AND o_d_id = d_id"
        " LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS open FROM new_order GROUP BY 1, 2) AS n"
        " ON no_w_id = d_w_id AND no_d_id = d_id"
        " LEFT JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS delivered FROM customer"
        " GROUP BY 1, 2) AS c ON c_w_id = d_w_id AND c_d_id = d_id"
        " WHERE coalesce(made, 0) - coalesce(open, 0) IS DISTINCT FROM 2100 + delivered",
    ),
    ConsistencyRule(
        12,
        "c_balance + c_ytd_payment = sum(ol_amount) of delivered orders",
        _OF_CUSTOMERS,
        f"{_CUSTOMERS} WHERE c_balance + c_ytd_payment IS DISTINCT FROM coalesce(owed, 0)",
        "wrong_sum",
    ),
)


# Not a condition of TPC-C: every condition holds although items are missing.
ITEMS = ConsistencyRule(
    13,
    "item has the items 1 to 100,000",
    "SELECT 0 AS part, count(*) AS violations FROM generate_series(1, 100000) AS i"
    " WHERE NOT EXISTS (SELECT FROM item WHERE i_id = i)",
    "SELECT i AS item FROM generate_series(1, 100000) AS i"
    " WHERE NOT EXISTS (SELECT FROM item WHERE i_id = i)",
)
