"""Examples of the verbs of crash."""

from __future__ import annotations

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
