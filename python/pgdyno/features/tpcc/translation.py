"""Files of other TPC-C tools that become specs: the word after `pgdyno spec`, and the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.spec.translation import Translated


def _from_benchmarksql(text: str, name: str, *, is_scratch: bool) -> Translated:
    from pgdyno.features.tpcc.benchmarksql import from_benchmarksql

    return from_benchmarksql(text, name, is_scratch=is_scratch)


def _from_hammerdb(text: str, name: str, *, is_scratch: bool) -> Translated:
    from pgdyno.features.tpcc.hammerdb import from_hammerdb

    return from_hammerdb(text, name, is_scratch=is_scratch)


TOOLS = {"from-benchmarksql": _from_benchmarksql, "from-hammerdb": _from_hammerdb}
