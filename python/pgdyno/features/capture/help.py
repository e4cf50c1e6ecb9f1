"""Examples of the verbs of capture."""

from __future__ import annotations

EXAMPLES = {
    "init capture": (
        ("The same tables as captured, with other rows", "pgdyno init bank.capture -h db2 -d copy"),
        (
            "A tenth of the rows, on a scratch server that stays",
            "pgdyno init bank.capture --scratch --fraction 0.1 --keep",
        ),
    ),
    "capture": (
        (
            "Half an hour of your own load; only reads, and keeps no values of rows",
            "pgdyno capture -h db1 -d bank --duration 30min -o bank.capture",
        ),
        ("Show everything in the file, for the security team", "pgdyno capture show bank.capture"),
    ),
}
MEANT: dict[tuple[str, str], str] = {
    ("capture", "-T"): "Use --duration TIME.",
    ("capture", "--time"): "Use --duration TIME.",
}
