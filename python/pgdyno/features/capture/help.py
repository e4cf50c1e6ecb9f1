"""Examples and main options of the verbs of capture."""

from __future__ import annotations

EXAMPLES = {
    "capture": (
        (
            "Half an hour of your own load; only reads, and keeps no values of rows",
            "pgdyno capture -h db1 -d bank --duration 30min -o bank.capture",
        ),
        ("Show everything in the file, for the security team", "pgdyno capture show bank.capture"),
    ),
}
MAIN: dict[str, str] = {}
MEANT: dict[tuple[str, str], str] = {
    ("capture", "-T"): "Use --duration TIME.",
    ("capture", "--time"): "Use --duration TIME.",
}
