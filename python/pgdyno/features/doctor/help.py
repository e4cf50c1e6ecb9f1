"""Examples and main options of the verbs of doctor."""

from __future__ import annotations

from pgdyno.cli.option_words import PSQL

EXAMPLES = {
    "doctor": (
        ("Is this host ready for measuring?", "pgdyno doctor"),
        ("Check a server, and what its role may do", "pgdyno doctor -h db1 -d bank --all"),
    ),
}
MAIN: dict[str, str] = {
    "doctor": f"{PSQL} --ram --flush --ssh --host-shell --all --grants --check --print-sql "
    "--json --aa --budget",
}
MEANT: dict[tuple[str, str], str] = {}
