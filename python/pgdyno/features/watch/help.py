"""Examples and main options of the verbs of watch."""

from __future__ import annotations

from pgdyno.cli.option_words import PSQL

EXAMPLES = {
    "watch": (
        ("Observe a server for one hour", "pgdyno watch -h db1 -d bank --duration 1h"),
        (
            "What was different from 14:00 to 14:10, compared with the rest of result 14",
            "pgdyno watch --of 14 --compare-to 14:00-14:10",
        ),
    ),
}
MAIN: dict[str, str] = {
    "watch": f"{PSQL} --ssh --host-shell --pooler --duration --interval --compare-to --of --note "
    "--print-sql --store --json",
}
MEANT: dict[tuple[str, str], str] = {
    ("watch", "-T"): "Use --duration TIME.",
    ("watch", "--time"): "Use --duration TIME.",
    ("watch", "-P"): "Use --interval TIME.",
}
