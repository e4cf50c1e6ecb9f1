"""The options of each kind of dataset, as tables of text.

No model of a kind is needed for them, so that `--help` is quick; a test compares both.
"""

from __future__ import annotations

from pgdyno.cli.option_table import lines_of
from pgdyno.feature import KindHelp, features

_PGBENCH = KindHelp(
    options="""
                Tables
                -s --scale N:1..2147483647 *
                    Scale factor, 100,000 accounts and 15 MB each (default 10; for init 1).
                -F --fillfactor N:10..100  Fill factor of the tables in percent (default 100).
                --unlogged-tables (unlogged)  Create tables without WAL.
                --foreign-keys  Add foreign keys between the tables.
                --partitions N:0..2147483647  Number of partitions of pgbench_accounts (default 0).
                --partition-method range|hash  Partitioning method (default range).
            """,
    loading="""
                Loading
                -I --init-steps (steps) STEPS
                    Steps to run, in the given order: d(rop) t(ables) g(enerate) G(enerate on the
                    server) v(acuum) p(rimary keys) f(oreign keys), as in pgbench.
                --distribute SERVER[:COLUMN]
                    Distribute the tables over the nodes of citus or greenplum, by account (:aid,
                    default) or by branch (:bid).
            """,
    jobs="(default 1; 2 for partitions). With at least 2, ranges of accounts are loaded in"
    " parallel. VACUUM freezes them afterwards, which is more work for the server.",
)
KIND_HELP = {"pgbench": _PGBENCH} | {
    name: said for feature in features() for name, said in feature.kinds.items()
}


def kind_help(name: str) -> KindHelp:
    """Return what help says of a kind; a kind of which it says nothing has no options."""
    return KIND_HELP.get(name, KindHelp())


def option_fields(name: str) -> list[str]:
    """Return the fields of the model of a kind's tables that are options of the command line."""
    return [line.field for line in lines_of(kind_help(name).options)]
