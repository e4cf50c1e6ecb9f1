"""Examples of the verbs of crash, and the options of the ledger's tables."""

from __future__ import annotations

from pgdyno.cli.kind_help import KindHelp

EXAMPLES = {
    "crash": (
        ("Does a crash of the server lose anything?", "pgdyno crash --crashes 20"),
        (
            "What does a power failure lose with synchronous_commit = off?",
            "pgdyno crash --kind power --set synchronous_commit=off",
        ),
    ),
    "ledger": (
        ("Load accounts for 64 clients", "pgdyno init ledger -h db1 -d ledger --accounts 64"),
        ("Put load on them", "pgdyno bench -h db1 -d ledger --builtin ledger -c 64"),
    ),
}
MEANT: dict[tuple[str, str], str] = {}
TABLES = KindHelp(
    options="""
        Tables
        --accounts N:1..1000000 *
            Number of accounts, at least one for each client of a load (default 1000).
    """,
    jobs="(default 1): one connection loads the only table that has rows.",
)
