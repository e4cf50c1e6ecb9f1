"""Examples and main options of the verbs of crash."""

from __future__ import annotations

from pgdyno.cli.option_words import PSQL

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
MAIN: dict[str, str] = {
    "crash": "--kind --crashes --seed --clients --check-sql --recovery-timeout --no-controls "
    "--standby --scratch --pg-version --data-dir --set --store --name --json",
    "ledger": f"{PSQL} --accounts --load-jobs --restart --print-sql --confirm --json --quiet",
}
MEANT: dict[tuple[str, str], str] = {}
