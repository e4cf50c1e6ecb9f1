"""What the New-Orders of TPC-C drew: how many customers and items lie in equal intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from pgdyno.server.connect import Connection

# Warehouse, district and the first order that counts.
FirstOrder = tuple[int, int, int]

_LOADED_ORDERS = 3000


@dataclass(frozen=True, slots=True)
class Draw:
    """A kind of number that orders draw, from 1 to `value_count`, in `bin_count` intervals."""

    name: str
    query: LiteralString
    value_count: int
    bin_count: int


@dataclass(frozen=True, slots=True)
class DrawCounts:
    """Counts of the values of one kind; `outside_count` counts values outside the range."""

    name: str
    counts: tuple[int, ...]
    outside_count: int


# Payments have no row here: 60 % of their customers are found by last name, not by number.
DRAWS = (
    Draw(
        "customers",
        "SELECT floor((o_c_id - 1) * %(bins)s::float8 / %(most)s)::bigint AS bin, count(*)"
        " FROM orders JOIN unnest(%(w)s::int[], %(d)s::int[], %(o)s::int[]) AS first (w, d, o)"
        " ON o_w_id = w AND o_d_id = d WHERE o_id >= o GROUP BY 1",
        3000,
        16,
    ),
    Draw(
        "items",
        "SELECT floor((ol_i_id - 1) * %(bins)s::float8 / %(most)s)::bigint AS bin, count(*)"
        " FROM order_line JOIN unnest(%(w)s::int[], %(d)s::int[], %(o)s::int[]) AS first (w, d, o)"
        " ON ol_w_id = w AND ol_d_id = d WHERE ol_o_id >= o GROUP BY 1",
        100_000,
        64,
    ),
)


def next_orders(connection: Connection) -> list[FirstOrder]:
    """Return the number of the next order of each district."""
    rows = connection.execute(
        connection.qualified("SELECT d_w_id, d_id, d_next_o_id FROM district")
    ).fetchall()
    return [(int(row[0]), int(row[1]), int(row[2])) for row in rows]


def first_after_the_load(connection: Connection) -> list[FirstOrder]:
    """Return the number of the first order of each district that a load does not make."""
    return [(w, d, _LOADED_ORDERS + 1) for w, d, _ in next_orders(connection)]


def drawn_since(connection: Connection, first: Sequence[FirstOrder]) -> list[DrawCounts]:
    """Return what the orders drew, from the first of each district on.

    The session needs no statement_timeout.
    """
    warehouses, districts, orders = ([place[column] for place in first] for column in range(3))
    drawn = []
    for draw in DRAWS:
        places = {"w": warehouses, "d": districts, "o": orders}
        given = {"bins": draw.bin_count, "most": draw.value_count, **places}
        counts = {
            int(row[0]): int(row[1])
            for row in connection.execute(connection.qualified(draw.query), given)
        }
        within = tuple(counts.pop(place, 0) for place in range(draw.bin_count))
        drawn.append(DrawCounts(draw.name, within, sum(counts.values())))
    return drawn
