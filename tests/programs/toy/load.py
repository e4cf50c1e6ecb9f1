from __future__ import annotations

from pgdyno.feature import Metric
from pgdyno.programs.program import Program, TransactionType

SALE = "toy-sale"
SALES = Metric("sales", "sales/h", "Sales completed per hour (toy)", "1/h", SALE, 3600)


PROGRAM = Program(
    name="toy",
    client_word="stall",
    protocol="extended",
    types=(TransactionType(SALE, "Sale", p90_limit_s=0.001),),
    clients_per_size=3,
    size_word="street",
)
