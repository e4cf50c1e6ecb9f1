"""The TPC-C-like program as a load: terminals, types with their limits, NOPM.

Source: TPC-C specification, revision 5.11: minimum mix 5.2.3, limits of the 90th percentile
5.2.5.3, deferred deliveries 2.7.2.2, terminals 4.2.1. No figure is called tpmC, because that name
belongs to audited results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.programs.program import Background, Program, TransactionType

NAME = "tpcc-like"
NEW_ORDER, DEFERRED = "new-order", "deferred-delivery"
TERMINALS_PER_WAREHOUSE = 10


def _pipelines(script: Mapping[str, Any]) -> bool:
    return bool(script.get("options", {}).get("mode") == "pipeline")


PROGRAM = Program(
    name=NAME,
    client_word="terminal",
    protocol="prepared",
    types=(
        TransactionType(NEW_ORDER, "New-Order", 5.0),
        TransactionType("payment", "Payment", 5.0, 0.43),
        TransactionType("order-status", "Order-Status", 5.0, 0.04),
        TransactionType("delivery", "Delivery", 5.0, 0.04),
        TransactionType("stock-level", "Stock-Level", 20.0, 0.04),
        TransactionType(DEFERRED, "deferred delivery", 80.0),
    ),
    background=Background("delivery", when="deferred", words="deliveries in the background"),
    clients_per_size=TERMINALS_PER_WAREHOUSE,
    size_word="warehouse",
    pipelines=_pipelines,
)
