"""Examples of the verbs of tpcc."""

from __future__ import annotations

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
