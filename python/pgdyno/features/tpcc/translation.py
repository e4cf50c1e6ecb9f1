"""Files of other TPC-C tools that become specs: the word after `pgdyno spec`, and the reader."""

from __future__ import annotations

from pgdyno.feature import at_first_call

TOOLS = {
    "from-benchmarksql": at_first_call("pgdyno.features.tpcc.benchmarksql:from_benchmarksql"),
    "from-hammerdb": at_first_call("pgdyno.features.tpcc.hammerdb:from_hammerdb"),
}
