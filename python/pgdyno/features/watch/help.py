"""Examples of the verbs of watch."""

from __future__ import annotations

EXAMPLES = {
    "watch": (
        ("Observe a server for one hour", "pgdyno watch -h db1 -d bank --duration 1h"),
        (
            "What was different from 14:00 to 14:10, compared with the rest of result 14",
            "pgdyno watch --of 14 --compare-to 14:00-14:10",
        ),
    ),
}
MEANT: dict[tuple[str, str], str] = {
    ("watch", "-T"): "Use --duration TIME.",
    ("watch", "--time"): "Use --duration TIME.",
    ("watch", "-P"): "Use --interval TIME.",
}
