"""Examples of the verbs of tune."""

from __future__ import annotations

EXAMPLES = {
    "tune": (
        ("Which settings make this load faster? On a scratch server", "pgdyno tune -s 50 -c 8"),
        (
            "Search one setting in a range, at most 20 minutes",
            "pgdyno tune -s 50 -c 8 --setting max_wal_size=64MB..4GB --budget 20min",
        ),
    ),
    "settings": (
        ("Which settings of this server need attention?", "pgdyno settings -h db1 -d bank"),
        (
            "Check a file for a host with 64 GB of memory",
            "pgdyno settings --file postgresql.conf --pg-version 18 --ram 64GB",
        ),
    ),
    "work-mem": (
        ("How many temporary files did this server write?", "pgdyno work-mem -h db1 -d bank"),
        (
            "Try the statements of a file on a scratch server",
            "pgdyno work-mem --scratch -s 10 -f report.sql",
        ),
    ),
}
MEANT: dict[tuple[str, str], str] = {}
