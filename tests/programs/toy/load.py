from __future__ import annotations

from collections.abc import Mapping

from pgdyno.programs.program import Metric, Program, TransactionType

SALE = "toy-sale"


def _sales(completed_by_type: Mapping[str, int], seconds: float) -> float | None:
    completed = completed_by_type.get(SALE)
    return None if completed is None else completed * 3600 / seconds


PROGRAM = Program(
    name="toy",
    client_word="stall",
    protocol="extended",
    types=(TransactionType(SALE, "Sale", p90_limit_s=0.001),),
    metrics=(Metric("sales", "sales/h", "Sales completed per hour (toy)", "1/h", _sales),),
    clients_per_size=3,
    size_word="street",
)
