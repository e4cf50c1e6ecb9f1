"""Examples of the verbs of tpcc, and the options of its tables."""

from __future__ import annotations

from pgdyno.cli.kind_help import KindHelp

EXAMPLES = {
    "spec": (
        (
            "The experiment of a BenchmarkSQL file",
            "pgdyno spec from-benchmarksql props.pg -o spec.toml",
        ),
        (
            "The experiment of a HammerDB script, on a scratch server",
            "pgdyno spec from-hammerdb run.tcl --scratch -o spec.toml",
        ),
    ),
    "tpcc": (
        ("Load 10 warehouses (1 GB)", "pgdyno init tpcc -h db1 -d tpcc --warehouses 10"),
        (
            "Load with 8 connections",
            "pgdyno init tpcc -h db1 -d tpcc --warehouses 100 -j 8",
        ),
    ),
    "check": (
        ("Check the conditions in all warehouses", "pgdyno check tpcc -h db1 -d tpcc"),
        ("Write the verdicts as JSON", "pgdyno check tpcc -h db1 -d tpcc --json verdicts.json"),
    ),
}
MEANT: dict[tuple[str, str], str] = {}
TABLES = KindHelp(
    options="""
        Tables
        -W --warehouses N:1..1000000 *  Number of warehouses, about 100 MB each (default 1).
        --seed N:0..18446744073709551615
            Seed of the data (default 1). The same seed makes the same rows.
        --c-last N:0..255
            NURand's constant C for the last names in the data (default 157).
        -F --fillfactor N:10..100
            Fill factor of all tables in percent (default: a value for each table).
        --unlogged-tables (unlogged)  Create tables without WAL.
        --foreign-keys  Add foreign keys between the tables.
        --partitions N:0..2147483647
            Number of hash partitions by warehouse of each large table (default 0).
    """,
    loading="""
        Loading
        --distribute citus|  Distribute the tables over the nodes of Citus, by warehouse.
    """,
    check="tpcc: the twelve consistency conditions of TPC-C in all warehouses, and the items. The"
    " check also tests whether customers and items of the orders that were made after the load have"
    " the skew of NURand, with any constant C. This test does not change the exit code, because the"
    " orders of several runs together can differ from NURand.",
)
