"""Files of other TPC-C tools that become specs: the word after `pgdyno spec`, and the reader."""

from __future__ import annotations

from pgdyno.features.tpcc.benchmarksql import from_benchmarksql
from pgdyno.features.tpcc.hammerdb import from_hammerdb

TOOLS = {"from-benchmarksql": from_benchmarksql, "from-hammerdb": from_hammerdb}
