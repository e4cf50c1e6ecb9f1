"""Examples of the verbs of watch."""

from __future__ import annotations

EXAMPLES = {
    "watch": (
        ("Observe a server for one hour", "pgdyno watch -h db1 -d bank --duration 1h"),
        (
            "Print every statement that watch may send, for the security team",
            "pgdyno watch --print-sql",
        ),
    ),
}
MEANT: dict[tuple[str, str], str] = {
    ("watch", "-T"): "Use --duration TIME.",
    ("watch", "--time"): "Use --duration TIME.",
    ("watch", "-P"): "Use --interval TIME.",
}
