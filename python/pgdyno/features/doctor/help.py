"""Examples of the verbs of doctor."""

from __future__ import annotations

EXAMPLES = {
    "doctor": (
        ("Is this host ready for measuring?", "pgdyno doctor"),
        ("Check a server, and what its role may do", "pgdyno doctor -h db1 -d bank --all"),
    ),
}
MEANT: dict[tuple[str, str], str] = {}
