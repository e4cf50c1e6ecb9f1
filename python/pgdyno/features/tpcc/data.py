"""Counts what the orders of a TPC-C-like run drew: customers and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.features.tpcc.draws import FirstOrder, drawn_since, next_orders
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.conditions import OwnData


@dataclass(frozen=True, slots=True)
class Draws:
    """The first order of each district that a run makes, and the constant C of NURand.

    `c_last`: the constant with which the load drew last names.
    """

    first: Sequence[FirstOrder]
    c_last: int


class TpccData(OwnData):
    """Counts the customers and items of orders."""

    def before_run(self, connection: Connection, options: Mapping[str, str]) -> Draws | None:
        """Return the first orders of the run; None if the load's constant C is not known."""
        c_last = options.get("c_last", "")
        return Draws(next_orders(connection), int(c_last)) if c_last.isdecimal() else None

    def after_run(self, connection: Connection, before: Draws) -> dict[str, Any]:
        """Return the key "drawn": an entry for the customers and one for the items of the orders.

        `counts`: how often a number was drawn, in equal intervals of all numbers.
        """
        return {
            "drawn": [
                {
                    "name": drawn.name,
                    "counts": list(drawn.counts),
                    "outside_count": drawn.outside_count,
                    "load_c_last": before.c_last,
                }
                for drawn in drawn_since(connection, before.first)
            ]
        }


DATA = TpccData()
